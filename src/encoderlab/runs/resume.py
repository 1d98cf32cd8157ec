"""Resuming a run: which folder it is in, and with which settings it goes on.

A run is resumed by being started again: the same command, with the run's own settings, the newest good checkpoint
loaded and the batches drawn from the step after it. The settings that were typed are compared with the run's own, and
not the composed config, so `resume=FOLDER` alone is enough and a command line may be repeated as it was.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from omegaconf.errors import OmegaConfBaseException

from encoderlab.config import TRAINING_COMMANDS
from encoderlab.config.commands import AnyRunConfig, RunConfig
from encoderlab.config.schemas import settings_from_dict, settings_to_dict
from encoderlab.errors import DataError, SettingError, one_line
from encoderlab.runs.run import Run, check_free
from encoderlab.settings import flat_settings
from encoderlab.system.device import PRECISION_NAMES
from encoderlab.system.processes import Processes
from encoderlab.system.records import json_of, yaml_of
from encoderlab.training.config import Precision

ONLY_PLACES = ("cache_dir", "run_dir", "resume", "config")  # settings that change nothing in a run
# The settings that may change when a run is resumed. Logging changes nothing that is computed:
LOGGING = {
    *ONLY_PLACES,
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
# A length changes the schedule, and more micro-batches round differently, so the following steps are another run's. A
# run that ended at a limit needs one or the other:
LIMITS = {"training.epochs", "training.steps", "training.budget", "training.accumulate"}
MAY_CHANGE = LOGGING | HARDWARE | PATHS | LIMITS
AUTO = "auto"


def settings_to_run_with(
    config: AnyRunConfig, processes: Processes, explicit: Collection[str] | None = None
) -> AnyRunConfig:
    """Return the settings of the run that `config.resume` names, with `resume` and `run_dir` its folder; those of a new
    run have no `resume`.

    They must agree with the run's own: all of them, or those that were typed (`explicit`, or the config's `overrides`),
    except those that may change. `auto` takes the latest unfinished run of this command with these settings, or that in
    `config.run_dir`, and starts a new run if there is none. Raises SettingError if the run is finished or was started
    with other settings, or the folder of a new run is not free; DataError if there is no such run.
    """
    if explicit is None and config.overrides is not None:
        explicit = {override.partition("=")[0].lstrip("+~") for override in config.overrides}
    return processes.broadcast_from_main(lambda: _settings_to_run_with(config, explicit))


def _settings_to_run_with(config: AnyRunConfig, explicit: Collection[str] | None) -> AnyRunConfig:
    if config.resume == AUTO:
        settings = _latest_unfinished(config)
    elif config.resume is not None:
        settings = _named(config, config.resume, explicit)
    else:
        settings = None
    if settings is None:
        check_free(config.run_dir)
        return replace(config, resume=None)
    return settings


def folds_of(config: RunConfig, processes: Processes) -> int | None:
    """Return the number of folds of a cross-validation, as set or as in the run that `config.resume` names; None for
    any other run. Raises DataError if there is no such run.
    """
    resume = config.resume
    if config.folds is not None or resume is None or resume == AUTO:
        return config.folds

    def recorded() -> int | None:
        return read_record(Run(resume).config_file, lambda text: yaml_of(text).get("folds"))

    return processes.broadcast_from_main(recorded)


@dataclass(frozen=True, slots=True)
class Began:
    """What a run began with that its settled config.yaml does not say; of a new run, what is set.

    `threads` to compute with: as set; a resumed run has the number that it began with on the same cores, so that it
    rounds as before, and no longer follows the load. Otherwise, as on other cores, it is decided anew: None. A
    `precision` that was timed is kept in the same way.
    `accumulate` is `training.accumulate` as set; None if it was open then, and is not changed now. `notes` say what was
    decided (None: the run is new, and decides now).
    """

    threads: int | None
    precision: Precision
    accumulate: int | None
    notes: list[str] | None = None


def began(config: RunConfig, processes: Processes) -> Began:
    """Return what the run that `config.resume` names began with. Raises DataError if its records are damaged."""
    training = config.training
    resume = config.resume
    if resume is None:
        return Began(training.threads, training.precision, training.accumulate)

    def recorded() -> Began:  # read by the main process, as other machines may lack the folder
        run = Run(resume)
        record = environment_of(run)

        # The same cores compute as they did, so that the run rounds as before.
        threads = training.threads
        precision = training.precision
        hardware = record["hardware"]
        same_machine = hardware["cores"] == os.cpu_count() and hardware.get("processes") == processes.local_size
        if threads is None and same_machine:
            threads = hardware["threads"]
        if precision is Precision.auto and same_machine and hardware.get("speeds"):
            precision = Precision[PRECISION_NAMES[getattr(torch, hardware["precision"])]]

        # Micro-batches that memory has decided stay open, unless they are set now.
        accumulate = record.get("composed", {}).get("training", {}).get("accumulate")
        settled = read_record(run.config_file, lambda text: yaml_of(text)["training"]["accumulate"])
        if accumulate is not None or settled != training.accumulate:
            accumulate = training.accumulate
        return Began(threads, precision, accumulate, record.get("notes"))

    return processes.broadcast_from_main(recorded)


def continues_from_checkpoint(config: RunConfig) -> bool:
    """Return whether the run is resumed, and continues from a checkpoint."""
    return config.resume is not None and Run(config.resume).has_checkpoint


def _named(config: AnyRunConfig, resume: str, explicit: Collection[str] | None) -> AnyRunConfig:
    """Return the settings of the run in the folder `resume`."""
    run = Run(resume)
    if config.run_dir is not None and Path(config.run_dir).resolve() != run.folder.resolve():
        remedy = "Remove run_dir; a run resumes in its own folder"
        raise SettingError(f"run_dir={config.run_dir} is not resume={resume}", remedy=remedy)
    return _merged(config, run, explicit, MAY_CHANGE)


def _latest_unfinished(config: AnyRunConfig) -> AnyRunConfig | None:
    """Return the settings of the latest unfinished run that agrees with `config`; None if there is none."""
    usual = (Path("outputs") / config.command / config.task.name).glob("*")
    folders = usual if config.run_dir is None else [Path(config.run_dir)]

    # A named run that is finished is called so, and not taken for a folder that is not free.
    if config.run_dir is not None and Run(config.run_dir).finished:
        _check_unfinished(Run(config.run_dir), environment_of(Run(config.run_dir)), config.command)

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
        return merged
    if config.run_dir is None:
        print("resume=auto finds no unfinished run with these settings and starts a new one", file=sys.stderr)
    return None


def _merged(config: AnyRunConfig, run: Run, explicit: Collection[str] | None, may_change: Set[str]) -> AnyRunConfig:
    """Return the run's settings, with those that may change as now set. Raises SettingError naming every other
    difference, or if the run is finished.
    """
    # Another command's run, and one that has ended, cannot be resumed.
    record = environment_of(run)
    _check_unfinished(run, record, config.command)

    # The run's own settings, as they were when it began: an edited file would make its report untrue.
    recorded = read_record(run.config_file, lambda text: settings_from_dict(yaml_of(text), type(config)))
    settings = dict(flat_settings(plain(recorded)))
    _refuse_edited(run, settings, record)

    # What this line changes: hardware and logging may, what the steps so far depend on may not.
    changed = _changed(config, settings, record.get("composed", {}), explicit, may_change)
    _refuse_changes(run, settings, changed, may_change)
    return _apply(recorded, changed, config, run)


def _refuse_edited(run: Run, settings: Mapping[str, Any], record: Mapping[str, Any]) -> None:
    """Raise SettingError naming every setting in config.yaml that is not what the run began, or was last resumed, with.

    A kill may have come between the two records of a start, so config.yaml may be that of the start before.
    """
    # What each start of the run has recorded: the first, and each resumption.
    starts = [start["settled"] for start in (record, *record.get("resumed", [])) if "settled" in start]

    # One of the last two must be what config.yaml says now.
    differing: list[str] = []
    for settled in starts[-2:]:
        began_with = dict(flat_settings(settled))
        names = (settings.keys() | began_with.keys()) - {*ONLY_PLACES}
        differing = sorted(name for name in names if settings.get(name) != began_with.get(name))
        if not differing:
            return
    if differing:
        both = ", ".join(f"{name}={settings.get(name)} (the run: {began_with.get(name)})" for name in differing)
        problem = f"{run.config_file} has been edited since the run was started: {both}"
        settable = [name for name in differing if name in MAY_CHANGE]
        remedy = "Put back what it was, or start a new run"
        if settable == differing:
            remedy = f"Put back what it was, and set {' '.join(f'{name}={settings.get(name)}' for name in settable)}"
        raise SettingError(problem, remedy=remedy)


def most_between_logged_steps(run: Run, log_every: int) -> int:
    """Return how many steps at most lie between two that the run has logged, now or before it was resumed."""
    if not run.environment_file.is_file():  # a fit that no command has begun
        return log_every
    record = environment_of(run)
    starts = [start["settled"] for start in (record, *record.get("resumed", [])) if "settled" in start]
    return max(log_every, *(settled["training"]["log_every"] for settled in starts), 0)


def _check_unfinished(run: Run, record: Mapping[str, Any], command: str) -> None:
    """Raise SettingError if the run is finished or was started by another command."""
    if (started_by := record.get("command")) != command:
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
    for key, value in flat_settings(plain(config)):
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


def _apply(recorded: AnyRunConfig, changed: Mapping[str, Any], config: AnyRunConfig, run: Run) -> AnyRunConfig:
    """Return the `recorded` settings of a run with the changed ones, and with what `config` says of this start."""
    merged: dict[str, Any] = settings_to_dict(recorded) | {"cache_dir": config.cache_dir}
    for key, value in changed.items():
        group, _, name = key.rpartition(".")
        (merged[group] if group else merged)[name] = value
    settled = settings_from_dict(merged | {"run_dir": str(run.folder), "resume": str(run.folder)}, type(config))
    return replace(settled, overrides=config.overrides)


def _is_explicit(key: str, explicit: Collection[str] | None) -> bool:
    """Return whether a setting was typed: by its name, its group, or perhaps in a recipe; None: all were."""
    if explicit is None or not {"experiment", "config"}.isdisjoint(explicit):
        return True
    return any(f"{key}.".startswith(f"{name}.") for name in explicit)


def plain(config: RunConfig) -> dict[str, Any]:
    """Return the settings as JSON holds them, the form in which they are compared."""
    return json.loads(json.dumps(settings_to_dict(config)))


def environment_of(run: Run) -> dict[str, Any]:
    """Return what environment.json records of a run. Raises DataError if it is missing or damaged."""
    return read_record(run.environment_file, _environment)


def _environment(text: str) -> dict[str, Any]:
    """Return the content of environment.json. Raises ValueError or TypeError if it is damaged."""
    record = dict(json_of(text))
    data = record.get("dataset")
    splits = [] if data is None else data["splits"].values()
    starts = [record, *record.get("resumed", [])]
    settings = [start[name] for start in starts for name in ("composed", "settled") if name in start]
    mappings = [*splits, *settings, *(start["hardware"] for start in starts if "hardware" in start)]
    if not all(isinstance(mapping, dict) for mapping in (*mappings, record.get("files", {}))):
        raise TypeError("a record in it is not an object")
    return record


def read_record(path: Path, parse: Callable[[str], Any]) -> Any:
    """Return a record of a run folder. Raises DataError if it is missing or damaged, or SettingError."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError:
        problem = f"{path.parent} is not a run folder: it has no {path.name}"
        raise DataError(problem, remedy="Use a run folder, as printed by training") from None
    except (OmegaConfBaseException, TypeError, AttributeError, KeyError, ValueError) as error:
        remedy = "Start a new run: this one was started by another version of encoderlab, or is damaged"
        raise DataError(f"{path} cannot be read: {one_line(str(error))[:200]}", remedy=remedy) from None
