"""The README.md of a saved or exported model: metadata for the Hugging Face hub, scores, and how it was made.

Nothing is invented: the owner chooses a licence, and a language or a dataset is named only if the run knows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from encoderlab.reports import wording
from encoderlab.reports.baselines import BASELINE_NAMES
from encoderlab.reports.blocks import render
from encoderlab.reports.facts import Facts, given_settings, machine, origin, repeat_line, split_facts

MOST_LABELS = 20
USE = 'Use it with `encoderlab predict run=<this folder> text="..."`.'  # left out where encoderlab cannot open it
USE_ENCODER = (
    "Finetune it with `encoderlab finetune task=... init_from=<this folder>`; "
    "get its vectors with `encoderlab embed run=<this folder> input=... output=vectors.npy`."
)
OPENED_BY = {  # the class of transformers that opens an architecture, by the end of its name
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForTokenClassification": "AutoModelForTokenClassification",
    "ForMaskedLM": "AutoModelForMaskedLM",
    "ForPreTraining": "BertForPreTraining",
    "Model": "AutoModel",
}
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


def model_card(report: Mapping[str, Any], facts: Facts, labels: Sequence[str] = ()) -> str:
    """Return the card of a trained model from its report.json; `labels` are those it predicts, none for an encoder."""
    scored = report["splits"][report["scored_split"]]
    main_score = report["main_score"]
    is_encoder = "mlm_accuracy" in scored or "teacher" in report
    score = plain(wording.named_score(main_score, scored))
    lines = [] if is_encoder else [_predicts(labels)]
    lines += [f"Teacher: `{wording.shown(report['teacher'])}`"] if "teacher" in report else []
    value = wording.with_interval(scored, main_score)
    lines.append(f"{score} on {report['scored_split']} ({wording.counted(scored['n'], 'row')}): {value}")
    lines.append(f"Weights of {wording.checkpoint_words(report['checkpoint'])}")
    splits = list(report["splits"].values())
    first = splits[0]
    results = {}
    for name, value in first.items():
        if isinstance(value, float):
            results[wording.named_score(name, first)] = [wording.score(split.get(name)) for split in splits]
    if all("calibration" in split for split in splits):
        results["expected calibration error"] = [wording.score(split["calibration"]["ece"]) for split in splits]
    baselines = []
    for name, baseline in report["baselines"].items():
        if baseline.get(main_score) is not None:
            baselines.append(f"{BASELINE_NAMES.get(name, name)}: {score} {wording.score(baseline[main_score])}")
    card = render(
        "card.md",
        report=report,
        start=f"started from `{report['init_from']}`" if report.get("init_from") else "trained from scratch",
        lines=[*lines, *map(plain, report["notes"])],
        use=USE_ENCODER if is_encoder else USE,
        results=results,
        baselines=baselines,
        splits=split_facts(facts),
        origin=origin(facts),
        settings=given_settings(facts),
        machine=machine(facts),
        repeat=repeat_line(facts),
        plain=plain,
    )
    return front_matter(report, facts, _pipeline(report, scored)) + card


def _pipeline(report: Mapping[str, Any], scored: Mapping[str, Any]) -> str:
    """Return the hub's name of what a model does."""
    if "token_accuracy" in scored:
        return "token-classification"
    if "teacher" in report:
        return "feature-extraction"
    return "fill-mask" if "mlm_accuracy" in scored else "text-classification"


def _predicts(labels: Sequence[str]) -> str:
    named = [f'"{plain(wording.shown(label, 60))}"' for label in labels[:MOST_LABELS]]
    more = [f"and {len(labels) - MOST_LABELS} more"] if len(labels) > MOST_LABELS else []
    return f"Labels: {', '.join([*named, *more])}" if labels else "Predicts a number"


def front_matter(report: Mapping[str, Any], facts: Facts, pipeline: str) -> str:
    """Return the hub's metadata as YAML between lines of dashes; `pipeline` is the hub's name of the task."""
    from huggingface_hub import ModelCardData

    source = origin(facts)
    hub = source.get("path") if source.get("source") == "hub" else None
    language = facts["language"]
    start = report.get("init_from") or ""
    data = ModelCardData(
        language=language if language and re.fullmatch("[a-z]{2,3}", language) else None,
        library_name="encoderlab",
        tags=["encoderlab", "transformer-encoder"],
        pipeline_tag=pipeline,
        datasets=[hub] if hub else None,
        base_model=start if HUB_NAME.fullmatch(start) and not Path(start).exists() else None,
        model_name=f"encoderlab {report['task']}",
    )
    return f"---\n{data.to_yaml()}\n---\n\n"


def plain(value: str) -> str:
    """Return the value in one line with Markdown's special characters escaped."""
    return re.sub(r"([<>`\[\]])", r"\\\1", wording.shown(value))


def export_card(card: str, library: str, fields: Mapping[str, Any], **about: Any) -> str:
    """Return the card for an exported folder, with sections on its use; a card without metadata gets some.

    `library` opens it: transformers or onnx; `fields` is the content of its config.json. The other arguments are those
    of export.md, each left out where it does not apply: `windows` says how the run read texts beyond `max_length`
    tokens, instead of truncating them. For onnx, `opened` tells whether encoderlab opens the folder too, and `change`
    what storing the graph in 8 bits changed. For transformers, `averages` tells that the last layer averages the
    tokens' vectors.
    """
    from huggingface_hub import ModelCard, ModelCardData

    architecture = fields.get("architectures", [""])[0]
    opened_by = next((name for end, name in OPENED_BY.items() if architecture.endswith(end)), "")
    known = dict.fromkeys(("windows", "max_length", "opened", "change", "averages")) | about
    own = card.replace(f"{USE}\n\n", "")
    text = render("export.md", card=own, library=library, fields=fields, opened_by=opened_by, **known)
    read = ModelCard(text, ignore_metadata_errors=True)
    assert isinstance(read.data, ModelCardData)
    read.data.library_name = library
    return str(read)
