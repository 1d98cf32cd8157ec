"""Going on with a run that did not end: which one is meant, and whether what is typed fits to what it was started with.

A run is resumed by being started again: the same command, with the run's own settings, the newest good checkpoint loaded and the
batches drawn from the step after it. The explicit overrides are compared with those settings, and not the composed config, so
`resume=FOLDER` alone is enough and a command line may be repeated as it was. A checkpoint holds what the next step depends on and
nothing that can be computed again: batches and masks are functions of seed and position.
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

from encoderlab.config.command_settings import RunConfig
from encoderlab.config.schemas import settings_from_dict, settings_to_dict
from encoderlab.errors import DataError, SettingError
from encoderlab.runs.folders.folder import RunFolder
from encoderlab.settings import flat_settings
from encoderlab.system.bounded_yaml import load_yaml

# What may be typed anew, with any run that is named: logging changes nothing that is computed, the rows behind a path are compared,
# a length moves the schedule, other hardware rounds otherwise, and a run that a limit has ended needs another one: with these
# three, the steps that follow are those of another run.
LOGGING = {"cache_dir", "run_dir", "resume", "baselines", "trackers", "training.log_every", "training.checkpoint_every"}
HARDWARE = {"training.device", "training.threads", "training.compile", "training.sharding"}
PATHS = {"init_from", "dataset.path", "dataset.train", "dataset.validation", "dataset.test"}
LENGTH = {"training.epochs", "training.steps", "training.budget"}
LIMITS = {"training.accumulate", "training.skip_nonfinite"}
MAY_CHANGE = LOGGING | HARDWARE | PATHS | LENGTH | LIMITS
DECIDED = {  # where they are left open
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
FILES = {"teacher": "weights", "unlabelled": "texts"}  # what a run reads beside its dataset, by the setting that names it
CONTINUABLE = ("train", "pretrain", "finetune", "distill")
MOST_OF_A_RECORD = 10_000_000  # bytes of a config.yaml or environment.json, which are some thousand long
AUTO = "auto"
Config = TypeVar("Config", bound=RunConfig)


def with_recorded_settings(config: Config, explicit: Collection[str], command: str) -> Config:
    """The settings of the run that `config.resume` names, with the overrides whose keys are `explicit`.

    An explicit override has to agree with the run's own setting, unless it may change and is named in full; all else is the run's.
    Without a named run (none, or `auto`) the settings are those of `config`. Raises as `continued_run`.
    """
    if config.resume in (None, AUTO):
        return config
    folder = RunFolder(Path(config.resume))
    _check_named(config, folder, command)
    return _merged(config, explicit, folder, MAY_CHANGE)


def continued_run(config: Config, command: str) -> tuple[Config, RunFolder] | None:
    """The run that `config.resume` names, and its settings; None if a new one is to be started.

    The settings have to agree with the run's own, except those that may change. `auto` takes the latest unfinished run of this
    command with these settings, or the one in `config.run_dir`, and starts a new run if there is none. Raises SettingError if the
    run is finished or was started with other settings, DataError if there is none.
    """
    if config.resume is None:
        return None
    if config.resume == AUTO:
        return _latest(config, command)
    folder = RunFolder(Path(config.resume))
    _check_named(config, folder, command)
    return _merged(config, None, folder, MAY_CHANGE), folder


def _check_named(config: RunConfig, folder: RunFolder, command: str) -> None:
    """Refuse a run that is finished, was started by another command, or lies elsewhere than `run_dir` says. Raises SettingError."""
    if config.run_dir is not None and Path(config.run_dir).resolve() != folder.root.resolve():
        remedy = "Remove run_dir: a run resumes in its own folder"
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
    """The folder to be filled: that of the continued `run`, or a new one where that is None.

    `fingerprints` are those of the rows, by split, `beside` those of other files, by setting, `shards` those of the
    files of a stream, by name. Raises what `RunFolder.new` and
    `RunFolder.continued` raise, and DataError where the rows or the files are not those of the run.
    """
    if run is None:
        with RunFolder.new(config.run_dir, command, config.task.name) as folder:
            yield folder
        return
    _, folder = run
    changed = changed_rows(folder, fingerprints)
    if changed:
        rows = f"The rows of {' and '.join(changed)} are not those that the run in {folder.root} was started with"
        raise DataError(
            f"{rows}{_changed_shards(folder, shards or {})}",
            remedy="Put the data back as it was, or start a new run: leave resume out",
        )
    for name in changed_files(folder, beside or {}):
        raise DataError(
            f"{name}={getattr(config, name)} has other {FILES[name]} than when the run in {folder.root} was started",
            remedy="Put them back as they were, or start a new run: leave resume out",
        )
    with folder.continued(command):
        yield folder


def changed_rows(folder: RunFolder, fingerprints: dict[str, str]) -> list[str]:
    """The splits whose rows are not those that the run in `folder` was started with."""
    recorded = (read_record(folder).get("dataset") or {}).get("splits", {})
    before = {name: split.get("fingerprint") for name, split in recorded.items()}
    return sorted(name for name in before.keys() | fingerprints.keys() if before.get(name) != fingerprints.get(name))


def _changed_shards(folder: RunFolder, shards: Mapping[str, str]) -> str:
    """Which shards are not those that the run in `folder` was started with, in words; "" where none is."""
    before = (read_record(folder).get("dataset") or {}).get("shards", {})
    states = {name: "is gone" for name in before if name not in shards} | {name: "is new" for name in shards if name not in before}
    states |= {name: "has changed" for name in before if shards.get(name, before[name]) != before[name]}
    listed = [f"{name} {state}" for name, state in sorted(states.items())]
    more = [f"{len(listed) - 3:,} more"] if len(listed) > 3 else []
    return f": {', '.join([*listed[:3], *more])}" if listed else ""


def changed_files(folder: RunFolder, beside: Mapping[str, str]) -> list[str]:
    """The settings whose files are not those that the run in `folder` was started with; of runs that recorded none, none."""
    before = read_record(folder).get("files") or {}
    return [name for name, fingerprint in beside.items() if before.get(name, fingerprint) != fingerprint]


def _latest(config: Config, command: str) -> tuple[Config, RunFolder] | None:
    folder = None if config.run_dir is None else RunFolder(Path(config.run_dir))
    if folder is not None:
        return _continued_here(config, folder)
    for candidate in _unfinished(command, config.task.name):
        try:
            found = _merged(config, None, candidate, LOGGING | HARDWARE), candidate
        except (SettingError, DataError):  # another run, or one that nothing can be made of
            continue
        print(f"resume=auto resumes {candidate.root}", file=sys.stderr)
        return found
    print("resume=auto finds no unfinished run of these settings: a new one is started", file=sys.stderr)
    return None


def _continued_here(config: Config, folder: RunFolder) -> tuple[Config, RunFolder] | None:
    """The unfinished run in a folder of the user's choice; a new one where it is empty, or not there."""
    if folder.config.is_file() and not folder.finished:
        return _merged(config, None, folder, LOGGING | HARDWARE), folder
    return None


