"""The README.md of a saved model: metadata for the Hugging Face hub, scores, and how it was made.

The hub and other programs read the metadata: YAML between two lines of dashes. Nothing in it is invented. A language or
a dataset is named only if the run knows it, and a licence only if the encoder that the run started from states one, or
the owner did.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encoderlab.metrics.languages import UNCLEAR
from encoderlab.reports import wording
from encoderlab.reports.blocks import render
from encoderlab.reports.comparisons import BASELINE_NAMES
from encoderlab.reports.facts import RunFacts, given_settings, machine, origin, repeat_line, split_facts

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
MOST_LABELS = 20
LEAST_SHARE = 0.05  # of the training texts in a language that a card states
MOST_OF_THE_TEXTS = 0.7  # are in the languages that it states: of short texts, a fifth may be in any
# How to use a model where encoderlab opens it, which exported folders do not say.
USE = 'Use it with `encoderlab predict run=<this folder> text="..."`.'
USE_ENCODER = (
    "Finetune it with `encoderlab finetune task=... init_from=<this folder>`; "
    "get its vectors with `encoderlab embed run=<this folder> input=... output=vectors.npy`."
)
ELSEWHERE = (
    "To open it with other programs, export it with `encoderlab export run=<this folder> path=<new folder>` and "
    "`format=huggingface` for transformers, `onnx` or `int8` for onnxruntime and transformers.js{page}."
)
PAGE = ", or `web` for a page that works in a browser"


def model_card(report: Mapping[str, Any], facts: RunFacts, labels: Sequence[str] = ()) -> str:
    """Return the card of a trained model from its report.json; `labels` are those it predicts, none for an encoder."""
    scored = report["splits"][report["scored_split"]]
    main_score = report["main_score"]
    is_encoder = report["command"] == "pretrain" or "teacher" in report
    score = escaped(wording.named_score(main_score, scored))
    pipeline = _pipeline(scored, is_encoder=is_encoder)
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
        lines=[*lines, *map(escaped, report["notes"])],
        use=USE_ENCODER if is_encoder else USE,
        elsewhere=ELSEWHERE.format(page=PAGE if pipeline == "text-classification" else ""),
        results=results,
        baselines=baselines,
        splits=split_facts(facts),
        origin=origin(facts),
        settings=given_settings(facts),
        machine=machine(facts),
        repeat=repeat_line(facts),
        plain=escaped,
    )
    return front_matter(report, facts, pipeline) + card


def _pipeline(scored: Mapping[str, Any], *, is_encoder: bool) -> str:
    """Return the hub's name of what a model does."""
    if "token_accuracy" in scored:
        return "token-classification"
    if "mlm_accuracy" in scored:
        return "fill-mask"
    return "feature-extraction" if is_encoder else "text-classification"


def _predicts(labels: Sequence[str]) -> str:
    named = [f'"{escaped(wording.shown(label, 60))}"' for label in labels[:MOST_LABELS]]
    more = [f"and {len(labels) - MOST_LABELS} more"] if len(labels) > MOST_LABELS else []
    return f"Labels: {', '.join([*named, *more])}" if labels else "Predicts a number"


def escaped(value: str) -> str:
    """Return the value in one line with Markdown's special characters escaped."""
    return re.sub(r"([<>`\[\]])", r"\\\1", wording.shown(value))


def without_use(card: str) -> str:
    """Return the card without what it says about using the model where encoderlab opens it."""
    for page in ("", PAGE):
        card = card.replace(f"{ELSEWHERE.format(page=page)}\n\n", "")
    return card.replace(f"{USE}\n\n", "").replace(f"{USE_ENCODER}\n\n", "")


def front_matter(report: Mapping[str, Any], facts: RunFacts, pipeline: str) -> str:
    """Return the metadata of a trained model; `pipeline` is the hub's name of its task."""
    from huggingface_hub import ModelCardData

    source = origin(facts)
    hub = source.get("path") if source.get("source") == "hub" else None
    start: Mapping[str, str] = facts.get("start") or {}
    init_from = report.get("init_from") or ""
    is_on_hub = HUB_NAME.fullmatch(init_from) and not Path(init_from).exists()
    data = ModelCardData(
        language=_languages(report, facts),
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


def _languages(report: Mapping[str, Any], facts: RunFacts) -> str | list[str] | None:
    """Return the languages of the training texts: as the dataset states them, or as they were found in its rows; None
    if they are not known.
    """
    stated = facts["language"]
    if stated and LANGUAGE.fullmatch(stated):
        return stated
    shares: Mapping[str, float] = report.get("languages", {}).get("languages", {})
    found = [name for name, share in shares.items() if share >= LEAST_SHARE and name != UNCLEAR]
    if sum(shares[name] for name in found) < MOST_OF_THE_TEXTS:
        return None
    return found[0] if len(found) == 1 else found


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
