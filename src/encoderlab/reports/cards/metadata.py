"""The head of a model card: metadata for the Hugging Face hub, and what every card says about how a model was made.

Nothing is invented: the owner chooses a licence, and a language or a dataset is named only if the run knows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from encoderlab.encoders.catalogue import shipped_names
from encoderlab.reports.parts.console import words_of
from encoderlab.reports.parts.shown_texts import shown

METRICS: dict[str, tuple[str, dict[str, Any]]] = {  # for our figures: the hub's metric, and its arguments
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
USE = 'Use it with `encoderlab predict run=<this folder> text="..."`.'  # if encoderlab opens the folder
HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)


def front_matter(report: Mapping[str, Any], facts: Mapping[str, Any], pipeline: str) -> str:
    """Return YAML between lines of dashes, from report.json's figures and `run_facts`; `pipeline` is the hub's name of
    the task.
    """
    from huggingface_hub import EvalResult, ModelCardData

    origin = dict(facts["data"].get("origin", ()))
    hub = origin.get("path") if origin.get("source") == "hub" else None
    results = [
        EvalResult(
            task_type=pipeline,
            dataset_type=hub or report["task"],
            dataset_name=hub or report["task"],
            dataset_config=origin.get("name") if hub else None,
            dataset_split=split,
            metric_type=METRICS[name][0],
            metric_name=words_of(name),
            metric_args=METRICS[name][1] or None,
            metric_value=round(value, 6),
        )
        for split, name, value in _figures(report)
    ]
    language = facts["language"]
    data = ModelCardData(
        language=language if language and re.fullmatch("[a-z]{2,3}", language) else None,
        library_name="encoderlab",
        tags=["encoderlab", "transformer-encoder"],
        pipeline_tag=pipeline,
        datasets=[hub] if hub else None,
        metrics=sorted({result.metric_type for result in results}),
        base_model=_hub_model(report.get("init_from")),
        model_name=f"encoderlab {report['task']}",
        eval_results=results or None,
    )
    return f"---\n{data.to_yaml()}\n---\n\n"


def encoder_card(
    report: Mapping[str, Any], facts: Mapping[str, Any], pipeline: str, made: str, lines: Sequence[str], own: str = ""
) -> str:
    """Return the card of an encoder trained on documents: how it was `made`, `lines` on its scores, and a section of
    its `own`.
    """
    checkpoint = report["checkpoint"]
    weights = f"Weights after step {checkpoint['step']:,}, chosen by {checkpoint['chosen_by']}"
    notes = (shown(note).rstrip(".") for note in report["notes"])
    return (
        f"{front_matter(report, facts, pipeline)}"
        f"# encoderlab: {report['task']}\n\n"
        f"A transformer encoder of {report['model']['parameters']:,} parameters, {made}, with seed {report['seed']}.\n\n"
        + "".join(f"- {line}.\n" for line in (*lines, weights, *notes))
        + "\nFinetune it with `encoderlab finetune task=... init_from=<this folder>`; "
        "get its vectors with `encoderlab embed run=<this folder> input=... output=vectors.npy`.\n"
        f"{own}\n{how_it_was_made(facts)}"
    )


def _figures(report: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Yield split, name and value of every figure that the hub has a metric for."""
    for split, scores in report["splits"].items():
        yield from ((split, name, scores[name]) for name in METRICS if scores.get(name) is not None)


def _hub_model(init_from: str | None) -> str | None:
    """Return the hub's name of the model that a run started from; None for a shipped encoder, a folder, or none."""
    if init_from is None or init_from in shipped_names():
        return None
    return init_from if HUB_NAME.fullmatch(init_from) and not Path(init_from).exists() else None


def how_it_was_made(facts: Mapping[str, Any]) -> str:
    """Return the sections on data, training and machine."""
    rows = "".join(
        f"- {name}: {_counted(one)}fingerprint `{one['fingerprint']}`\n"
        for name, one in facts["data"].get("splits", {}).items()
    )
    origin = "".join(f"- {name}: {plain(value)}\n" for name, value in facts["data"].get("origin", ()))
    settings = "".join(f"- `{name}={plain(value)}`\n" for name, value, _ in facts["changed"])
    machine = "".join(f"- {name}: {plain(value)}\n" for name, value in facts["machine"])
    repeat = f"```\n{facts['repeat']}\n```\n\n" if facts["repeat"] else ""
    training = f"{repeat}Settings that are not the defaults:\n\n{settings}"
    return f"## Data\n\n{rows}{origin}\n## Training\n\n{training}\n## Machine\n\n{machine}"


def _counted(split: Mapping[str, Any]) -> str:
    """Return how many rows or documents a split has; an empty text if they are streamed."""
    kind = "rows" if "rows" in split else "documents"
    return "" if split.get(kind) is None else f"{split[kind]:,} {kind}, "


def plain(value: str) -> str:
    """Return the value with Markdown's special characters escaped."""
    return re.sub(r"([<>`\[\]])", r"\\\1", shown(value))


def for_library(card: str, library: str) -> str:
    """Return the card for a folder that another library opens, such as transformers or onnx, but encoderlab does not.

    A card without metadata gets some.
    """
    from huggingface_hub import ModelCard, ModelCardData

    read = ModelCard(card.replace(f"{USE}\n\n", ""), ignore_metadata_errors=True)
    assert isinstance(read.data, ModelCardData)
    read.data.library_name = library
    return str(read)
