"""Writes a comparison: compare.json, compare.csv (a line for each run), compare.md, compare.html and its plots."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encoderlab.errors import DataError
from encoderlab.reports.comparison.learning_curve import curve_table
from encoderlab.reports.comparison.plots import pictures_of
from encoderlab.reports.comparison.screen import cells, columns, headline, markdown
from encoderlab.reports.outputs.predictions import as_csv
from encoderlab.reports.parts.console import words_of
from encoderlab.reports.parts.page import picture, write_page
from encoderlab.reports.parts.plots import write_png
from encoderlab.runs.folders.finished import FinishedRun
from encoderlab.system.files import atomic_write, atomic_write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_comparison(folder: Path, comparison: Mapping[str, Any], runs: Sequence[FinishedRun]) -> dict[str, str]:
    """Write the files into `folder`, replacing those of an earlier comparison; return their paths by name.

    Raises DataError if the folder cannot be written to.
    """
    drawn = pictures_of(comparison, {str(run.folder.root): run.journal() for run in runs})  # first: it may be damaged
    with folder_for_files(folder):
        return _write(folder, comparison, drawn)


@contextmanager
def folder_for_files(folder: Path) -> Iterator[None]:
    """Create `folder` for the files written within this context. Raises DataError if it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        remedy = "Set output=... to a folder you can write to"
        raise DataError(f"{folder} cannot be written to: {error.strerror or error}", remedy=remedy) from None


def _write(folder: Path, comparison: Mapping[str, Any], drawn: Mapping[str, tuple[Figure, str]]) -> dict[str, str]:
    plots = folder / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    for name, (canvas, _) in drawn.items():
        with atomic_write(plots / f"{name}.png") as temporary:
            write_png(canvas, temporary)
    paths = {kind: folder / f"compare.{kind}" for kind in ("html", "md", "csv", "json")}
    write_page(
        paths["html"],
        "comparison.html",
        title=headline(comparison),
        comparison=comparison,
        columns=columns(comparison),
        rows=[(row, cells(row, comparison)) for row in comparison["settings"]],
        figure=words_of(comparison["figure"]),
        curve=comparison["learning_curve"]
        and {**comparison["learning_curve"], "rows": curve_table(comparison["learning_curve"])},
        pictures=[(what, picture(canvas, what)) for canvas, what in drawn.values()],
    )
    atomic_write_text(paths["md"], markdown(comparison))
    atomic_write_text(paths["csv"], _table(comparison))
    atomic_write_text(paths["json"], json.dumps(comparison, indent=2, ensure_ascii=False) + "\n")
    return {kind: str(path) for kind, path in paths.items()} | {"plots": str(plots)}


def _table(comparison: Mapping[str, Any]) -> str:
    """Return a line for each run: its setting and its differences, its seed and score, and the setting's figures."""
    named = (
        "setting",
        *comparison["differing"],
        "seed",
        comparison["figure"],
        "mean",
        "deviation",
        "low",
        "high",
        "interval_over",
    )
    named += ("difference", "difference_low", "difference_high", "p", "p_corrected", "test", "train_seconds", "folder")
    lines = []
    for row in comparison["settings"]:
        difference = row["difference"] or {}
        tested = [difference.get("value"), *(difference.get("interval") or (None, None))]
        tested += [difference.get(name) for name in ("p_value", "p_corrected", "test")]
        figures = [row["value"], row["deviation"], *(row["interval"] or (None, None)), row["interval_over"]]
        for run in row["runs"]:
            cells = [row["label"], *row["values"].values(), run["seed"], run["score"]]
            lines.append([*cells, *figures, *tested, row["train_seconds"], run["folder"]])
    return as_csv(named, lines)
