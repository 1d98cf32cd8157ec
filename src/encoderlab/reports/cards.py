"""The README.md of a saved or exported model: metadata for the Hugging Face hub, scores, and how it was made.

Nothing is invented: the owner chooses a licence, and a language or a dataset is named only if the run knows it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from encoderlab.batch import HeadSizes
from encoderlab.reports.facts import Facts, changed_settings, machine, origin, repeat_line, split_facts
from encoderlab.reports.page import render
from encoderlab.reports.preparation import BASELINE_NAMES
from encoderlab.reports.pretraining import PRETRAINING_BASELINES, metric_name
from encoderlab.reports.tables import checkpoint_words, named_score, score, shown, with_interval, words_of

MOST_LABELS = 20
METRICS: dict[str, tuple[str, dict[str, Any]]] = {  # the hub's name of each of our scores, and its arguments
    "accuracy": ("accuracy", {}),
    "token_accuracy": ("accuracy", {}),
    "entity_precision": ("precision", {}),
    "entity_recall": ("recall", {}),
    "entity_f1": ("f1", {}),
    "f1": ("f1", {}),
    "f1_micro": ("f1", {"average": "micro"}),
    "f1_macro": ("f1", {"average": "macro"}),
    "f1_weighted": ("f1", {"average": "weighted"}),
    "matthews": ("matthews_correlation", {}),
    "roc_auc": ("roc_auc", {}),
    "pearson": ("pearsonr", {}),
    "spearman": ("spearmanr", {}),
    "mae": ("mae", {}),
    "rmse": ("mse", {"squared": False}),
    "mlm_accuracy": ("accuracy", {}),
    "mlm_perplexity": ("perplexity", {}),
    "nsp_accuracy": ("accuracy", {}),
}
USE = 'Use it with `encoderlab predict run=<this folder> text="..."`.'  # left out where encoderlab cannot open it
USE_ENCODER = (
    "Finetune it with `encoderlab finetune task=... init_from=<this folder>`; "
    "get its vectors with `encoderlab embed run=<this folder> input=... output=vectors.npy`."
)
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


def model_card(report: Mapping[str, Any], facts: Facts, labels: Sequence[str] = ()) -> str:
    """Return the card of a trained model from its report.json; `labels` are those it predicts, none for an encoder."""
    scored = report["splits"][report["scored_split"]]
    main, is_encoder = report["main_figure"], "mlm_accuracy" in scored or "teacher" in report
    names = {**BASELINE_NAMES, **PRETRAINING_BASELINES}
    lines = [] if is_encoder else [_predicts(labels)]
    if "teacher" in report:
        lines.append(f"Teacher: `{shown(report['teacher'])}`")
    where = f"on {report['scored_split']} ({scored['n']:,} rows)"
    lines.append(f"{plain(named_score(main, scored))} {where}: {with_interval(scored, main)}")
    lines.append(f"Weights of {checkpoint_words(report['checkpoint'])}")
    lines += [plain(note) for note in report["notes"]]
    baselines = [
        f"{names.get(name, name)}: {named_score(main, scored)} {score(baseline[main])}"
        for name, baseline in report["baselines"].items()
        if baseline.get(main) is not None
    ]
    pipeline = "feature-extraction" if "teacher" in report else "fill-mask" if is_encoder else "text-classification"
    card = render(
        "card.md",
        report=report,
        start=f"started from `{report['init_from']}`" if report.get("init_from") else "trained from scratch",
        lines=lines,
        use=USE_ENCODER if is_encoder else USE,
        results=_results(report),
        baselines=baselines,
        splits=split_facts(facts),
        origin=origin(facts),
        settings=changed_settings(facts),
        machine=machine(facts),
        repeat=repeat_line(facts),
        plain=plain,
    )
    return front_matter(report, facts, "token-classification" if "token_accuracy" in scored else pipeline) + card


def _predicts(labels: Sequence[str]) -> str:
    named = [f'"{plain(shown(label, 60))}"' for label in labels[:MOST_LABELS]]
    more = [f"and {len(labels) - MOST_LABELS} more"] if len(labels) > MOST_LABELS else []
    return f"Labels: {', '.join([*named, *more])}" if labels else "Predicts a number"


def _results(report: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return each score's name in words, with its value on each split."""
    splits = report["splits"].values()
    first = next(iter(splits))
    rows = {
        named_score(metric_name(name, report), first): [score(split.get(name)) for split in splits]
        for name, value in first.items()
        if isinstance(value, float)
    }
    if all("calibration" in split for split in splits):
        rows["expected calibration error"] = [score(split["calibration"]["ece"]) for split in splits]
    return rows


