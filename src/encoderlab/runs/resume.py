"""Resuming a run: which folder it is in, and with which settings it continues.

A run is resumed by being started again: the same command, with the run's own settings, the newest good checkpoint
loaded and the batches drawn from the step after it. The settings that were typed are compared with the run's own, and
not the composed config, so `resume=FOLDER` alone is enough and a command line may be repeated as it was.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from encoderlab.config import TRAINING_COMMANDS
from encoderlab.config.commands import RunConfig
from encoderlab.config.schemas import settings_from_dict, settings_to_dict
from encoderlab.errors import DataError, SettingError
from encoderlab.runs.record import json_settings, parsed
from encoderlab.runs.run import Run
from encoderlab.settings import flat_settings, typed_value

NOT_COMPARED = ("cache_dir", "run_dir", "resume", "config")  # settings that change nothing in a run
# The settings that may change when a run is resumed. Logging changes nothing that is computed:
LOGGING = {
    *NOT_COMPARED,
    "baselines",
    "tensorboard",
    "tracking",
    "training.log_every",
    "training.checkpoint_every",
    "training.keep_state",
}
# Other hardware rounds differently:
HARDWARE = {"training.device", "training.threads", "training.compile", "training.sharding"}
# What is behind a path is compared with what was there:
PATHS = {"init_from", "dataset.path", "dataset.train", "dataset.validation", "dataset.test"}
# A longer run has another schedule, and more micro-batches round differently. Yet a run that has reached its limit, or
# that ran out of memory, can only continue if they may change:
LIMITS = {"training.epochs", "training.steps", "training.budget", "training.accumulate"}
MAY_CHANGE = LOGGING | HARDWARE | PATHS | LIMITS
AUTO = "auto"


def named_run(config: RunConfig, run: Run, explicit: Collection[str] | None) -> RunConfig:
    """Return the settings of the run that `config.resume` names."""
    if config.run_dir is not None and Path(config.run_dir).resolve() != run.folder.resolve():
        remedy = "Remove run_dir; a run resumes in its own folder"
        raise SettingError(f"run_dir={config.run_dir} is not resume={config.resume}", remedy=remedy)
    return _merged(config, run, explicit, MAY_CHANGE)


def latest_unfinished(config: RunConfig) -> tuple[Run | None, RunConfig]:
    """Return the latest unfinished run that agrees with `config`, and its settings; None if there is none."""
    usual = (Path("outputs") / config.command / config.task.name).glob("*")
    folders = usual if config.run_dir is None else [Path(config.run_dir)]

    # A named run that is finished is called so, and not taken for a folder that is not free.
    if config.run_dir is not None and Run(config.run_dir).finished:
        _check_unfinished(Run(config.run_dir), config.command)

    # The newest comes first.
    unfinished = [run for run in map(Run, folders) if run.config_file.is_file() and not run.finished]
    for run in sorted(unfinished, key=lambda run: run.config_file.stat().st_mtime_ns, reverse=True):
        try:
            merged = _merged(config, run, None, LOGGING | HARDWARE)
        except (SettingError, DataError):  # another run, or an unreadable one
            if config.run_dir is not None:
                raise
            continue
        print(f"resume=auto resumes {run.folder}", file=sys.stderr)
        return run, merged
    if config.run_dir is None:
        print("resume=auto finds no unfinished run with these settings and starts a new one", file=sys.stderr)
    return None, config


def _merged(config: RunConfig, run: Run, explicit: Collection[str] | None, may_change: Set[str]) -> RunConfig:
    """Return the run's settings, with those that may change as now set. Raises SettingError naming every other
    difference, or if the run is finished.
    """
    # Another command's run, and one that has ended, cannot be resumed.
    _check_unfinished(run, config.command)

    # The run's own settings, as they were when it began: an edited file would make its report untrue.
    recorded = parsed(run.config_file, lambda: settings_from_dict(run.record.settings, type(config)))
    settings = dict(flat_settings(json_settings(recorded)))
    _refuse_edited(run, settings)

    # What this line changes: hardware and logging may, what the steps so far depend on may not.
    changed = _changed(config, settings, run.record.composed, explicit, may_change)
    _refuse_changes(run, settings, changed, may_change)
    return _apply(recorded, changed, config, run)


def _refuse_edited(run: Run, settings: Mapping[str, Any]) -> None:
    """Raise SettingError naming every setting in config.yaml that differs from what was recorded at the last start.

    A kill may have come between the two records of a start, so config.yaml may be that of the start before.
    """
    # What one of the last two starts has recorded must be what config.yaml says now.
    differing: list[str] = []
    for settled in run.record.settled[-2:]:
        began_with = dict(flat_settings(settled))
        names = (settings.keys() | began_with.keys()) - {*NOT_COMPARED}
        differing = sorted(name for name in names if settings.get(name) != began_with.get(name))
        if not differing:
            return
    if differing:
        both = ", ".join(f"{name}={settings.get(name)} (the run: {began_with.get(name)})" for name in differing)
        problem = f"{run.config_file} has been edited since the run was started: {both}"

        # The remedy is a line to paste, if every one of these settings may be changed by one.
        settable = [name for name in differing if name in MAY_CHANGE]
        remedy = "Put back what it was, or start a new run"
        if settable == differing:
            remedy = (
                f"Put back what it was, and set {' '.join(typed_value(name, settings.get(name)) for name in settable)}"
            )
        raise SettingError(problem, remedy=remedy)


def _check_unfinished(run: Run, command: str) -> None:
    """Raise SettingError if the run is finished or was started by another command."""
    # Each command has settings of its own, so the one that began a run is the one to resume it.
    started_by = run.record.command
    if started_by != command:
        remedy = f"Run encoderlab {started_by} resume=..." if started_by in TRAINING_COMMANDS else ""
        raise SettingError(f"{run.folder} was started by encoderlab {started_by}", remedy=remedy)
    if run.finished:
        remedy = "Start a new one, or run encoderlab finetune or pretrain with init_from=... to build on it"
        raise SettingError(f"The run in {run.folder} is finished", remedy=remedy)


def _changed(
    config: RunConfig,
    settings: Mapping[str, Any],
    composed: Mapping[str, Any],
    explicit: Collection[str] | None,
    may_change: Set[str],
) -> dict[str, Any]:
    """Return the settings of `config` that differ from the run's `settings`, as now set.

    Overrides set a setting by its name, its group (`model=mini`), or an experiment. Those that may not change are
    compared with what was `composed` when the run began, too, so that the same line resumes a run whose open settings
    were decided.
    """
    began_with = dict(flat_settings(composed))
    changed = {}
    for key, value in flat_settings(json_settings(config)):
        now = settings.get(key)
        if value == now or not _is_explicit(key, explicit):
            continue
        # The line that began the run left a setting open, and the run has decided it since.
        is_as_begun = value == began_with.get(key, now)
        may_be_set = key in may_change and (explicit is None or key in explicit)
        if not is_as_begun or may_be_set:
            changed[key] = value
    return changed


def _refuse_changes(run: Run, settings: Mapping[str, Any], changed: Mapping[str, Any], may_change: Set[str]) -> None:
    """Raise SettingError naming every changed setting that may not change."""
    refused = [key for key in changed if key not in may_change]
    if refused:
        both = ", ".join(f"{key}={changed[key]} (the run: {settings.get(key)})" for key in refused)
        problem = f"The run in {run.folder} was started with other settings: {both}"
        raise SettingError(problem, remedy="Remove them, or start a new run")


def _apply(recorded: RunConfig, changed: Mapping[str, Any], config: RunConfig, run: Run) -> RunConfig:
    """Return the `recorded` settings of a run with the changed ones, and with what `config` says of this start."""
    # The settings of the run, with those that this line changes.
    merged: dict[str, Any] = settings_to_dict(recorded) | {"cache_dir": config.cache_dir}
    for key, value in changed.items():
        group, _, name = key.rpartition(".")
        (merged[group] if group else merged)[name] = value

    # Its folder, and what was typed now.
    settled = settings_from_dict(merged | {"run_dir": str(run.folder), "resume": str(run.folder)}, type(config))
    return replace(settled, overrides=config.overrides)


def _is_explicit(key: str, explicit: Collection[str] | None) -> bool:
    """Return whether a setting was typed: by its name, its group, or perhaps in an experiment; None: all were."""
    # An experiment or a file of settings may have set any of them.
    if explicit is None or not {"experiment", "config"}.isdisjoint(explicit):
        return True
    return any(f"{key}.".startswith(f"{name}.") for name in explicit)
