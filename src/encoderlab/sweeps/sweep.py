"""Many runs from one command line: every combination, by Hydra's sweeper and launchers, and then a table of
all runs.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

from encoderlab.config.composing import CommandLine, quote, run_hydra
from encoderlab.errors import DataError, SettingError, TrainingError, UserError
from encoderlab.reports.comparison import build_comparison, show_comparison, write_comparison
from encoderlab.reports.finished import finished_runs
from encoderlab.runs.folder import RunFolder, is_sweep, runs_in
from encoderlab.sweeps.jobs import Jobs
from encoderlab.sweeps.search import search
from encoderlab.system.device import available_cores, count_gpus
from encoderlab.system.signals import Interrupted, deferred

COMPARED = ("train", "pretrain", "finetune", "distill", "eval")
PARALLEL, N_JOBS = "hydra/launcher=parallel", "hydra.launcher.n_jobs="


class WorkerKilledError(TrainingError):
    """A worker process of a sweep has died, and the launcher has ended the others too."""

    def __init__(self) -> None:
        super().__init__(
            "A process of this sweep was killed, perhaps because memory ran out, which ended the other running jobs",
            remedy=f"Set {N_JOBS}1 to run one job at a time",
        )


def sweep(line: CommandLine, start: Callable[[Any, Sequence[str]], None]) -> None:
    """Run every combination of the values given, or the trials of a search.

    `start` runs the command with one job's settings and overrides. Raises the error of the first job that failed, when
    all others have run.
    """
    assert line.sweep is not None
    overrides = [override for override in line.parsed() if override.key_or_group == "dry_run"]
    dry = any(override.value() is True for override in overrides)
    if dry and line.sweep.trials is not None:
        raise SettingError("dry_run=true gives no score to search by", remedy="Remove trials or dry_run")
    varied = [override.key_or_group for override in line.parsed() if override.is_sweep_override()]
    with _folder(line.sweep.sweep_dir, dry=dry) as root:
        jobs = Jobs(line.command, root, start, varied, dry)
        try:
            if line.sweep.trials is not None:
                search(line, jobs, line.sweep.trials)
            else:
                _combine(line, jobs)
        except (Interrupted, WorkerKilledError):
            _say_how_to_resume(line, root, dry)
            raise
        except UserError:  # of the first job that failed; the others have run
            _finish(jobs, compared=line.sweep.trials is None)
            raise
        _finish(jobs, compared=line.sweep.trials is None)


@contextmanager
def _folder(sweep_dir: str | None, *, dry: bool) -> Iterator[Path]:
    """Open the folder of a sweep, a temporary one if its jobs are `dry` runs.

    Raises SettingError if `sweep_dir` holds something else.
    """
    if dry:
        with tempfile.TemporaryDirectory(prefix="encoderlab-dry-sweep-") as folder:
            yield Path(folder)
        return
    new = Path("outputs") / "multirun" / f"{time.strftime('%Y-%m-%d_%H-%M-%S')}-{uuid.uuid4().hex[:6]}"
    root = new if sweep_dir is None else Path(sweep_dir)
    if root.is_file() or (root.is_dir() and any(root.iterdir()) and not is_sweep(root)):
        raise SettingError(
            f"sweep_dir={sweep_dir} is not a sweep", allowed="a new or empty folder, or a sweep to resume"
        )
    yield root


def _combine(line: CommandLine, jobs: Jobs) -> None:
    """Let Hydra's sweeper and launcher run a job for each combination."""
    overrides = [*line.overrides, f"hydra.sweep.dir={quote(str(jobs.root))}"]
    if PARALLEL in overrides and not any(one.startswith(N_JOBS) for one in overrides):
        overrides.append(f"{N_JOBS}{min(count_gpus() or available_cores(), _n_combinations(line))}")
    in_workers = PARALLEL in overrides  # they get Ctrl-C too, save, and then end this process
    try:
        with deferred("each job saves after its step") if in_workers else nullcontext():
            run_hydra(replace(line, overrides=overrides), jobs)
    except BrokenProcessPool:
        raise WorkerKilledError from None


def _n_combinations(line: CommandLine) -> int:
    """Return the number of jobs, or many if a preset or a pattern says how many values there are."""
    sweeps = [override for override in line.parsed() if override.is_sweep_override()]
    if any(one.startswith("sweep=") for one in line.overrides) or not all(
        override.is_choice_sweep() or override.is_range_sweep() for override in sweeps
    ):
        return sys.maxsize
    return prod(sum(1 for _ in override.sweep_string_iterator()) for override in sweeps)


def _say_how_to_resume(line: CommandLine, root: Path, dry: bool) -> None:
    if not dry:
        trials = [] if line.sweep is None or line.sweep.trials is None else [f"trials={line.sweep.trials}"]
        words = ["encoderlab", line.command, *line.flags, *line.overrides, *trials, f"sweep_dir={root}"]
        print(f"Finished runs are not repeated. Resume with: {shlex.join(words)}", file=sys.stderr)


def _finish(jobs: Jobs, *, compared: bool) -> None:
    """Show and write the comparison of all finished runs; delete the folder if there is no run."""
    runs = runs_in(jobs.root) if jobs.root.is_dir() else []
    if not runs and not jobs.dry:
        _remove(jobs.root)
    if not any(RunFolder(run).finished for run in runs) or not compared or jobs.command not in COMPARED:
        return
    try:
        finished, _ = finished_runs(runs)
        comparison = build_comparison(finished)
        show_comparison(comparison, write_comparison(jobs.root, comparison, finished))
    except (DataError, SettingError) as error:
        print(f"encoderlab: the runs are not compared: {error}", file=sys.stderr)


def _remove(root: Path) -> None:
    """Delete the folder of a sweep without runs, and the folders above it that exist only for it."""
    shutil.rmtree(root, ignore_errors=True)
    if not root.is_absolute():
        with suppress(OSError):  # not empty
            for parent in root.parents:
                parent.rmdir()
