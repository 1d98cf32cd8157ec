"""Sweeps: what each job does around its command, and what is said and written when all have run.

A signal to jobs that run side by side is passed on to their processes, which ignore it from their birth until they can handle it.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encoderlab.config.command_settings import SweepConfig
from encoderlab.config.hydra_errors import explained
from encoderlab.config.schemas import COMMAND_CONFIGS, typed
from encoderlab.errors import DataError, SettingError, UserError, one_line
from encoderlab.runs.folders.folder import RunFolder
from encoderlab.runs.folders.sweep import (
    FAILED,
    FINISHED,
    RUNNING,
    STOPPED,
    JobRecord,
    SweepError,
    SweepFolder,
    job_key,
    refused_key,
)
from encoderlab.system.signals import Interrupted, signals_for_worker, signals_handled

if TYPE_CHECKING:
    from omegaconf import DictConfig

COMPARED = ("train", "pretrain", "finetune", "distill", "eval")
PARALLEL = "hydra_joblib_launcher"
_HYDRAS_NAME = "hydra.sweep.dir="
_RANGE = re.compile(r"(?!text)[\w.]+=(log|interval)\([^()]*\)")


def sweep_settings(arguments: Sequence[str], multirun: bool) -> tuple[SweepConfig, list[str]]:
    """What was typed for all runs together, and the other arguments.

    Raises SettingError for such a setting without -m, and for a value it cannot have.
    """
    names = [declared.name for declared in fields(SweepConfig)]
    said = {name: value for name, equals, value in (one.partition("=") for one in arguments) if equals and name in names}
    rest = [argument for argument in arguments if argument.partition("=")[0] not in said]
    alone = [*said, *(["sweep"] if any(one.startswith("sweep=") and one != "sweep=null" for one in rest) else [])]
    if alone and not multirun:
        raise SettingError(f"{alone[0]} is for several runs", remedy="Add -m to start them")
    said = {name: None if value == "null" else value for name, value in said.items()}
    trials: Any = said.get("trials")
    if trials is not None and not trials.isascii():
        trials = ""
    if trials is not None and not trials.lstrip("-").isdigit():
        raise SettingError(
            f"trials={said['trials']} has the wrong type", allowed="a whole number, at least 1", remedy="Set trials=20"
        )
    ranges = [one for one in rest if _RANGE.fullmatch(one)]
    if ranges and trials is None:
        remedy = f"Add {'' if multirun else '-m '}trials=20 to search it"
        raise SettingError(f"{ranges[0]} is a range, not a value", remedy=remedy)
    folder = next((one.removeprefix(_HYDRAS_NAME) for one in rest if one.startswith(_HYDRAS_NAME)), None)
    rest = [argument for argument in rest if not argument.startswith(_HYDRAS_NAME)]
    return SweepConfig(said.get("sweep_dir", folder), None if trials is None else int(trials)), rest


@contextmanager
def folder_for(options: SweepConfig, *, dry: bool) -> Iterator[SweepFolder]:
    """The folder of a sweep; one that is gone afterwards where its jobs are `dry` runs. Raises SettingError."""
    if not dry:
        yield SweepFolder.named(options.sweep_dir)
        return
    if options.trials is not None:
        raise SettingError("dry_run=true gives no score to search by", remedy="Remove trials, or dry_run")
    with tempfile.TemporaryDirectory(prefix="encoderlab-dry-sweep-") as folder:
        yield SweepFolder(Path(folder))


@dataclass
class Sweep:
    """A sweep of one command, as the process that was started knows it, and each process of a job is told.

    `start` runs the command for one job's settings and returns its run folder, where it fills one. `composed` collects the
    command lines of the jobs, so that it is known how many there are. `dry`: its jobs write nothing, and its folder will be gone.
    """

    command: str
    folder: SweepFolder
    start: Callable[[Any, Sequence[str]], Any]
    dry: bool = False
    at_once: int = 1
    process: int = field(default_factory=os.getpid)
    composed: set[tuple[str, ...]] = field(default_factory=set)
    started: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    def prepare(self, config: DictConfig, before_workers: Callable[[], None] = lambda: None) -> None:
        """Note a composed config; and where jobs are to run at once, how many: one for each card, else one for each core.

        `before_workers` is called before there are any.
        """
        from omegaconf import open_dict, read_write

        self.composed.add(tuple(config.hydra.overrides.task))
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
        """Run one job, or skip it where it is finished; a failure is recorded and does not end the sweep.

        Returns its record, None where another process runs it. Raises Interrupted.
        """
        if os.getpid() == self.process:
            return self._job(config, number, list(overrides))
        signals: AbstractContextManager[None] = signals_for_worker() if self.at_once > 1 else signals_handled()
        try:
            with signals:
                return self._job(config, number, list(overrides))
        except Interrupted:  # the process that started this one has had the signal, too
            return None

    def _job(self, config: DictConfig, number: int, overrides: list[str]) -> JobRecord | None:
        try:
            with explained(self.command):
                settings = typed(config, COMMAND_CONFIGS[self.command])
        except UserError as error:
            return self._failed(
                JobRecord(refused_key(self.command, overrides), number, overrides, FAILED, start=self.started), error
            )
        key = job_key(self.command, settings)
        with self.folder.held(key) as is_free:
            if not is_free:
                _say(f"job {number} runs in another process: {' '.join(overrides)}")
                return None
            before = self.folder.read(key)
            if before is not None and _is_finished(before):
                _say(f"job {number} was finished before: {before.folder or ' '.join(overrides)}")
                record = replace(
                    before, number=number, overrides=overrides, state=FINISHED, error=None, exit_code=0, start=self.started
                )
                self.folder.write(record)
                return record
            settings = settings if self.dry else _continued(settings, partial(self.folder.unused_run, self.command), before)
            record = JobRecord(key, number, overrides, RUNNING, _own_folder(settings), start=self.started)
            self.folder.write(record)
            started = time.perf_counter()
            try:
                with self._share_of_the_machine(settings, number) as settings, self._own_output(key):
                    return self._run(settings, record, started)
            except Interrupted:
                self._ended(record, STOPPED, started)
                raise

    def _run(self, settings: Any, record: JobRecord, started: float) -> JobRecord:
        _say(f"job {record.number}: {' '.join(record.overrides)}")
        try:
            found = self.start(settings, record.overrides)
        except Exception as error:
            if not isinstance(error, UserError):
                traceback.print_exc()
            return self._failed(self._ended(record, FAILED, started), error)
        return self._ended(replace(record, folder=found.root) if isinstance(found, RunFolder) else record, FINISHED, started)

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
        """The settings with this job's share: of the cores, and a GPU of its own, unless they say which."""
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
            yield replace(settings, training=replace(holder, **own)) if holder is not settings else replace(settings, **own)

    @contextmanager
    def _own_output(self, key: str) -> Iterator[None]:
        """Of jobs that run at the same time, what each prints goes to a file beside its record."""
        if self.at_once < 2 or self.dry:
            yield
            return
        path = self.folder.jobs / f"{key}.log"
        with path.open("a", encoding="utf-8") as log, redirect_stdout(log), redirect_stderr(log):
            yield

    def finish(self, *, compared: bool = True) -> None:
        """Show and write the comparison of all finished runs, list what failed, and raise SweepError where something did.

        A job that failed when an earlier line was typed, and is not of this one, is none of this sweep's business any more.
        """
        records = self.folder.records() if self.folder.exists else []
        runs = [str(record.folder) for record in records if record.folder is not None and _is_finished(record)]
        if compared and self.command in COMPARED and runs:
            self._compare(runs)
        records = [record for record in records if record.start == self.started]
        failed = [record for record in records if record.state == FAILED]
        for record in failed:
            print(f"encoderlab: job {record.number} failed: {' '.join(record.overrides)}: {record.error}", file=sys.stderr)
        if failed:
            raise SweepError(failed, len(records), None if self.dry else self.folder.root)

    def _compare(self, folders: list[str]) -> None:
        from encoderlab.reports.comparison.comparison import build_comparison
        from encoderlab.reports.comparison.files import write_comparison
        from encoderlab.reports.comparison.glue_table import are_of_glue, build_glue_table, show_glue_table, write_glue_table
        from encoderlab.reports.comparison.screen import show_comparison
        from encoderlab.runs.folders.finished import finished_runs

        try:
            runs, _ = finished_runs(folders)
            if are_of_glue(runs):
                table = build_glue_table(runs)
                show_glue_table(table, write_glue_table(self.folder.root, table))
                return
            comparison = build_comparison(runs)
            show_comparison(comparison, write_comparison(self.folder.root, comparison, runs))
        except (DataError, SettingError) as error:
            print(f"encoderlab: the runs are not compared: {error}", file=sys.stderr)

    def say_how_to_go_on(self, arguments: Sequence[str]) -> None:
        """Print the line that goes on with this sweep."""
        if self.dry:
            return
        line = shlex.join(["encoderlab", self.command, *arguments, f"sweep_dir={self.folder.root}"])
        print(f"Finished jobs are not repeated. Resume with: {line}", file=sys.stderr)


def _is_finished(record: JobRecord) -> bool:
    """Whether the job is done: a run's report is the last thing it writes, and may be there though the record says otherwise."""
    if record.folder is None:
        return record.state == FINISHED
    return RunFolder(record.folder).finished


def _continued(settings: Any, unused: Callable[[str], Path], before: JobRecord | None) -> Any:
    """The settings, with the run folder that an earlier process has begun, or with a new one; left alone where they name a run."""
    if getattr(settings, "resume", "none") is not None:  # named already, or a command that does not go on
        return settings
    typed = None if settings.run_dir is None else Path(settings.run_dir)
    begun = typed or (None if before is None else before.folder)
    if begun is not None and RunFolder(begun).config.is_file() and not RunFolder(begun).finished:
        return replace(settings, run_dir=None, resume=str(begun))
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


def _say(line: str) -> None:
    print(f"encoderlab: {one_line(line)}", file=sys.stderr)
