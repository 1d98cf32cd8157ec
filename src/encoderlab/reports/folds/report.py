"""report.json of a cross-validation: every figure over its folds, with the baselines on the same folds."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.metrics.folds import OverFolds, over_folds
from encoderlab.metrics.scores import is_lower_better
from encoderlab.reports.parts.console import named_figure
from encoderlab.reports.parts.run_report import json_safe
from encoderlab.reports.training.report import verdict_on
from encoderlab.runs.folds import OUT_OF_FOLD

if TYPE_CHECKING:
    from encoderlab.runs.folds import CrossValidation

INTERVAL = (
    "Intervals are those of Nadeau and Bengio (2003) for training sets that overlap; with few folds they are wide. They cover the "
    "choice of rows, not other seeds"
)
TESTED = "test"  # the split of a fold's run that is its fold

CORRELATIONS = ("matthews", "pearson", "spearman")  # from -1 to 1


def build_folds_report(folds: CrossValidation) -> dict[str, Any]:
    """Return the content of report.json: JSON-safe. The split `out_of_fold` has each mean over the folds, with its
    interval.
    """
    reports = [json.loads(run.report.read_text(encoding="utf-8")) for run in folds.runs]
    trained = [
        json.loads(run.environment.read_text(encoding="utf-8"))["dataset"]["splits"]["train"]["rows"]
        for run in folds.runs
    ]
    scores = [report["splits"][TESTED] for report in reports]
    n_rows, first = sum(score["n"] for score in scores), reports[0]
    share = n_rows / sum(trained)
    figures = {name: over_folds([score[name] for score in scores], share) for name in _figures(scores)}
    main = first["main_figure"]
    baselines = _baselines(reports, main, share)
    seconds = [report["throughput"].get("train_seconds") for report in reports]
    return json_safe(
        {
            **{name: first[name] for name in ("command", "task", "seed", "init_from", "model", "main_figure")},
            "scored_split": OUT_OF_FOLD,
            "splits": {
                OUT_OF_FOLD: {"n": n_rows, **_named(scores[0]), **_flat(figures), "per_class": _per_class(scores)}
            },
            "deviations": {name: figure.deviation for name, figure in figures.items()},
            "folds": [
                {
                    "fold": number,
                    "folder": run.root.name,
                    "trained_on": rows,
                    **{name: score[name] for name in ("n", *figures)},
                }
                for number, (run, rows, score) in enumerate(zip(folds.runs, trained, scores, strict=True), start=1)
            ],
            "baselines": baselines,
            "verdict": verdict_on(baselines, f"Over the folds, the model's {named_figure(main, scores[0])}"),
            "throughput": {"train_seconds": None if None in seconds else round(sum(seconds), 3)},
            "checkpoint": {"step": None, "chosen_by": "one of each fold", "chosen_on": None},
            "notes": [INTERVAL, *_notes(folds)],
        }
    )


def _figures(scores: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the figures that are finite in every fold."""
    return [name for name in scores[0] if name != "n" and all(_is_number(score.get(name)) for score in scores)]


def _named(score: Mapping[str, Any]) -> dict[str, Any]:
    return {"positive_label": score["positive_label"]} if "positive_label" in score else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _flat(figures: Mapping[str, OverFolds]) -> dict[str, Any]:
    """Return means and intervals as in report.json; intervals are clipped to a figure's range."""
    found: dict[str, Any] = {}
    for name, figure in figures.items():
        low, high = figure.interval
        found[name] = figure.mean
        least = -1.0 if name in CORRELATIONS else 0.0
        found[f"{name}_ci95"] = [max(low, least), high if is_lower_better(name) else min(high, 1.0)]
    return found


def _per_class(scores: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return precision, recall and F1 of each class over the folds, weighted by each fold's rows of it; `support`
    counts all.
    """
    found = {}
    for name in scores[0].get("per_class", {}):
        each = [score["per_class"][name] for score in scores]
        support = sum(one["support"] for one in each)
        mean = {
            key: sum(one[key] * one["support"] for one in each) / max(support, 1)
            for key in ("precision", "recall", "f1")
        }
        found[name] = mean | {"support": support}
    return found


def _baselines(reports: Sequence[Mapping[str, Any]], main: str, share: float) -> dict[str, dict[str, Any]]:
    """Return for each baseline that every fold has its mean main figure, and the model's lead over it across the folds."""
    found = {}
    for name in reports[0]["baselines"]:
        each = [report["baselines"].get(name, {}) for report in reports]
        if not all(_is_number(one.get(main)) and _is_number(one.get("model_leads_by")) for one in each):
            continue
        lead = over_folds([one["model_leads_by"] for one in each], share)
        mean = float(np.mean([one[main] for one in each]))
        found[name] = {main: mean, "model_leads_by": lead.mean, "model_leads_by_ci95": lead.interval}
    return found


def _notes(folds: CrossValidation) -> list[str]:
    unused = folds.corpus.splits.origin["unused_test_rows"]
    return (
        [f"The test split ({unused:,} rows) was not used, because folds are made of the training rows"]
        if unused
        else []
    )