def front_matter(report: Mapping[str, Any], facts: Facts, pipeline: str) -> str:
    """Return the hub's metadata as YAML between lines of dashes; `pipeline` is the hub's name of the task."""
    from huggingface_hub import EvalResult, ModelCardData

    source = origin(facts)
    hub = source.get("path") if source.get("source") == "hub" else None
    results = [
        EvalResult(
            task_type=pipeline,
            dataset_type=hub or report["task"],
            dataset_name=hub or report["task"],
            dataset_config=source.get("name") if hub else None,
            dataset_split=split,
            metric_type=METRICS[name][0],
            metric_name=words_of(name),
            metric_args=METRICS[name][1] or None,
            metric_value=round(value, 6),
        )
        for split, name, value in _hub_scores(report)
    ]
    language = next((one["value"] for one in facts["settings"] if one["name"] == "dataset.language"), None)
    start = report.get("init_from") or ""
    data = ModelCardData(
        language=language if language and re.fullmatch("[a-z]{2,3}", language) else None,
        library_name="encoderlab",
        tags=["encoderlab", "transformer-encoder"],
        pipeline_tag=pipeline,
        datasets=[hub] if hub else None,
        metrics=sorted({result.metric_type for result in results}),
        base_model=start if HUB_NAME.fullmatch(start) and not Path(start).exists() else None,
        model_name=f"encoderlab {report['task']}",
        eval_results=results or None,
    )
    return f"---\n{data.to_yaml()}\n---\n\n"


