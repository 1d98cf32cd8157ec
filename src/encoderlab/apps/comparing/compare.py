"""encoderlab compare: compares runs on the same rows."""

import sys
from pathlib import Path

from encoderlab.apps.comparing.comparison import build_comparison
from encoderlab.apps.comparing.comparison_page import is_one_table, show_comparison, write_as_table, write_comparison
from encoderlab.apps.comparing.finished_runs import finished_runs
from encoderlab.apps.comparing.settings import CompareConfig
from encoderlab.errors import DataError
from encoderlab.runs.run import runs_in


def compare(config: CompareConfig) -> None:
    """Print the comparison on standard output, and write it to `config.output`.

    An unfinished run is skipped, and a line names it. Raises DataError if fewer than two are left, or if they were not
    scored on the same rows; SettingError for an output that is neither a folder nor a table.
    """
    output = None if config.output is None else Path(config.output)
    is_table = output is not None and is_one_table(output, overwrite=config.overwrite)
    runs, skipped = finished_runs(run for folder in config.runs for run in runs_in(Path(folder)))
    for line in skipped:
        print(f"encoderlab: {line}", file=sys.stderr)
    if len(runs) < 2:
        folders = "1 folder" if len(config.runs) == 1 else f"{len(config.runs)} folders"
        finished = f"{len(runs)} finished {'run' if len(runs) == 1 else 'runs'} among {folders}"
        raise DataError(f"There is nothing to compare: {finished}", remedy="Run encoderlab compare FOLDER FOLDER ...")
    comparison = build_comparison(runs, config.score, config.reference)
    paths = {}
    if output is not None:
        write = write_as_table if is_table else write_comparison
        paths = write(output, comparison)
    show_comparison(comparison, paths, sys.stdout)
