"""Writes and shows the results of a cross-validation, report.json last."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from encoderlab.reports.folds.answers import label_errors, listed_errors, out_of_fold_answers, write_answers
from encoderlab.reports.folds.report import build_folds_report
from encoderlab.reports.parts.console import console_on, figure, line, listing, named_figure, number, table_of, with_interval
from encoderlab.reports.parts.run_facts import run_facts
from encoderlab.reports.parts.run_report import write_last
from encoderlab.reports.parts.shown_texts import shown
from encoderlab.reports.training.report import BASELINE_NAMES
from encoderlab.runs.fitting.folds import OUT_OF_FOLD

if TYPE_CHECKING:
    import pandas as pd

    from encoderlab.runs.fitting.folds import CrossValidation

MOST_ERRORS = 20  # shown on the page
MOST_ON_SCREEN = 5


def report_folds(folds: CrossValidation) -> None:
    """Write predictions.csv, label_errors.csv if rows have one label each, report.html and report.json, and show the figures."""
    from encoderlab.reports.parts.page import write_page

    folder, names = folds.folder, folds.corpus.labels
    report, table = build_folds_report(folds), out_of_fold_answers(folds)
    write_answers(folder.predictions, table)
    found = label_errors(table, names)
    errors = None if found is None else listed_errors(table, found, names)
    if errors is not None:
        report["label_errors"] = {"n": len(errors), "of": len(table)}
        write_answers(folder.label_errors, errors)
    rows = [] if errors is None else _shown_errors(errors, MOST_ERRORS)
    write_page(
        folder.page,
        "folds.html",
        title=shown(f"encoderlab {report['command']} {report['task']}, seed {report['seed']}: {len(folds.runs)} folds"),
        report=report,
        main=report["main_figure"],
        scores=report["splits"][OUT_OF_FOLD],
        errors=rows,
        baseline_names=BASELINE_NAMES,
        **run_facts(folder, report["command"]),
        named=lambda name: named_figure(name, report["splits"][OUT_OF_FOLD]),
        number=number,
        score=figure,
        shown=shown,
    )
    write_last(folder, report)
    _show(report, rows, folds)


def _shown_errors(errors: pd.DataFrame, most: int) -> list[dict[str, Any]]:
    """Return the first of the label errors as the page and the screen show them."""
    found: Iterable[Mapping[Any, Any]] = errors.head(most).to_dict("records")
    return [
        {
            **{name: row[name] for name in ("probability", "probability_of_label")},
            "place": shown(", ".join([*filter(None, [row.get("file")]), *([f"line {row['line']}"] if row["line"] else [])]), 120),
            "texts": [shown(row[name]) for name in ("text", "text_pair") if name in row],
            "label": shown(row["label"], 60),
            "predicted": shown(row["predicted"], 60),
        }
        for row in found
    ]


def _show(report: Mapping[str, Any], errors: list[dict[str, Any]], folds: CrossValidation) -> None:
    """Print the figures over the folds, and the labels to check first, on standard error."""
    console, main, scores = console_on(sys.stderr), report["main_figure"], report["splits"][OUT_OF_FOLD]
    console.print()
    title = f"{report['command']} {report['task']}, seed {report['seed']}, {len(report['folds'])} folds of {scores['n']:,} rows: "
    console.print(Text(f"{title}{named_figure(main, scores)} {with_interval(scores, main)}", style="bold"), soft_wrap=True)
    names = [name for name in report["deviations"] if name != "loss"]
    table = table_of("fold", "trained on", "tested", *(named_figure(name, scores) for name in names))
    for fold in report["folds"]:
        table.add_row(str(fold["fold"]), number(fold["trained_on"]), number(fold["n"]), *(figure(fold[name]) for name in names))
    table.add_row("mean", "", number(scores["n"]), *(figure(scores[name]) for name in names))
    table.add_row("std. dev.", "", "", *(figure(report["deviations"][name]) for name in names))
    console.print("", table, "", sep="\n")
    if report["verdict"]:
        console.print(Text(report["verdict"]["sentence"], style="bold"), soft_wrap=True)
    if counted := report.get("label_errors"):
        said = f"{counted['n']:,} of {counted['of']:,} labels are probably wrong, the least plausible first"
        listed = [f"{one['place']}: {one['label']}, probably {one['predicted']}: {one['texts'][0][:80]}" for one in errors]
        listing(console, said, listed[:MOST_ON_SCREEN])
    for note in report["notes"]:
        line(console, "Note", note)
    paths = {"page": folds.folder.page, "report": folds.folder.report, "predictions": folds.folder.predictions}
    paths |= {"label errors": folds.folder.label_errors} if counted else {}
    listing(console, "Files", [f"{name}: {path}" for name, path in paths.items()])
