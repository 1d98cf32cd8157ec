"""The figures of the baselines alone: as JSON, and for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from rich.console import Console

from encoderlab.errors import one_line
from encoderlab.metrics import AnswerScores, NumberScores
from encoderlab.metrics.classification import answered_classes
from encoderlab.metrics.label_sets import answered_sets
from encoderlab.metrics.tagging import answered_words
from encoderlab.reports.parts.console import (
    console_on,
    figure,
    lead,
    line,
    listing,
    named_figure,
    number,
    table_of,
    words_of,
)
from encoderlab.reports.parts.run_report import json_safe
from encoderlab.reports.training.report import BASELINE_NAMES, SECOND

if TYPE_CHECKING:
    from encoderlab.baselines.supervised import Answers, Baseline

MOST_CLASSES = 12  # more would push the table off the screen
REFERENCES = ("majority", "mean")  # what the others are compared with


def build_baseline_report(
    *,
    task: str,
    seed: int,
    split: str,
    labels: Answers,
    names: Sequence[str],
    found: Mapping[str, Baseline],
    words: int,
    main: str,
    positive: int = 1,
) -> dict[str, Any]:
    """Return what is printed and written: JSON-safe.

    `labels` are the targets of the rows of `split`, in the form of a `Baseline`'s predictions; `names` are the
    classes'. `main` comes first; for two classes, `positive` is the one that F1 is about. Each baseline has its figures
    with 95% intervals, scores by class, the confusion, how far it is ahead of `majority` (or `mean`) on the same rows,
    and of a linear model the top `words` for each class. The seed draws the bootstrap.
    """
    reference = next(name for name in REFERENCES if name in found)
    reports = {}
    for name, one in found.items():
        if one.predicted is None:
            reports[name] = {"skipped": one.skipped}
            continue
        figures, (lead, bounds) = _scored(one, labels, found[reference], names, seed, main, positive)
        ahead = {f"ahead_of_{reference}_by": lead, f"ahead_of_{reference}_by_ci95": bounds}
        top_features = {names[id_]: some[:words] for id_, some in one.top_features.items()} if words else {}
        reports[name] = {**figures, **ahead, "top_features": top_features}
    report = {
        "command": "baseline",
        "task": task,
        "seed": seed,
        "scored_split": split,
        "n": len(labels),
        "main_figure": main,
        "labels": list(names),
        "baselines": reports,
    }
    return json_safe(report)


def _scored(
    baseline: Baseline, labels: Answers, reference: Baseline, names: Sequence[str], seed: int, main: str, positive: int
) -> tuple[dict[str, Any], tuple[float, list[float]]]:
    """Return the baseline's figures with their intervals, and its lead over the reference with its interval."""
    assert baseline.predicted is not None
    scores = _answered(labels, baseline, names, main, positive)
    return {**baseline.figures, **scores.with_intervals(seed).as_dict()}, scores.lead_over(reference.predicted, seed)


def _answered(labels: Answers, baseline: Baseline, names: Sequence[str], main: str, positive: int) -> AnswerScores:
    """Return the scores of a baseline's predictions."""
    if isinstance(labels, list):
        return answered_words(labels, list(baseline.predicted or ()), names, main)
    predicted = np.asarray(baseline.predicted)
    if labels.dtype.kind in "iu":
        return answered_classes(labels, predicted, names, main, positive)
    if labels.dtype == bool:
        return answered_sets(labels, predicted, names, main)
    figures = {name: value for name, value in baseline.figures.items() if name != "seconds"}
    return NumberScores(len(labels), figures, np.arange(len(labels)), labels, predicted, main)


def show_baselines(report: Mapping[str, Any], file: TextIO) -> None:
    """Print a report from `build_baseline_report`."""
    console, main = console_on(file), report["main_figure"]
    line(console, f"baseline {report['task']}", f"scored on {report['scored_split']} ({number(report['n'])} rows)")
    reference = next(name for name in REFERENCES if name in report["baselines"])
    second = next(name for name in SECOND if name in report["baselines"][reference] and name != main)
    named = named_figure(main, report["baselines"][reference])
    table = table_of("without an encoder", f"{named} (95% interval)", words_of(second), "ahead by", "seconds")
    for name, one in report["baselines"].items():
        title = BASELINE_NAMES[name]
        if "skipped" in one:
            table.add_row(title, "skipped", "", "", "")
            continue
        low, high = one[f"{main}_ci95"]
        ahead = "" if name == reference else lead(one, f"ahead_of_{reference}_by")
        scores = (f"{figure(one[main])} ({figure(low)} to {figure(high)})", figure(one[second]))
        table.add_row(title, *scores, ahead, number(one["seconds"]))
    console.print("", table, sep="\n")
    for name, one in report["baselines"].items():
        line(console, f"{BASELINE_NAMES[name]} was skipped", one.get("skipped", ""))
        _top_features(console, one.get("top_features", {}))


def _top_features(console: Console, words: Mapping[str, Sequence[str]]) -> None:
    if words:
        console.print()
        shown = list(words.items())[:MOST_CLASSES]
        listing(
            console,
            "The strongest words for each class",
            [f"{one_line(name)}: {', '.join(some)}" for name, some in shown],
        )
