"""Resuming an unfinished run: which run is meant, and whether the overrides agree with the settings it was started
with.

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
FILES = {
    "teacher": "weights",
    "unlabelled": "texts",
}  # what a run reads besides its dataset, by the setting that names it
CONTINUABLE = ("train", "pretrain", "finetune", "distill")
MOST_OF_A_RECORD = 10_000_000  # bytes of a config.yaml or environment.json, which usually has a few thousand
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
        remedy = "Start a new one, or run encoderlab finetune init_from=... or encoderlab pretrain init_from=... to build on it"
        raise SettingError(f"The run in {folder.root} is finished", remedy=remedy)


@contextmanager
def run_folder(
    run: tuple[RunConfig, RunFolder] | None,
    config: RunConfig,
    command: str,
    fingerprints: dict[str, str],
    beside: Mapping[str, str] | None = None,
    shards: Mapping[str, str] | None = None,
) -> Iterator[RunFolder]:
    """Open the folder to fill: that of the continued `run`, or a new one if that is None.

    `fingerprints` are those of the rows, by split, `beside` those of other files, by setting, and `shards` those of a
    stream's files, by name. Raises what `RunFolder.new` and `RunFolder.continued` raise, and DataError if the rows or
    the files are not those of the run.
    """
    if run is None:
        with RunFolder.new(config.run_dir, command, config.task.name) as folder:
            yield folder
        return
    _, folder = run
    changed = changed_rows(folder, fingerprints)
    if changed:
        rows = f"The rows of {' and '.join(changed)} have changed since the run in {folder.root} was started"
        raise DataError(
            f"{rows}{_changed_shards(folder, shards or {})}",
            remedy="Restore the data, or remove resume to start a new run",
        )
    for name in changed_files(folder, beside or {}):
        raise DataError(
            f"{name}={getattr(config, name)} has other {FILES[name]} than when the run in {folder.root} was started",
            remedy="Restore them, or remove resume to start a new run",
        )
    with folder.continued(command):
        yield folder


def changed_rows(folder: RunFolder, fingerprints: dict[str, str]) -> list[str]:
    """Return the splits whose rows have changed since the run in `folder` was started."""
    recorded = _recorded(folder, "dataset", "splits")
    before = {name: _recorded(folder, "dataset", "splits", name).get("fingerprint") for name in recorded}
    return sorted(name for name in before.keys() | fingerprints.keys() if before.get(name) != fingerprints.get(name))


def _changed_shards(folder: RunFolder, shards: Mapping[str, str]) -> str:
    """Return in words which shards have changed since the run in `folder` was started; "" if none has."""
    before = _recorded(folder, "dataset", "shards")
    states = {name: "is gone" for name in before if name not in shards} | {
        name: "is new" for name in shards if name not in before
    }
    states |= {name: "has changed" for name in before if shards.get(name, before[name]) != before[name]}
    listed = [f"{name} {state}" for name, state in sorted(states.items())]
    more = [f"{len(listed) - 3:,} more"] if len(listed) > 3 else []
    return f": {', '.join([*listed[:3], *more])}" if listed else ""


def changed_files(folder: RunFolder, beside: Mapping[str, str]) -> list[str]:
    """Return the settings whose files have changed since the run in `folder` was started; none if it recorded none."""
    before = _recorded(folder, "files")
    return [name for name, fingerprint in beside.items() if before.get(name, fingerprint) != fingerprint]


def _latest(config: Config, command: str) -> tuple[Config, RunFolder] | None:
    folder = None if config.run_dir is None else RunFolder(Path(config.run_dir))
    if folder is not None:
        return _continued_here(config, folder)
    for candidate in _unfinished(command, config.task.name):
        try:
            found = _merged(config, None, candidate, LOGGING | HARDWARE), candidate
        except (SettingError, DataError):  # another run, or an unreadable one
            continue
        print(f"resume=auto resumes {candidate.root}", file=sys.stderr)
        return found
    print("resume=auto finds no unfinished run with these settings and starts a new one", file=sys.stderr)
    return None


def _continued_here(config: Config, folder: RunFolder) -> tuple[Config, RunFolder] | None:
    """Return the unfinished run in a folder of the user's choice; None, for a new run, if it is empty or missing."""
    if folder.config.is_file() and not folder.finished:
        return _merged(config, None, folder, LOGGING | HARDWARE), folder
    return None


def _unfinished(command: str, task: str) -> Iterator[RunFolder]:
    """Yield the unfinished runs of a command and a task in their usual place, most recently started or continued first."""
    folders = map(RunFolder, (Path("outputs") / command / task).glob("*"))
    unfinished = [folder for folder in folders if folder.config.is_file() and not folder.finished]
    yield from sorted(unfinished, key=lambda folder: folder.config.stat().st_mtime_ns, reverse=True)


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
    return _with(
        merged,
        config,
        [key for key in changed if key in may_change - {"run_dir"} and (explicit is None or key in explicit)],
    )


def _left_open(key: str, now: Any) -> bool:
    """Return whether a setting is left open now: it was decided when the run began, so it cannot differ."""
    decided = key.startswith("model.") or key in DECIDED
    return decided and (now is None or (key == "model.schema" and now == "as_pretrained"))


def _is_explicit(key: str, explicit: Collection[str] | None) -> bool:
    """Return whether the overrides set `key`: by its name, by its group (`model=mini`), or by an experiment."""
    return (
        explicit is None or "experiment" in explicit or any(key == one or key.startswith(f"{one}.") for one in explicit)
    )


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


def _recorded(folder: RunFolder, *names: str) -> dict[str, Any]:
    """Return a dictionary inside the run's environment.json; {} if it is missing. Raises DataError if it is anything
    else.
    """
    found: Any = read_record(folder)
    for name in names:
        found = found.get(name) or {}
        if not isinstance(found, dict):
            raise DataError(
                f"{folder.environment} cannot be read: {'.'.join(names)} is {found!r}"[:200], remedy="Start a new run"
            )
    return found


def _read(path: Path, parse: Any) -> dict[str, Any]:
    """Return a record of the run folder as a dictionary. Raises DataError if it is missing, damaged, or too long."""
    if not path.is_file():
        raise DataError(
            f"{path.parent} is not a run folder: it has no {path.name}",
            remedy="Use a run folder, as printed by training",
        )
    try:
        with path.open(encoding="utf-8") as file:
            found = parse(file.read(MOST_OF_A_RECORD))
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise DataError(
            f"{path} cannot be read: {' '.join(str(error).split())[:200]}", remedy="Start a new run"
        ) from None
    if not isinstance(found, dict):
        raise DataError(f"{path} contains no settings", remedy="Start a new run")
    return found
