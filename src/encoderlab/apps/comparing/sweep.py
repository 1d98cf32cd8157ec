"""Many runs from one command line: every combination of values, by Hydra's sweeper and launchers, or a search; and then
a table of all runs.
"""

from __future__ import annotations

import json
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
from pathlib import Path
from typing import Any

import torch

from encoderlab.apps.comparing.comparison import build_comparison
from encoderlab.apps.comparing.comparison_page import show_comparison, write_comparison
from encoderlab.apps.comparing.finished_runs import finished_runs
from encoderlab.apps.comparing.jobs import COMPARED, LOGS, Jobs, say
from encoderlab.apps.comparing.search import search
from encoderlab.config.composing import CommandLine, quote, run_hydra
from encoderlab.errors import DataError, SettingError, TrainingError, UserError
from encoderlab.reports.wording import counted
from encoderlab.runs.run import Run, is_sweep, runs_in
from encoderlab.system.device import available_cores
from encoderlab.system.processes import Interrupted, deferred

MULTIRUN = Path("outputs") / "multirun"
PARALLEL = "hydra/launcher=parallel"
N_JOBS = "hydra.launcher.n_jobs="


def sweep(line: CommandLine, start: Callable[[Any, Sequence[str]], None]) -> None:
    """Run every combination of the values given, or the trials of a search.

    `start` runs the command with one job's settings and overrides. Raises UserError, with the exit code of the first
    job that failed, when all others have run.
    """
    assert line.sweep is not None
    trials = line.sweep.trials
    parsed = line.parsed()
    dry = any(override.key_or_group == "dry_run" and override.value() is True for override in parsed)
    if dry and trials is not None:
        raise SettingError("dry_run=true gives no score to search by", remedy="Remove trials or dry_run")
    varied = [override.key_or_group for override in parsed if override.is_sweep_override()]
    with _folder(line.sweep.sweep_dir, dry=dry) as root:
        if line.command in COMPARED and not dry:
            say(f"a line for each job follows; what they print besides is in {root / LOGS}")
        jobs = Jobs(line, root, start, varied, dry)
        try:
            if trials is not None:
                search(line, jobs, trials)
            else:
                _combine(line, jobs)
        except UserError:  # about the jobs that failed; the others have run
            _finish(jobs, compared=trials is None)
            raise
        except Interrupted:
            searched = [] if trials is None else [f"trials={trials}"]
            words = ["encoderlab", line.command, "-m", *line.typed(line.overrides), *searched, f"sweep_dir={root}"]
            if not dry:
                print(f"Finished runs are not repeated. Resume with: {shlex.join(words)}", file=sys.stderr)
            raise
        _finish(jobs, compared=trials is None)


@contextmanager
def _folder(sweep_dir: str | None, *, dry: bool) -> Iterator[Path]:
    """Open the folder of a sweep, a temporary one if its jobs are `dry` runs.

    Raises SettingError if `sweep_dir` holds something else.
    """
    if dry:
        with tempfile.TemporaryDirectory(prefix="encoderlab-dry-sweep-") as folder:
            yield Path(folder)
        return
    new = MULTIRUN / f"{time.strftime('%Y-%m-%d_%H-%M-%S')}-{uuid.uuid4().hex[:6]}"
    root = new if sweep_dir is None else Path(sweep_dir)
    if root.is_file() or (root.is_dir() and any(root.iterdir()) and not is_sweep(root)):
        allowed = "a new or empty folder, or a sweep to resume"
        raise SettingError(f"sweep_dir={sweep_dir} is not a sweep", allowed=allowed)
    yield root


def _combine(line: CommandLine, jobs: Jobs) -> None:
    """Let Hydra's sweeper and launcher run a job for each combination."""
    overrides = [*line.overrides, f"hydra.sweep.dir={quote(str(jobs.root))}"]
    if PARALLEL in overrides and not any(override.startswith(N_JOBS) for override in overrides):
        overrides.append(f"{N_JOBS}{torch.cuda.device_count() or available_cores()}")
    in_workers = PARALLEL in overrides  # they get Ctrl-C too, save, and then end this process
    jobs.failures_file.unlink(missing_ok=True)  # of an earlier start
    try:
        with deferred("each job saves after its step") if in_workers else nullcontext():
            run_hydra(replace(line, overrides=overrides), jobs)
    except BrokenProcessPool:
        problem = (
            "A process of this sweep was killed, perhaps because memory ran out, which ended the other running jobs"
        )
        remedy = f"Repeat the line with sweep_dir={jobs.root}, and {N_JOBS}1 to run one job at a time"
        raise TrainingError(problem, remedy=remedy) from None
    _refuse_failures(jobs)


def _refuse_failures(jobs: Jobs) -> None:
    """Raise UserError, with the exit code of the first one, if jobs have failed; the reason of each has been shown."""
    if not jobs.failures_file.is_file():
        return
    failures = [json.loads(line) for line in jobs.failures_file.read_text(encoding="utf-8").splitlines()]
    jobs.failures_file.unlink()
    names = "; ".join(failure["job"] for failure in failures)
    problem = f"{counted(len(failures), 'job')} failed, for the reasons above: {names}"
    again = "" if jobs.dry else f", or repeat the line with sweep_dir={jobs.root}: finished jobs are not repeated"
    error = UserError(problem, remedy=f"Correct the settings{again}")
    error.exit_code = failures[0]["exit_code"]
    raise error


def _finish(jobs: Jobs, *, compared: bool) -> None:
    """Show and write the comparison of all finished runs; delete the folder if there is no run."""
    runs = runs_in(jobs.root) if jobs.root.is_dir() else []
    if not runs and not jobs.dry:
        shutil.rmtree(jobs.root, ignore_errors=True)
        if jobs.root.parent == MULTIRUN:
            with suppress(OSError):  # they hold something else
                MULTIRUN.rmdir()
                MULTIRUN.parent.rmdir()
    if compared and jobs.command in COMPARED and any(Run(run).finished for run in runs):
        try:
            comparison = build_comparison(finished_runs(runs)[0])
            show_comparison(comparison, write_comparison(jobs.root, comparison))
        except (DataError, SettingError) as error:
            print(f"encoderlab: the runs are not compared: {error}", file=sys.stderr)