def _hub_scores(report: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Yield split, name and value of every score that the hub has a metric for."""
    for split, scores in report["splits"].items():
        yield from ((split, name, scores[name]) for name in METRICS if scores.get(name) is not None)


def plain(value: str) -> str:
    """Return the value in one line with Markdown's special characters escaped."""
    return re.sub(r"([<>`\[\]])", r"\\\1", shown(value))


def export_card(card: str, library: str, *sections: str) -> str:
    """Return the card for an exported folder that `library` opens, such as transformers, with sections on its use.

    A card without metadata gets some.
    """
    from huggingface_hub import ModelCard, ModelCardData

    text = "\n".join([card.replace(f"{USE}\n\n", ""), *filter(None, sections)])
    read = ModelCard(text, ignore_metadata_errors=True)
    assert isinstance(read.data, ModelCardData)
    read.data.library_name = library
    return str(read)


OPENED_BY = {  # the class of transformers that opens an architecture, by the end of its name
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForTokenClassification": "AutoModelForTokenClassification",
    "ForMaskedLM": "AutoModelForMaskedLM",
    "ForPreTraining": "BertForPreTraining",
    "Model": "AutoModel",
}
READ_OUTPUT = {  # how to print what such a class returns, by the class or the kind of problem
    "single_label_classification": "print(model.config.id2label[int(output.logits.argmax())])",
    "two_labels": (
        "label, threshold = next(iter(model.config.thresholds.items()))\nindex = model.config.label2id[label]\n"
        "probability = float(output.logits.softmax(-1)[0, index])\n"
        "print(model.config.id2label[index if probability >= threshold else 1 - index])"
    ),
    "multi_label_classification": (
        "probabilities = zip(model.config.id2label.values(), output.logits[0].sigmoid().tolist())\n"
        "print([label for label, probability in probabilities if probability >= model.config.thresholds[label]])"
    ),
    "regression": "print(float(output.logits))",
    "AutoModelForTokenClassification": "print([model.config.id2label[int(n)] for n in output.logits[0].argmax(-1)])",
    "AutoModelForMaskedLM": "print(tokenizer.convert_ids_to_tokens(output.logits[0].argmax(-1)))",
    "BertForPreTraining": "print(tokenizer.convert_ids_to_tokens(output.prediction_logits[0].argmax(-1)))",
    "AutoModel": "print(output.last_hidden_state.shape)",
}
READ_VECTORS = {  # how to print what `encode` of sentence-transformers returns, by the kind of target
    "label": "labels = model[0].auto_model.config.id2label\nprint([labels[row.argmax()] for row in outputs])",
    "label_set": (
        "config = model[0].auto_model.config\nprobabilities = 1 / (1 + np.exp(-outputs))\n"
        "thresholds = [config.thresholds[label] for label in config.id2label.values()]\n"
        "print([[config.id2label[label] for label in np.flatnonzero(row >= thresholds)] for row in probabilities])"
    ),
    "number": "print(outputs[:, 0])",
}


def _opened_by(fields: Mapping[str, Any]) -> str:
    return next(name for end, name in OPENED_BY.items() if fields["architectures"][0].endswith(end))


def line_that_opens(fields: Mapping[str, Any], path: str) -> str:
    """Return a command line that opens the folder `path` in transformers."""
    name = _opened_by(fields)
    code = f"from transformers import {name}; print({name}.from_pretrained({json.dumps(path, ensure_ascii=False)}))"
    return f"python -c {shlex.quote(code)}"


def huggingface_section(fields: Mapping[str, Any]) -> str:
    """Return the section about transformers; `fields` is the content of the folder's config.json."""
    name, problem = _opened_by(fields), fields.get("problem_type", "single_label_classification")
    problem = "two_labels" if problem == "single_label_classification" and "thresholds" in fields else problem
    read = READ_OUTPUT[problem if name == "AutoModelForSequenceClassification" else name]
    return (
        "## With transformers\n\n```python\nimport torch\n"
        f"from transformers import {name}, AutoTokenizer\n\n"
        'folder = "path/to/this/folder"\n'
        f"tokenizer, model = AutoTokenizer.from_pretrained(folder), {name}.from_pretrained(folder)\n"
        'inputs = tokenizer("A text to read.", truncation=True, return_tensors="pt")\n'
        f"with torch.inference_mode():\n    output = model(**inputs)\n{read}\n```\n"
    )


def sentence_transformers_section(heads: HeadSizes, *, answers: bool, paired: bool) -> str:
    """Return the section about sentence-transformers. `answers`: the folder has the head of `heads`; `paired`: it reads
    pairs.
    """
    returned, read = "a vector for each text", "print(outputs.shape)"
    if answers:
        returned = "the number" if heads.sequence_target == "number" else "a logit for each class"
        read = READ_VECTORS[heads.sequence_target]
    pairs, single = '[("A text.", "And another."), ("One more.", "The last.")]', '["A text to read.", "Another one."]'
    numpy = "import numpy as np\n" if "np." in read else ""
    return (
        f"## With sentence-transformers\n\n`encode` returns {returned}.\n\n```python\n{numpy}"
        "from sentence_transformers import SentenceTransformer\n\n"
        f'model = SentenceTransformer("path/to/this/folder")\noutputs = model.encode({pairs if paired else single})\n'
        f"{read}\n```\n"
    )


def onnx_section(fields: Mapping[str, Any], *, opened: bool) -> str:
    """Return the section about ONNX; `fields` is the folder's config.json, and `opened` tells whether encoderlab opens
    it too.
    """
    text = "A text.\\tAnd another." if fields["paired"] else "A text to read."
    shell = f"$'{text}'" if fields["paired"] else f'"{text}"'
    ours = " `encoderlab predict` and `serve` open this folder with `run=<this folder>`." if opened else ""
    outputs = "Its outputs" if fields["precision"] == "fp32" else "Before quantization, its outputs"
    return (
        f"## With onnxruntime\n\nmodel.onnx (opset {fields['opset']}) takes batches of any size, with up to "
        f"{fields['max_length']} tokens per row. {outputs} were compared with the model's own on batches of several "
        f"sizes and lengths; they differ by at most {fields['largest_difference']:.1e} of the largest output (allowed: "
        f"{fields['tolerance']:g}).{ours}\n\n"
        "predict.py predicts texts and is short enough to copy into your own program. It needs "
        "`pip install numpy onnxruntime tokenizers`.\n\n"
        f"```\npython predict.py {shell}\npython predict.py < texts.txt\n```\n\n"
        "From Python:\n\n```python\nfrom pathlib import Path\n\nfrom predict import predict\n\n"
        f'print(predict(["{text}"], Path("path/to/this/folder")))\n```\n'
    )


class Windows(Protocol):
    """How long texts were read in windows: at most `most`, which share a part with the next, with pooled logits."""

    @property
    def pooling(self) -> str: ...  # noqa: D102
    @property
    def most(self) -> int: ...  # noqa: D102
    @property
    def overlap(self) -> float: ...  # noqa: D102


def windows_section(windows: Windows | None, max_length: int, reader: str = "This folder") -> str:
    """Return the section on what the `reader` of an export truncates; "" if the run did not read windows."""
    if windows is None:
        return ""
    pooled = {"mean": "averages their logits", "max": "takes the largest of their logits for each class"}
    return (
        f"## Long texts\n\n{reader} reads one window: a text of more than {max_length} tokens is truncated. The original "
        f"run reads up to {windows.most} windows of a longer text, which share at least {windows.overlap:.0%} of their "
        f"tokens with the next, and {pooled[windows.pooling]}. `encoderlab predict` with the run does the same.\n"
    )
