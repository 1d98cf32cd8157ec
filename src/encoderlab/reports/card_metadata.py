"""The metadata of a model card, which the Hugging Face hub and other programs read: YAML between two lines of dashes.

Nothing is invented. A language or a dataset is named only if the run knows it, and a licence only if the encoder that
the run started from states one, or the owner did.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encoderlab.reports import wording
from encoderlab.reports.facts import Facts, origin

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
LANGUAGE = re.compile("[a-z]{2,3}")
LICENSE = re.compile(r"[a-z0-9][a-z0-9.-]*")  # as the hub writes them, such as apache-2.0
# What the hub calls a score, where that is not our name of it.
METRICS: dict[str, str] = {
    "f1_macro": "f1",
    "f1_weighted": "f1",
    "matthews": "matthews_correlation",
    "mlm_perplexity": "perplexity",
}


def front_matter(report: Mapping[str, Any], facts: Facts, pipeline: str) -> str:
    """Return the metadata of a trained model; `pipeline` is the hub's name of its task."""
    from huggingface_hub import ModelCardData

    source = origin(facts)
    hub = source.get("path") if source.get("source") == "hub" else None
    start: Mapping[str, str] = facts.get("start") or {}
    language = facts["language"]
    if not language or not LANGUAGE.fullmatch(language):
        language = start.get("language")
    init_from = report.get("init_from") or ""
    is_on_hub = HUB_NAME.fullmatch(init_from) and not Path(init_from).exists()
    data = ModelCardData(
        language=language,
        license=start.get("license"),
        library_name="encoderlab",
        tags=["encoderlab", "transformer-encoder"],
        pipeline_tag=pipeline,
        datasets=[hub] if hub else None,
        base_model=init_from if is_on_hub else start.get("base_model"),
        model_name=f"encoderlab {wording.shown(report['task'])}",
        eval_results=_results(report, hub, pipeline),
    )
    return f"---\n{data.to_yaml()}\n---\n\n"


def stated_metadata(card: str) -> dict[str, str]:
    """Return the licence, language and base model that a model card states in one word each; {} for none."""
    import yaml
    from huggingface_hub import ModelCard

    try:
        stated = ModelCard(card, ignore_metadata_errors=True).data.to_dict()
    except (ValueError, yaml.YAMLError):
        return {}
    forms = {"license": LICENSE, "language": LANGUAGE, "base_model": re.compile(r"[\w./-]+", re.ASCII)}
    found = {}
    for key, form in forms.items():
        value = stated.get(key)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, str) and form.fullmatch(value):
            found[key] = value
    return found


def _results(report: Mapping[str, Any], hub: str | None, pipeline: str) -> list[EvalResult]:
    """Return the scores of the split that the report is about, as the hub's model-index has them."""
    from huggingface_hub import EvalResult

    split = report["scored_split"]
    scores: Mapping[str, Any] = report["splits"][split]
    results = []
    for name, value in scores.items():
        if not isinstance(value, float) or name == "loss":
            continue
        result = EvalResult(
            task_type=pipeline,
            dataset_type=hub or "files",
            dataset_name=wording.shown(report.get("data") or report["task"]),
            dataset_split=split,
            metric_type=METRICS.get(name, name),
            metric_name=wording.named_score(name, scores),
            metric_value=round(value, 4),
        )
        results.append(result)
    return results
