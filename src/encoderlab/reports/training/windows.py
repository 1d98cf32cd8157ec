"""The comparison of long texts in windows with the same texts truncated, for report, page and screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from encoderlab.metrics import AnswerScores
from encoderlab.reports.parts.console import figure, lead, words_of
from encoderlab.tasks.rows import ExampleRows
from encoderlab.tasks.task import Task


def compared_with_truncation(
    task: Task, rows: ExampleRows, scores: AnswerScores, truncated: AnswerScores | None, seed: int
) -> dict[str, Any]:
    """Return report.json's `windows`; nothing if no row has several (`truncated` is None).

    `scores` are those of `rows`, and `truncated` those of the same model reading only the first window of each.
    `windows_lead_by` is the paired difference of the main figure, with its 95% interval.
    """
    if truncated is None or task.windows is None:
        return {}
    windows = rows.windows()
    lead, bounds = scores.lead_over(truncated.predicted, seed)
    first = {scores.main: truncated.figures[scores.main], "windows_lead_by": lead, "windows_lead_by_ci95": bounds}
    return {
        "windows": {
            "pooling": task.windows.pooling,
            "tokens": task.max_length,
            "rows": len(rows),
            "rows_in_windows": int((windows > 1).sum()),
            "rows_truncated": int(rows.truncated().sum()),
            "mean_windows": float(windows[windows > 1].mean()),
            "all_windows": {scores.main: scores.figures[scores.main]},
            "first_window": first,
        }
    }


def windows_table(report: Mapping[str, Any]) -> list[list[str]]:
    """Return a line of headings, one for all windows, one for only the first; empty if no text has several."""
    found = report.get("windows")
    if not found:
        return []
    main, first = report["main_figure"], found["first_window"]
    return [
        ["on the same rows", words_of(main), "windows ahead by (95% interval)"],
        ["all windows (this model)", figure(found["all_windows"][main]), ""],
        ["only the first window", figure(first[main]), lead(first, "windows_lead_by")],
    ]