def _unfinished(command: str, task: str) -> Iterator[RunFolder]:
    """The unfinished runs of a command and a task in their usual place, the one that was started or continued last first."""
    folders = map(RunFolder, (Path("outputs") / command / task).glob("*"))
    begun = [folder for folder in folders if folder.config.is_file() and not folder.finished]
    yield from sorted(begun, key=lambda folder: folder.config.stat().st_mtime_ns, reverse=True)


def _merged(config: Config, explicit: Collection[str] | None, folder: RunFolder, may_change: Set[str]) -> Config:
    """The run's settings, with what may change as it was said. Raises SettingError with every other key that differs."""
    recorded = read_settings(folder, type(config))
    before, now = dict(flat_settings(settings_to_dict(recorded))), dict(flat_settings(settings_to_dict(config)))
    changed = {key: now[key] for key in now if _is_explicit(key, explicit) and now[key] != before.get(key)}
    refused = [key for key in changed if key not in may_change and not _left_open(key, now[key])]
    if refused:
        both = ", ".join(f"{key}={now[key]} (the run: {before.get(key)})" for key in refused)
        raise SettingError(
            f"The run in {folder.root} was started with other settings: {both}", remedy="Leave them out, or start a new run"
        )
    merged = replace(recorded, resume=config.resume, cache_dir=config.cache_dir, run_dir=str(folder.root))
    return _with(
        merged, config, [key for key in changed if key in may_change - {"run_dir"} and (explicit is None or key in explicit)]
    )


def _left_open(key: str, now: Any) -> bool:
    """What is left to what a run starts from, its rows or the memory was decided when it began, and differs from nothing."""
    decided = key.startswith("model.") or key in DECIDED
    return decided and (now is None or (key == "model.schema" and now == "as_pretrained"))


def _is_explicit(key: str, explicit: Collection[str] | None) -> bool:
    """Whether what was typed says something of `key`: names it, chooses its group (`model=mini`), or is an experiment."""
    return explicit is None or "experiment" in explicit or any(key == one or key.startswith(f"{one}.") for one in explicit)


def _with(config: Config, explicit: Config, keys: Iterable[str]) -> Config:
    """The settings of `config`, those named by `keys` as they were `explicit`."""
    changed: dict[str, dict[str, Any]] = {}
    for key in keys:
        group, _, name = key.rpartition(".")
        changed.setdefault(group, {})[name] = getattr(getattr(explicit, group) if group else explicit, name)
    top = changed.pop("", {})
    return replace(config, **top, **{group: replace(getattr(config, group), **values) for group, values in changed.items()})


def read_settings(folder: RunFolder, schema: type[Config]) -> Config:
    """The settings the run in `folder` was started with. Raises DataError, SettingError."""
    plain = _read(folder.config, load_yaml)
    try:
        return settings_from_dict(plain, schema)
    except (OmegaConfBaseException, TypeError, AttributeError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        remedy = "Start a new run: this one was begun with other settings than there are now, or is damaged"
        raise DataError(f"{folder.config} cannot be read: {reason}", remedy=remedy) from None


def read_record(folder: RunFolder) -> dict[str, Any]:
    """What the run's environment.json says. Raises DataError."""
    record = _read(folder.environment, json.loads)
    if record.get("command") not in CONTINUABLE:
        raise DataError(f"{folder.root} holds no training run", allowed=f"a run of {', '.join(CONTINUABLE)}")
    return record


def _read(path: Path, parse: Any) -> dict[str, Any]:
    """A record of the run folder as a dictionary. Raises DataError where it is missing, damaged, or too long to be one."""
    if not path.is_file():
        raise DataError(
            f"{path.parent} holds no run: {path.name} is not there", remedy="Name a run folder, as a training prints it"
        )
    try:
        with path.open(encoding="utf-8") as file:
            found = parse(file.read(MOST_OF_A_RECORD))
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise DataError(f"{path} cannot be read: {' '.join(str(error).split())[:200]}", remedy="Start a new run") from None
    if not isinstance(found, dict):
        raise DataError(f"{path} holds no settings", remedy="Start a new run")
    return found
