"""The jobs of a sweep: a run for each combination of values, in a folder named by its settings, so that finished ones
are not repeated.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from encoderlab.apps.comparing.comparison import setting_value
from encoderlab.config import TRAINING_COMMANDS
from encoderlab.config.composing import CommandLine, settings_of
from encoderlab.config.earlier_run import EXPERIMENT
from encoderlab.config.schemas import settings_to_dict
from encoderlab.errors import UserError, one_line
from encoderlab.runs.resume import LOGGING
from encoderlab.runs.run import Run
from encoderlab.settings import flat_settings
from encoderlab.system.device import available_cores, precision_here
from encoderlab.system.processes import signals_handled
from encoderlab.training.config import Precision

LONGEST_NAME = 100  # characters of a folder's name that name the settings
COMPARED = (*TRAINING_COMMANDS, "eval")  # commands whose runs the table at the end compares
LOGS = "logs"  # a folder of the sweep
OF_NETWORK = {"model", "training", "tokenizer", "init_from", "experiment"}  # settings, and groups of them
CHANGE_WIDTH = {"model", "model.d_model", "init_from", "experiment"}  # settings that may change the width


@dataclass
class Jobs:
    """Runs the command of a `line` in the sweep's folder `root` for one combination after another.

    `start` runs the command with its settings and the overrides that gave them. `varied` names the settings that differ
    between jobs. Hydra's launchers send this to their workers. `dry`: nothing is written.
    """

    line: CommandLine
    root: Path
    start: Callable[[Any, Sequence[str]], None]
    varied: Sequence[str] = ()
    dry: bool = False
    main_process: int = field(default_factory=os.getpid)

    @property
    def command(self) -> str:
        """Return the name of the command."""
        return self.line.command

    @property
    def failures_file(self) -> Path:
        """Return the file in which jobs that fail, in any process, note that until all have ended: a line for each."""
        return self.root / LOGS / "failures.jsonl"

    def __call__(self, config: DictConfig) -> None:
        """Run the job of a config that Hydra has composed, in this process or in a launcher's worker.

        A failure is a line, and is noted; raised, Hydra would add lines of its own.
        """
        # What was typed for this job, and what of it differs between jobs.
        hydra = HydraConfig.get()
        overrides = [override for override in hydra.overrides.task if override != f"experiment={EXPERIMENT}"]
        varied = {*self.varied, *(hydra.sweeper.get("params") or {})}
        own = [override for override in overrides if override.partition("=")[0] in varied]
        try:
            self._run_composed(config, overrides, own, varied)
        except UserError as error:
            shown = " ".join(own or overrides)
            say(f"{shown}: failed: {error}")
            self.failures_file.parent.mkdir(parents=True, exist_ok=True)
            with self.failures_file.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"job": shown, "exit_code": error.exit_code}) + "\n")

    def _run_composed(
        self, config: DictConfig, overrides: Sequence[str], own: Sequence[str], varied: Collection[str]
    ) -> None:
        """Run the job of a config, of whose `overrides` its `own` differ between jobs. Raises UserError if it fails."""
        hydra = HydraConfig.get()
        settings = settings_of(config, self.line)

        # Its folder is named by these settings, so the same line finds its finished runs again. What only watches a run
        # makes it no other run.
        plain = {name: value for name, value in flat_settings(settings_to_dict(settings)) if name not in LOGGING}
        words = [override.partition("=")[0].rpartition(".")[2] + "-" + override.partition("=")[2] for override in own]
        if hasattr(settings, "task"):
            words.insert(0, settings.task.name)

        # Jobs that run at the same time share the cores.
        n_parallel = hydra.launcher.get("n_jobs") or 1
        requested = settings
        if n_parallel > 1:
            settings = _share_of_machine(settings, n_parallel, hydra.job.num)
        settings = made_comparable(settings, varied)
        overrides = [*overrides, *set_by_sweep(requested, settings)]
        in_worker = os.getpid() != self.main_process
        with signals_handled() if in_worker else nullcontext():
            self.run(settings, overrides, _name(words, plain), " ".join(own or overrides), logged=n_parallel > 1)

    def run(
        self, settings: Any, overrides: Sequence[str], name: str, shown: str, *, logged: bool = False
    ) -> Run | None:
        """Run the command, or skip or resume it if the folder of this name holds its run; return its run folder.

        A line, which begins with what is `shown` of the job, says how it ended. What a run prints besides is in its
        log, and so is all that a job prints which is to be `logged`. Raises UserError if it fails; FolderInUseError if
        another process is running it.
        """
        # A finished run is not repeated, and an unfinished one is resumed.
        folder = None
        if hasattr(settings, "run_dir") and not self.dry:
            folder = Run(Path(settings.run_dir or self.root / name))
            if folder.finished:
                _ = folder.report  # one that is cut off is refused, before the table at the end
                say(f"{shown}: finished before: {folder.folder}")
                return folder
            resume = {"resume": "auto"} if getattr(settings, "resume", "") is None else {}
            settings = replace(settings, run_dir=str(folder.folder), **resume)

        # The job itself: a mistake of the user's is shown in its line, and the sweep goes on.
        logged = logged or (folder is not None and self.command in COMPARED)
        if not logged:
            say(f"starting: {shown}")
        started = time.monotonic()
        try:
            with self._output(name) if logged else nullcontext():
                self.start(settings, overrides)
        except UserError:
            raise
        except Exception as error:
            traceback.print_exception(error)
            raise UserError(f"{shown} failed: {type(error).__name__}: {error}") from None
        if folder is not None and logged:
            say(f"{shown}: {_outcome(folder)}, {time.monotonic() - started:.0f} s: {folder.folder}")
        return folder

    @contextmanager
    def _output(self, name: str) -> Iterator[None]:
        """Send what the job prints to its log."""
        logs = self.root / LOGS
        logs.mkdir(parents=True, exist_ok=True)
        with (logs / f"{name}.log").open("a", encoding="utf-8") as log, redirect_stdout(log), redirect_stderr(log):
            yield


def _outcome(folder: Run) -> str:
    """Return the main score of a finished run in words, such as "accuracy 0.912 on test"."""
    report = folder.report
    splits = report.get("splits", {})
    name = report.get("main_score")
    for split in ("test", "validation", *splits):
        score = splits.get(split, {}).get(name)
        if score is not None:
            return f"{name} {score:.4g} on {split}"
    return "finished"


def _name(shown: Sequence[str], identity: Any) -> str:
    """Return the name of a job's folder, such as brackets_seed-1_n_layers-2_0acd1f24; the end is a hash of `identity`.

    It has no character that a shell or Hydra's grammar reads as anything but a letter.
    """
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:8]
    readable = re.sub(r"[^\w.-]+", "-", "_".join(shown))[:LONGEST_NAME]
    return f"{readable}_{digest}" if readable else digest


def _share_of_machine(settings: Any, n_parallel: int, number: int) -> Any:
    """Return the settings with one job's share of the cores, and a GPU in turn, unless they are set."""
    holder = getattr(settings, "training", settings)
    share = {}
    if getattr(holder, "threads", 0) is None:
        share["threads"] = max(available_cores() // n_parallel, 1)
    n_gpus = torch.cuda.device_count()
    if n_gpus and getattr(holder, "device", None) in ("auto", "cuda"):
        share["device"] = f"cuda:{number % n_gpus}"
    changed = replace(holder, **share)
    return changed if holder is settings else replace(settings, training=changed)


def made_comparable(settings: Any, varied: Collection[str]) -> Any:
    """Return the settings of a job with a precision that does not depend on how fast it is, and that all jobs share.

    The rules choose it by the encoder's width. Where that may differ between the jobs, it is that of wide encoders.
    Where the jobs differ in the network or its training, no linear model is added to it, which would hide that.
    """
    training = getattr(settings, "training", None)
    if training is None:
        return settings

    # The networks are compared by themselves.
    changes_network = any(name.partition(".")[0] in OF_NETWORK for name in varied)
    if changes_network and getattr(settings.task, "linear_weight", 0.0) is None:
        settings = replace(settings, task=replace(settings.task, linear_weight=0.0))

    # In one precision, which nobody measures.
    training = replace(training, measure=False)
    if training.precision is Precision.auto and not CHANGE_WIDTH.isdisjoint(varied):
        training = replace(training, precision=Precision[precision_here(training.device)])
    return replace(settings, training=training)


def set_by_sweep(requested: Any, settings: Any) -> list[str]:
    """Return what the sweep has set of a job's `settings`, as it is typed in the line that repeats the job."""
    before = dict(flat_settings(settings_to_dict(requested)))
    after = dict(flat_settings(settings_to_dict(settings)))
    return [f"{name}={setting_value(value)}" for name, value in after.items() if value != before[name]]


def say(line: str) -> None:
    """Print a line about the sweep."""
    print(f"encoderlab: {one_line(line)}", file=sys.stderr)
