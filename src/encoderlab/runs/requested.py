"""What is requested: a new run, or one that is resumed, which brings its own settings and what it has recorded."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch

from encoderlab.config.commands import RunConfig
from encoderlab.errors import SettingError
from encoderlab.runs.record import Record
from encoderlab.runs.resume import AUTO, latest_unfinished, named_run
from encoderlab.runs.run import Run, check_free
from encoderlab.runs.tracking import check_trackers
from encoderlab.settings import setting_name
from encoderlab.system.device import PRECISION_NAMES
from encoderlab.system.processes import Processes
from encoderlab.training.config import Optimizer, Precision
from encoderlab.training.distribution import is_sharded

LENGTHS = ("steps", "epochs", "budget")  # of training


@dataclass(frozen=True, slots=True)
class RequestedRun:
    """A run as it is requested: its `config`, in which settings may still be open.

    `record` is what a run that is resumed has recorded of itself, and `notes` are those on what it decided (None: the
    run is new, and decides now).

    `threads` and `precision` are as set. A resumed run on the same cores keeps what it began with, if that was open, so
    that it rounds as before; on other cores it is decided anew. `accumulate` is `training.accumulate` as set; None if
    it was open when the run began, and is not changed now.
    """

    config: RunConfig
    record: Record | None
    threads: int | None
    precision: Precision
    accumulate: int | None
    notes: list[str] | None = None

    @property
    def is_resumed(self) -> bool:
        return self.record is not None

    @property
    def continues_from_checkpoint(self) -> bool:
        """Return whether the run is resumed, and has a checkpoint already."""
        return self.config.resume is not None and Run(self.config.resume).has_checkpoint

    @classmethod
    def of(cls, config: RunConfig, record: Record | None, processes: Processes) -> RequestedRun:
        training = config.training
        threads = training.threads
        precision = training.precision
        accumulate = training.accumulate
        if record is None:
            return cls(config, None, threads, precision, accumulate)

        # The same cores compute as they did, so that the run rounds as before.
        hardware = record.environment["hardware"]
        same_machine = hardware["cores"] == os.cpu_count() and hardware.get("processes") == processes.local_size
        if threads is None and same_machine:
            threads = hardware["threads"]
        if precision is Precision.auto and same_machine and hardware.get("speeds"):
            precision = Precision[PRECISION_NAMES[getattr(torch, hardware["precision"])]]

        # Micro-batches that memory has decided stay open, unless they are set now.
        was_open = record.composed.get("training", {}).get("accumulate") is None
        if was_open and record.settings["training"]["accumulate"] == accumulate:
            accumulate = None

        # The report says what was decided, and where the length has changed since.
        lengths = [{name: settled["training"].get(name) for name in LENGTHS} for settled in record.settled]
        now = {name: getattr(training, name) for name in LENGTHS}
        for note in changes_of_length([*lengths[-1:], now]):
            print(note, file=sys.stderr)
        notes = [*record.environment.get("notes", []), *changes_of_length([*lengths, now])]
        return cls(config, record, threads, precision, accumulate, notes or None)


def changes_of_length(lengths: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a note for each time that a run was resumed with another length than before, in their order."""
    notes = []
    for before, after in pairwise(lengths):
        changed = [
            f"training.{name}={after[name]} (before: {before[name]})" for name in after if after[name] != before[name]
        ]
        if changed:
            schedule = "the learning rate follows the schedule of the new length from there on"
            notes.append(f"Resumed with another length, {', '.join(changed)}: {schedule}")
    return notes


def requested_run(config: RunConfig, processes: Processes, explicit: Collection[str] | None = None) -> RequestedRun:
    """Return a new run with these settings, or the run that `config.resume` names with its own, in which `resume` and
    `run_dir` are its folder.

    The settings of a run that is resumed must agree with its own: all of them, or those that were typed (`explicit`, or
    the config's `overrides`), except those that may change. `auto` takes the latest unfinished run of this command with
    these settings, or that in `config.run_dir`, and starts a new run if there is none; so does a cross-validation whose
    `run_dir` is named. Raises SettingError if the run is finished or was started with other settings, or the folder of
    a new run is not free; DataError if there is no such run.
    """
    # Only what was typed is compared with a resumed run; the rest of a composed config is defaults.
    if explicit is None and config.overrides is not None:
        explicit = set(map(setting_name, config.overrides))

    # A cross-validation is many runs, so starting it again in its folder goes on with those that are left.
    if config.folds is not None and config.resume is None and config.run_dir is not None:
        config = replace(config, resume=AUTO, dry_run=False)  # a dry run takes the first fold, see `run_training`

    # The main process finds the run for all, because one that looks later may find another.
    return processes.broadcast_from_main(lambda: _requested(config, explicit, processes))


def _requested(config: RunConfig, explicit: Collection[str] | None, processes: Processes) -> RequestedRun:
    # A run that is resumed, by its name or as the latest that was stopped.
    run = None
    if config.resume == AUTO:
        run, config = latest_unfinished(config)
    elif config.resume is not None:
        run = Run(config.resume)
        config = named_run(config, run, explicit)

    # A new run needs a folder of its own, and nothing to resume.
    if run is None:
        check_free(config.run_dir)
        config = replace(config, resume=None)
    return RequestedRun.of(config, None if run is None else run.record, processes)


def check_request(config: RunConfig, processes: Processes) -> None:
    """Raise SettingError for a task that another command trains, a missing tracker, or processes that cannot train it
    as set.
    """
    # What has to be imported is imported now, and not after the steps.
    check_trackers(config)
    task = config.task
    task.own_functions()

    # The command must suit the task, because it decides which settings there are.
    command = config.command
    if command == "pretrain" and task.command != "pretrain":
        problem = f"task={task.name} needs labels, which pretraining does not use"
        raise SettingError(problem, remedy=f"Remove task, or run encoderlab train task={task.name}")
    if command in ("train", "finetune") and task.command != "train":
        raise SettingError(f"task={task.name} has no labels to predict", remedy=f"Run encoderlab {task.command}")
    if config.training.optimizer is Optimizer.muon and is_sharded(config.training, processes):
        problem = "training.optimizer=muon needs whole matrices, and training.sharding=full divides them"
        raise SettingError(problem, remedy="Set training.optimizer=adamw or training.sharding=none")
