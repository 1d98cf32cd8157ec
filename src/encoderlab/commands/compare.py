"""encoderlab compare: compares runs on the same rows."""

from __future__ import annotations

import sys
from pathlib import Path

from encoderlab.config.commands import CompareConfig
from encoderlab.errors import DataError
from encoderlab.reports.comparison.comparison import build_comparison
from encoderlab.reports.comparison.files import write_comparison
from encoderlab.reports.comparison.glue_table import are_of_glue, build_glue_table, show_glue_table, write_glue_table
from encoderlab.reports.comparison.screen import show_comparison
from encoderlab.runs.folders.finished import finished_runs, print_skipped


def compare(config: CompareConfig) -> None:
    """Print the comparison on standard output, and write it to `config.output`; runs of several GLUE tasks give GLUE's
    table.

    An unfinished run is skipped, and a line names it. Raises DataError if fewer than two are left, or if they were not
    scored on the same rows.
    """
    runs, skipped = finished_runs(config.runs)
    print_skipped(skipped)
    if len(runs) < 2:
        counted = "1 folder" if len(config.runs) == 1 else f"{len(config.runs)} folders"
        named = f"{len(runs)} finished {'run' if len(runs) == 1 else 'runs'} among {counted}"
        raise DataError(f"There is nothing to compare: {named}", remedy="Run encoderlab compare FOLDER FOLDER ...")
    if are_of_glue(runs) and config.figure is None and config.reference is None:
        table = build_glue_table(runs)
        show_glue_table(table, write_glue_table(Path(config.output), table) if config.output else {}, sys.stdout)
        return
    comparison = build_comparison(runs, config.figure, config.reference)
    paths = write_comparison(Path(config.output), comparison, runs) if config.output else {}
    show_comparison(comparison, paths, sys.stdout)
