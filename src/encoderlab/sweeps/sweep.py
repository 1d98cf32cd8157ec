"""Sweeps: what each job does around its command.

A signal to jobs that run side by side is passed on to their processes, which ignore it from their birth until they can
handle it.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encoderlab.config.hydra_errors import explained
from encoderlab.config.schemas import COMMAND_CONFIGS, typed, without_hydra
from encoderlab.errors import UserError, one_line
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.folders.claims import Claim, Claims
from encoderlab.runs.folders.sweep import (
    FAILED,
    FINISHED,
    RUNNING,
    STOPPED,
    JobRecord,
    SweepFolder,
    job_key,
    refused_key,
)
from encoderlab.system.signals import Interrupted, signals_for_worker, signals_handled

if TYPE_CHECKING:
    from omegaconf import DictConfig

TAKEOVER_SECONDS = 120
PARALLEL = "hydra_joblib_launcher"


@dataclass
class Sweep:
    """A sweep of one command, as the process that was started knows it, and each process of a job is told.

    `start` runs the command for one job's settings and returns its run folder, if it has one. `composed` collects the
    command lines of the jobs, so that it is known how many there are, and `jobs` has the key of each. `dry`: its jobs
    write nothing, and its folder will be gone. `failed_before` has the failures to try again, each with the command
    line that it came from. What fails meanwhile on another machine that shares the folder is not tried again.
    """

    command: str
    folder: SweepFolder
    start: Callable[[Any, Sequence[str]], Any]
    dry: bool = False
    takeover_seconds: float = TAKEOVER_SECONDS
    at_once: int = 1
    process: int = field(default_factory=os.getpid)
    composed: set[tuple[str, ...]] = field(default_factory=set)
    jobs: dict[tuple[str, ...], str] = field(default_factory=dict)
    passes: int = 0
    started: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    claims: Claims = field(init=False)
    failed_before: dict[str, str | None] = field(init=False)

    def __post_init__(self) -> None:
        self.claims = Claims(self.folder.jobs, self.takeover_seconds)
        records = self.folder.records() if self.folder.exists else []
        self.failed_before = {record.key: record.start for record in records if record.state == FAILED}
        self._is_next_composed_own = False

    def begin_pass(self) -> None:
        """Expect Hydra to compose all jobs, after the sweep's own config."""
        self.passes += 1
        self._is_next_composed_own = True

    def prepare(self, config: DictConfig, before_workers: Callable[[], None] = lambda: None) -> None:
        """Record a composed config and, for parallel jobs, how many: one per GPU, otherwise one per core.

        `before_workers` is called before there are any.
        """
        from omegaconf import open_dict, read_write

        overrides = tuple(config.hydra.overrides.task)
        self.composed.add(overrides)
        if not self._is_next_composed_own and overrides not in self.jobs:
            self.jobs[overrides] = self._key(without_hydra(config), list(overrides))[0]
        self._is_next_composed_own = False
        launcher = config.hydra.launcher
        if launcher is None or PARALLEL not in str(launcher.get("_target_")):
            return
        if launcher.n_jobs < 0:
            with read_write(config), open_dict(config):
                launcher.n_jobs = _gpus() or _cores()
        self.at_once = launcher.n_jobs
        if self.at_once > 1:
            before_workers()

    def job(self, config: DictConfig, number: int, overrides: Sequence[str]) -> JobRecord | None:
        """Run one job, or skip it if it is finished; a failure is recorded and does not end the sweep.

        Returns its record, None if another process runs it. Raises Interrupted.
        """
        if os.getpid() == self.process:
            return self._job(config, number, list(overrides))
        signals: AbstractContextManager[None] = signals_for_worker() if self.at_once > 1 else signals_handled()
        try:
            with signals:
                return self._job(config, number, list(overrides))
        except Interrupted:  # the process that started this one got the signal, too
            return None

    def _key(self, config: DictConfig, overrides: list[str]) -> tuple[str, Any]:
        """Return the key of the job, and its settings, or why they are refused."""
        try:
            with explained(self.command):
                settings = typed(config, COMMAND_CONFIGS[self.command])
        except UserError as error:
            return refused_key(self.command, overrides), error
        return job_key(self.command, settings), settings

    def _job(self, config: DictConfig, number: int, overrides: list[str]) -> JobRecord | None:
        key, settings = self._key(config, overrides)
        record = JobRecord(key, number, overrides, RUNNING, start=self.started)
        if isinstance(settings, UserError):
            return self._failed(record, settings)
        if (before := self._done(record)) is not None:
            return before
        with self.claims.held(key) as (is_held, other):
            if not is_held:
                say(f"job {number} runs on {other.holder if other else 'another machine'}: {' '.join(overrides)}")
                return None
            if (before := self._done(record)) is not None:  # meanwhile
                return before
            return self._started(record, settings, self.folder.read(key), taken_over_from=other)

    def is_done(self, record: JobRecord) -> bool:
        """Return whether nothing is left to do: it has finished, or has failed since this command line was started."""
        is_new_failure = record.state == FAILED and record.start != self.failed_before.get(record.key)
        return is_new_failure or is_finished(record)

    def _done(self, job: JobRecord) -> JobRecord | None:
        """Return the record of the job if it is finished, with its number and overrides in this sweep; otherwise None."""
        before = self.folder.read(job.key)
        if before is None or not self.is_done(before):
            return None
        if not is_finished(before):
            return before
        if self.passes < 2:
            say(f"job {job.number} was finished before: {before.folder or ' '.join(job.overrides)}")
        record = replace(job, folder=before.folder, state=FINISHED, seconds=before.seconds)
        self.folder.write(record)
        return record

    def _started(
        self, job: JobRecord, settings: Any, before: JobRecord | None, taken_over_from: Claim | None
    ) -> JobRecord:
        if taken_over_from is not None:
            say(f"job {job.number} is taken over from {taken_over_from.holder}")
        if taken_over_from is not None and before is not None and before.folder is not None:
            self.folder.break_locks(RunFolder(before.folder))
        settings = settings if self.dry else _continued(settings, partial(self.folder.unused_run, self.command), before)
        record = replace(job, folder=_own_folder(settings))
        self.folder.write(record)
        started = time.perf_counter()
        try:
            with self._share_of_the_machine(settings, job.number) as settings, self._own_output(job.key):
                return self._run(settings, record, started)
        except Interrupted:
            self._ended(record, STOPPED, started)
            raise

    def _run(self, settings: Any, record: JobRecord, started: float) -> JobRecord:
        say(f"job {record.number}: {' '.join(record.overrides)}")
        try:
            found = self.start(settings, record.overrides)
        except Exception as error:
            if not isinstance(error, UserError):
                traceback.print_exc()
            return self._failed(self._ended(record, FAILED, started), error)
        return self._ended(
            replace(record, folder=found.root) if isinstance(found, RunFolder) else record, FINISHED, started
        )

    def _ended(self, record: JobRecord, state: str, started: float) -> JobRecord:
        ended = replace(record, state=state, seconds=round(time.perf_counter() - started, 2))
        self.folder.write(ended)
        return ended

    def _failed(self, record: JobRecord, error: Exception) -> JobRecord:
        words = str(error) if isinstance(error, UserError) else one_line(f"{type(error).__name__}: {error}")
        failed = replace(record, state=FAILED, error=words, exit_code=getattr(error, "exit_code", 1))
        self.folder.write(failed)
        print(f"encoderlab: job {record.number} failed: {words}", file=sys.stderr)
        return failed

    @contextmanager
    def _share_of_the_machine(self, settings: Any, number: int) -> Iterator[Any]:
        """Return the settings with this job's share of the cores and its own GPU, unless they are set."""
        at_once = min(self.at_once, max(len(self.composed) - 1, 1))  # one of those composed is the sweep's own
        if at_once < 2:
            yield settings
            return
        threads = max(_cores() // at_once, 1)
        holder = getattr(settings, "training", settings)
        own = {"threads": threads} if getattr(holder, "threads", 0) is None else {}
        wants_gpu = getattr(holder, "device", None) in ("auto", "cuda") and (gpus := _gpus())
        with self.folder.gpu(gpus, number) if wants_gpu else nullcontext() as gpu:
            own |= {} if gpu is None else {"device": f"cuda:{gpu}"}
            yield (
                replace(settings, training=replace(holder, **own))
                if holder is not settings
                else replace(settings, **own)
            )

    @contextmanager
    def _own_output(self, key: str) -> Iterator[None]:
        """Redirect the output of a job that runs in parallel with others to a file next to its record."""
        if self.at_once < 2 or self.dry:
            yield
            return
        path = self.folder.jobs / f"{key}.log"
        with path.open("a", encoding="utf-8") as log, redirect_stdout(log), redirect_stderr(log):
            yield

    def say_how_to_resume(self, arguments: Sequence[str]) -> None:
        """Print the line that resumes this sweep."""
        if self.dry:
            return
        line = shlex.join(["encoderlab", self.command, *arguments, f"sweep_dir={self.folder.root}"])
        print(f"Finished jobs are not repeated. Resume with: {line}", file=sys.stderr)


def is_finished(record: JobRecord) -> bool:
    """Return whether the job is done: a run writes its report last, so it may exist though the record says otherwise."""
    if record.folder is None:
        return record.state == FINISHED
    return RunFolder(record.folder).finished


def _continued(settings: Any, unused: Callable[[str], Path], before: JobRecord | None) -> Any:
    """Return the settings with the run folder that an earlier process began or a new one, unless they name a run
    themselves.
    """
    if getattr(settings, "resume", "none") is not None:  # already named, or a command that cannot be resumed
        return settings
    typed = None if settings.run_dir is None else Path(settings.run_dir)
    started = typed or (None if before is None else before.folder)
    if started is not None and RunFolder(started).config.is_file() and not RunFolder(started).finished:
        return replace(settings, run_dir=None, resume=str(started))
    return settings if typed else replace(settings, run_dir=str(unused(settings.task.name)))


def _own_folder(settings: Any) -> Path | None:
    named = getattr(settings, "run_dir", None) or getattr(settings, "resume", None)
    return None if named in (None, "auto") else Path(named)


def _gpus() -> int:
    from encoderlab.system.device import count_gpus

    return count_gpus()


def _cores() -> int:
    from encoderlab.system.device import available_cores

    return available_cores()


def say(line: str) -> None:
    """Print a line about the sweep."""
    print(f"encoderlab: {one_line(line)}", file=sys.stderr)
