"""Writes and shows the results of a cross-validation, report.json last."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from encoderlab.reports.folds.answers import out_of_fold_answers, word_probabilities, write_answers
from encoderlab.reports.folds.labels_to_check import check_labels
from encoderlab.reports.folds.report import build_folds_report
from encoderlab.reports.parts.console import (
    console_on,
    figure,
    line,
    listing,
    named_figure,
    number,
    table_of,
    with_interval,
)
from encoderlab.reports.parts.run_facts import run_facts
from encoderlab.reports.parts.run_report import write_last
from encoderlab.reports.parts.shown_texts import shown
from encoderlab.reports.training.report import BASELINE_NAMES
from encoderlab.runs.folds import OUT_OF_FOLD

if TYPE_CHECKING:
    import pandas as pd

    from encoderlab.runs.folds import CrossValidation

MOST_ERRORS = 20  # shown on the page
MOST_ON_SCREEN = 5


def report_folds(folds: CrossValidation) -> None:
    """Write predictions.csv, label_errors.csv, report.html and report.json, and show the figures."""
    from encoderlab.reports.parts.page import write_page

    folder, names = folds.folder, folds.corpus.labels
    report, table = build_folds_report(folds), out_of_fold_answers(folds)
    write_answers(folder.predictions, table)
    checked = check_labels(folds.folded.rows, table, names, word_probabilities(folds))
    report["label_errors"] = {"n": len(checked.table), "of": checked.of}
    write_answers(folder.label_errors, checked.table)
    rows = _shown_errors(checked.table, MOST_ERRORS)
    write_page(
        folder.page,
        "folds.html",
        title=shown(f"encoderlab {report['command']} {report['task']}, seed {report['seed']}: {len(folds.runs)} folds"),
        report=report,
        main=report["main_figure"],
        scores=report["splits"][OUT_OF_FOLD],
        errors=rows,
        checked=checked,
        baseline_names=BASELINE_NAMES,
        **run_facts(folder, report["command"]),
        named=lambda name: named_figure(name, report["splits"][OUT_OF_FOLD]),
        number=number,
        score=figure,
        shown=shown,
    )
    write_last(folder, report)
    _show(report, checked.judged, rows, folds)


def _shown_errors(errors: pd.DataFrame, most: int) -> list[dict[str, Any]]:
    """Return the first of the label errors as the page and the screen show them."""
    found: Iterable[Mapping[Any, Any]] = errors.head(most).to_dict("records")
    return [
        {
            "place": shown(", ".join(_place(row)), 120),
            "texts": [shown(row[name]) for name in ("text", "text_pair") if name in row],
            "label": _shown_label(row["label"]),
            "predicted": _shown_label(row["predicted"]),
            "sure_of_label": f" ({row['probability_of_label']:.1%})"
            if "probability" in row
            else _distance(row["deviations"]),
            "sure": f" ({row['probability']:.1%})" if "probability" in row else "",
        }
        for row in found
    ]


def _distance(deviations: float) -> str:
    return f" ({abs(deviations):.1f} standard deviations too {'high' if deviations > 0 else 'low'})"


def _place(row: Mapping[Any, Any]) -> Iterator[str]:
    """Yield where a label is: its file if there are several, line, and word."""
    if file := row.get("file"):
        yield file
    if row["line"]:
        yield f"line {row['line']}"
    if "word" in row:
        yield f"sentence {row['sentence']}, word {row['word_number']}: {row['word']}"


def _shown_label(label: str | float) -> str:
    """Return a label as the page and the screen show it; a set may be empty."""
    return shown(label, 60) or "no label" if isinstance(label, str) else number(label)


def _show(report: Mapping[str, Any], judged: str, errors: list[dict[str, Any]], folds: CrossValidation) -> None:
    """Print the figures over the folds, and the labels to check first, on standard error."""
    console, main, scores = console_on(sys.stderr), report["main_figure"], report["splits"][OUT_OF_FOLD]
    console.print()
    title = f"{report['command']} {report['task']}, seed {report['seed']}, {len(report['folds'])} folds of {scores['n']:,} rows: "
    console.print(
        Text(f"{title}{named_figure(main, scores)} {with_interval(scores, main)}", style="bold"), soft_wrap=True
    )
    names = [name for name in report["deviations"] if name != "loss"]
    table = table_of("fold", "trained on", "tested", *(named_figure(name, scores) for name in names))
    for fold in report["folds"]:
        table.add_row(
            str(fold["fold"]), number(fold["trained_on"]), number(fold["n"]), *(figure(fold[name]) for name in names)
        )
    table.add_row("mean", "", number(scores["n"]), *(figure(scores[name]) for name in names))
    table.add_row("std. dev.", "", "", *(figure(report["deviations"][name]) for name in names))
    console.print("", table, "", sep="\n")
    if report["verdict"]:
        console.print(Text(report["verdict"]["sentence"], style="bold"), soft_wrap=True)
    counted = report["label_errors"]
    heading = f"{counted['n']:,} of {counted['of']:,} {judged} are probably wrong, the least plausible first"
    listed = [f"{one['place']}: {one['label']}, probably {one['predicted']}: {one['texts'][0][:80]}" for one in errors]
    listing(console, heading, listed[:MOST_ON_SCREEN])
    for note in report["notes"]:
        line(console, "Note", note)
    paths = {"page": folds.folder.page, "report": folds.folder.report, "predictions": folds.folder.predictions}
    paths |= {"label errors": folds.folder.label_errors}
    listing(console, "Files", [f"{name}: {path}" for name, path in paths.items()])
