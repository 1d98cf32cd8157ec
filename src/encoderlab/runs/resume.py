"""Resuming an unfinished run: which run is meant, and whether the overrides agree with the settings of its start.

A run is resumed by being started again: the same command, with the run's own settings, the newest good checkpoint
loaded and the batches drawn from the step after it. The explicit overrides are compared with those settings, and not
the composed config, so `resume=FOLDER` alone is enough and a command line may be repeated as it was. A checkpoint holds
what the next step depends on and nothing that can be recomputed: batches and masks are functions of seed and position.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import yaml
from omegaconf.errors import OmegaConfBaseException

from encoderlab.config.commands import RunConfig
from encoderlab.config.composing import settings_from_dict
from encoderlab.config.schemas import settings_to_dict
from encoderlab.errors import DataError, SettingError
from encoderlab.runs.folder import RunFolder
from encoderlab.settings import flat_settings

# The settings that may change when a named run is resumed: logging changes nothing that is computed, the rows behind a
# path are compared, a length changes the schedule, other hardware rounds differently, and a run ended by a limit needs
# another one. With the last three, the following steps are those of a different run.
LOGGING = {"cache_dir", "run_dir", "resume", "baselines", "trackers", "training.log_every", "training.checkpoint_every"}
HARDWARE = {"training.device", "training.threads", "training.compile", "training.sharding"}
PATHS = {"init_from", "dataset.path", "dataset.train", "dataset.validation", "dataset.test"}
LENGTH = {"training.epochs", "training.steps", "training.budget"}
LIMITS = {"training.accumulate", "training.skip_nonfinite"}
MAY_CHANGE = LOGGING | HARDWARE | PATHS | LENGTH | LIMITS
DECIDED = {  # if they are left open
    "training.accumulate",
    "training.epochs",
    "training.evaluate_every",
    "training.learning_rate",
    "task.teacher_width",
    "task.positive_label",
    "task.mean",
    "task.deviation",
    "tokenizer.lowercase",
}
# What a run reads besides its dataset, by the setting that names it.
FILES = {"teacher": "weights", "unlabelled": "texts"}
CONTINUABLE = ("train", "pretrain", "finetune", "distill")
AUTO = "auto"
Config = TypeVar("Config", bound=RunConfig)


def with_recorded_settings(config: Config, explicit: Collection[str], command: str) -> Config:
    """Return the settings of the run that `config.resume` names, with the overrides in `explicit`.

    An explicit override must agree with the run's own setting, unless it may change and is named in full; all other
    settings are the run's. Without a named run (none, or `auto`) the settings are those of `config`. Raises as
    `continued_run` does.
    """
    if config.resume in (None, AUTO):
        return config
    folder = RunFolder(Path(config.resume))
    _check_named(config, folder, command)
    return _merged(config, explicit, folder, MAY_CHANGE)


def continued_run(config: Config, command: str) -> tuple[Config, RunFolder] | None:
    """Return the run that `config.resume` names, and its settings; None if a new one is to be started.

    The settings must agree with the run's own, except those that may change. `auto` takes the latest unfinished run of
    this command with these settings, or the one in `config.run_dir`, and starts a new run if there is none. Raises
    SettingError if the run is finished or was started with other settings, DataError if there is none.
    """
    if config.resume is None:
        return None
    if config.resume == AUTO:
        return _latest(config, command)
    folder = RunFolder(Path(config.resume))
    _check_named(config, folder, command)
    return _merged(config, None, folder, MAY_CHANGE), folder


def _check_named(config: RunConfig, folder: RunFolder, command: str) -> None:
    """Raise SettingError for a run that is finished, was started by another command, or is not in `run_dir`."""
    if config.run_dir is not None and Path(config.run_dir).resolve() != folder.root.resolve():
        remedy = "Remove run_dir; a run resumes in its own folder"
        raise SettingError(f"run_dir={config.run_dir} is not resume={config.resume}", remedy=remedy)
    started_by = read_record(folder)["command"]
    if started_by != command:
        raise SettingError(
            f"{folder.root} was started by encoderlab {started_by}", remedy=f"Run encoderlab {started_by} resume=..."
        )
    if folder.finished:
        remedy = (
            "Start a new one, or run encoderlab finetune init_from=... "
            "or encoderlab pretrain init_from=... to build on it"
        )
        raise SettingError(f"The run in {folder.root} is finished", remedy=remedy)


@contextmanager
def run_folder(
    run: tuple[RunConfig, RunFolder] | None,
    config: RunConfig,
    command: str,
    fingerprints: dict[str, str],
    beside: Mapping[str, str] | None = None,
) -> Iterator[RunFolder]:
    """Open the folder to fill: that of the continued `run`, or a new one if that is None.

    `fingerprints` are those of the rows, by split, and `beside` those of other files, by setting. Raises what
    `RunFolder.new` and `RunFolder.continued` raise, and DataError if the rows or the files are not those of the run.
    """
    if run is None:
        with RunFolder.new(config.run_dir, command, config.task.name) as folder:
            yield folder
        return
    _, folder = run
    record = read_record(folder)
    before = {name: split.get("fingerprint") for name, split in record["dataset"]["splits"].items()}
    changed = sorted(name for name in before.keys() | fingerprints.keys() if before.get(name) != fingerprints.get(name))
    remedy = "Restore the data, or remove resume to start a new run"
    if changed:
        rows = f"The rows of {' and '.join(changed)}"
        raise DataError(f"{rows} have changed since the run in {folder.root} was started", remedy=remedy)
    for name, fingerprint in (beside or {}).items():
        if record.get("files", {}).get(name, fingerprint) != fingerprint:
            other = f"{name}={getattr(config, name)} has other {FILES[name]}"
            raise DataError(f"{other} than when the run in {folder.root} was started", remedy=remedy)
    with folder.continued(command):
        yield folder


def _latest(config: Config, command: str) -> tuple[Config, RunFolder] | None:
    """Return the unfinished run in `config.run_dir`, or else the latest one with these settings; None if
    there is none.
    """
    if config.run_dir is not None:
        folder = RunFolder(Path(config.run_dir))
        return (_merged(config, None, folder, LOGGING | HARDWARE), folder) if _is_unfinished(folder) else None
    for folder in _unfinished(command, config.task.name):
        try:
            merged = _merged(config, None, folder, LOGGING | HARDWARE)
        except (SettingError, DataError):  # another run, or an unreadable one
            continue
        print(f"resume=auto resumes {folder.root}", file=sys.stderr)
        return merged, folder
    print("resume=auto finds no unfinished run with these settings and starts a new one", file=sys.stderr)
    return None


def _unfinished(command: str, task: str) -> Iterator[RunFolder]:
    """Yield the unfinished runs of a command and a task in their usual place, most recently started or
    continued first.
    """
    folders = filter(_is_unfinished, map(RunFolder, (Path("outputs") / command / task).glob("*")))
    yield from sorted(folders, key=lambda folder: folder.config.stat().st_mtime_ns, reverse=True)


def _is_unfinished(folder: RunFolder) -> bool:
    return folder.config.is_file() and not folder.finished


def _merged(config: Config, explicit: Collection[str] | None, folder: RunFolder, may_change: Set[str]) -> Config:
    """Return the run's settings, with those that may change as now given. Raises SettingError naming every other
    difference.
    """
    recorded = read_settings(folder, type(config))
    before, now = dict(flat_settings(settings_to_dict(recorded))), dict(flat_settings(settings_to_dict(config)))
    changed = {key: now[key] for key in now if _is_explicit(key, explicit) and now[key] != before.get(key)}
    refused = [key for key in changed if key not in may_change and not _left_open(key, now[key])]
    if refused:
        both = ", ".join(f"{key}={now[key]} (the run: {before.get(key)})" for key in refused)
        raise SettingError(
            f"The run in {folder.root} was started with other settings: {both}",
            remedy="Remove them, or start a new run",
        )
    merged = replace(recorded, resume=config.resume, cache_dir=config.cache_dir, run_dir=str(folder.root))
    kept = [key for key in changed if key in may_change - {"run_dir"} and (explicit is None or key in explicit)]
    return _with(merged, config, kept)


def _left_open(key: str, now: Any) -> bool:
    """Return whether a setting is left open now: it was decided when the run began, so it cannot differ."""
    decided = key.startswith("model.") or key in DECIDED
    return decided and (now is None or (key == "model.schema" and now == "as_pretrained"))


def _is_explicit(key: str, explicit: Collection[str] | None) -> bool:
    """Return whether the overrides set `key`: by its name, by its group (`model=mini`), or by an experiment."""
    if explicit is None or "experiment" in explicit:
        return True
    return any(key == one or key.startswith(f"{one}.") for one in explicit)


def _with(config: Config, explicit: Config, keys: Iterable[str]) -> Config:
    """Return the settings of `config`, with those named by `keys` from `explicit`."""
    changed: dict[str, dict[str, Any]] = {}
    for key in keys:
        group, _, name = key.rpartition(".")
        changed.setdefault(group, {})[name] = getattr(getattr(explicit, group) if group else explicit, name)
    top = changed.pop("", {})
    return replace(
        config, **top, **{group: replace(getattr(config, group), **values) for group, values in changed.items()}
    )


def read_settings(folder: RunFolder, schema: type[Config]) -> Config:
    """Return the settings the run in `folder` was started with. Raises DataError, SettingError."""
    plain = _read(folder.config, yaml.safe_load)
    try:
        return settings_from_dict(plain, schema)
    except (OmegaConfBaseException, TypeError, AttributeError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        remedy = "Start a new run: this one was started by another version of encoderlab, or is damaged"
        raise DataError(f"{folder.config} cannot be read: {reason}", remedy=remedy) from None


def read_record(folder: RunFolder) -> dict[str, Any]:
    """Return the content of the run's environment.json. Raises DataError."""
    record = _read(folder.environment, json.loads)
    if record.get("command") not in CONTINUABLE:
        raise DataError(f"{folder.root} is not a training run", allowed=f"a run of {', '.join(CONTINUABLE)}")
    return record


def _read(path: Path, parse: Any) -> dict[str, Any]:
    """Return a record of the run folder as a dictionary. Raises DataError if it is missing or damaged."""
    if not path.is_file():
        raise DataError(
            f"{path.parent} is not a run folder: it has no {path.name}",
            remedy="Use a run folder, as printed by training",
        )
    try:
        record = parse(path.read_text(encoding="utf-8"))
    except (ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path} cannot be read: {reason}", remedy="Start a new run") from None
    if not isinstance(record, dict):
        raise DataError(f"{path} contains no settings", remedy="Start a new run")
    return record
