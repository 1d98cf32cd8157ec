"""The figures of the linear models alone: as JSON, and as people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from rich.console import Console

from encoderlab.errors import one_line
from encoderlab.metrics.intervals import bootstrap, difference, kinds_of_confusion, kinds_of_sequences
from encoderlab.metrics.scores import figures_by_class
from encoderlab.reports.parts.console import console_on, figure, line, listing, number, table_of, words_of
from encoderlab.reports.parts.run_report import json_safe
from encoderlab.reports.training.report import BASELINE_NAMES

if TYPE_CHECKING:
    from encoderlab.baselines.supervised import Answers, Baseline

MOST_CLASSES = 12  # more would push the table off the screen
REFERENCE = "majority"  # what the others are compared with


def build_baseline_report(
    *, task: str, seed: int, split: str, labels: Answers, names: Sequence[str], found: Mapping[str, Baseline], words: int
) -> dict[str, Any]:
    """What is printed and written: JSON-safe.

    `labels` are the right class ids of the rows of `split`, [n], or an array for each sequence of words; `names` are the classes'.
    Each baseline has its figures with 95% intervals, scores by class, the confusion, how far it is ahead of `majority` on the same
    rows, and of a linear model as many telling `words` for each class. The seed draws the bootstrap.
    """
    reference = found[REFERENCE].predicted
    reports = {name: _one(one, labels, reference, names, seed, words) for name, one in found.items()}
    main = "accuracy" if isinstance(labels, np.ndarray) else "token_accuracy"
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


def _one(
    baseline: Baseline, labels: Answers, reference: Answers | None, names: Sequence[str], seed: int, words: int
) -> dict[str, Any]:
    if baseline.predicted is None or reference is None:
        return {"skipped": baseline.skipped}
    flat, predicted = (part if isinstance(part, np.ndarray) else np.concatenate(part) for part in (labels, baseline.predicted))
    by_class = figures_by_class(flat, predicted, names)
    if isinstance(labels, np.ndarray):
        kinds = kinds_of_confusion(np.array(by_class["confusion"]))
    else:
        kinds = kinds_of_sequences(labels, list(baseline.predicted), len(names))
    intervals = {f"{name}_ci95": bounds for name, bounds in bootstrap(kinds, seed).items() if name in baseline.figures}
    lead, bounds = difference(labels, baseline.predicted, reference, seed)
    top_features = {names[id_]: some[:words] for id_, some in baseline.top_features.items()} if words else {}
    ahead = {f"ahead_of_{REFERENCE}_by": lead, f"ahead_of_{REFERENCE}_by_ci95": bounds}
    return {**baseline.figures, **intervals, **ahead, **by_class, "top_features": top_features}


def show_baselines(report: Mapping[str, Any], file: TextIO) -> None:
    """Print what `build_baseline_report` made."""
    console, main = console_on(file), report["main_figure"]
    line(console, f"baseline {report['task']}", f"scored on {report['scored_split']} ({number(report['n'])} rows)")
    table = table_of("without an encoder", f"{words_of(main)} (95% interval)", "f1 macro", "ahead by", "seconds")
    for name, one in report["baselines"].items():
        title = BASELINE_NAMES[name]
        if "skipped" in one:
            table.add_row(title, "skipped", "", "", "")
            continue
        low, high = one[f"{main}_ci95"]
        ahead, (least, most) = one[f"ahead_of_{REFERENCE}_by"], one[f"ahead_of_{REFERENCE}_by_ci95"]
        lead = "" if name == REFERENCE else f"{ahead:+.3f} ({least:+.3f} to {most:+.3f})"
        scores = (f"{figure(one[main])} ({figure(low)} to {figure(high)})", figure(one["f1_macro"]))
        table.add_row(title, *scores, lead, number(one["seconds"]))
    console.print("", table, sep="\n")
    for name, one in report["baselines"].items():
        line(console, f"{BASELINE_NAMES[name]} was skipped", one.get("skipped", ""))
        _top_features(console, one.get("top_features", {}))


def _top_features(console: Console, words: Mapping[str, Sequence[str]]) -> None:
    if words:
        console.print()
        shown = list(words.items())[:MOST_CLASSES]
        listing(console, "What speaks for each class most", [f"{one_line(name)}: {', '.join(some)}" for name, some in shown])
