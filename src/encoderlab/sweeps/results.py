"""What is shown and written when all jobs of a sweep have ended."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from encoderlab.errors import DataError, SettingError
from encoderlab.runs.folders.sweep import FAILED, SweepError
from encoderlab.sweeps.sweep import Sweep, is_finished

COMPARED = ("train", "pretrain", "finetune", "distill", "eval")


def show_results(sweep: Sweep, *, compared: bool = True) -> None:
    """Show and write the comparison of all finished runs, list what failed, and raise SweepError if any did.

    Jobs that failed under an earlier command line and are not part of this one are ignored.
    """
    records = sweep.folder.records() if sweep.folder.exists else []
    runs = [str(record.folder) for record in records if record.folder is not None and is_finished(record)]
    if compared and sweep.command in COMPARED and runs:
        compare_runs(sweep.folder.root, runs)
    jobs = set(sweep.jobs.values())
    records = [record for record in records if record.start == sweep.started or record.key in jobs]
    failed = [record for record in records if record.state == FAILED]
    for record in failed:
        print(f"encoderlab: job {record.number} failed: {' '.join(record.overrides)}: {record.error}", file=sys.stderr)
    if failed:
        raise SweepError(failed, len(records), None if sweep.dry else sweep.folder.root)


def compare_runs(root: Path, folders: Sequence[str]) -> None:
    """Show the comparison of the runs, and write it to `root`; say why if they cannot be compared."""
    from encoderlab.reports.comparison import build_comparison, show_comparison, write_comparison
    from encoderlab.reports.finished import finished_runs

    try:
        runs, _ = finished_runs(map(Path, folders))
        comparison = build_comparison(runs)
        show_comparison(comparison, write_comparison(root, comparison, runs))
    except (DataError, SettingError) as error:
        print(f"encoderlab: the runs are not compared: {error}", file=sys.stderr)
