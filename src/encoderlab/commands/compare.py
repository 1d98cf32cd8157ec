"""encoderlab compare: compares runs on the same rows."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from encoderlab.config.commands import CompareConfig
from encoderlab.errors import DataError
from encoderlab.reports.comparison import build_comparison, show_comparison, write_comparison
from encoderlab.reports.finished import finished_runs
from encoderlab.runs.folders.sweep import SweepFolder


def compare(config: CompareConfig) -> None:
    """Print the comparison on standard output, and write it to `config.output`.

    An unfinished run is skipped, and a line names it. Raises DataError if fewer than two are left, or if they were not
    scored on the same rows.
    """
    runs, skipped = finished_runs(run_folders(config.runs))
    for line in skipped:
        print(f"encoderlab: {line}", file=sys.stderr)
    if len(runs) < 2:
        folders = "1 folder" if len(config.runs) == 1 else f"{len(config.runs)} folders"
        finished = f"{len(runs)} finished {'run' if len(runs) == 1 else 'runs'} among {folders}"
        raise DataError(f"There is nothing to compare: {finished}", remedy="Run encoderlab compare FOLDER FOLDER ...")
    comparison = build_comparison(runs, config.figure, config.reference)
    paths = write_comparison(Path(config.output), comparison, runs) if config.output else {}
    show_comparison(comparison, paths, sys.stdout)


def run_folders(names: Sequence[str]) -> Iterator[Path]:
    """Yield the run folders, those of its runs for a sweep's. Raises DataError if none of a sweep's runs is there."""
    for name in names:
        sweep = SweepFolder(Path(name))
        records = sweep.records() if sweep.exists else []
        folders = [record.folder for record in records if record.folder is not None and record.folder.exists()]
        if records and not folders:
            wrong = f"The runs of the sweep {name} cannot be found"
            raise DataError(wrong, remedy="Move or copy the sweep's folder together with its runs")
        yield from folders if records else [Path(name)]
