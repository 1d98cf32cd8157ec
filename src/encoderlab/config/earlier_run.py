"""config=RUN: begins a new run from the settings of an earlier one, of your own or a colleague's.

Taken over are the settings as they were requested, before the run decided those that were left open: a new run decides
them anew, from its own data. Hydra composes them like an experiment, without the groups that the command line chooses.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from glob import has_magic
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from encoderlab.config import TRAINING_COMMANDS, config_file
from encoderlab.config.commands import TRAINING_CONFIGS
from encoderlab.config.schemas import GROUPS, literal, settings_from_dict
from encoderlab.errors import DataError, SettingError, UserError, one_line
from encoderlab.settings import flat_settings, setting_name
from encoderlab.system.records import json_of, record_of

OPTION = "config"
EXPERIMENT = "settings_of_an_earlier_run"  # its name in Hydra's group `experiment`
# Settings that name files, recorded as absolute paths.
PATHS = (
    *(f"dataset.{name}" for name in ("path", "train", "validation", "test")),
    *("init_from", "teacher", "unlabelled"),
)
# What belongs to one run, or to the machine it ran on.
NOT_TAKEN_OVER = ("config", "run_dir", "resume", "cache_dir", "dry_run")


@dataclass(frozen=True)
class EarlierRun:
    """The run in a `folder`: its requested `settings`, nested, and what was `typed` for it (None: started from
    Python).
    """

    folder: str
    settings: dict[str, Any] = field(default_factory=dict)
    typed: list[str] | None = None

    def beside(self, overrides: Sequence[str], config_dir: str | None) -> EarlierRun:
        """Return what of it stays beside the settings of a command line.

        A group there replaces the run's. A task that has data of its own brings them, and the tokenizer for them unless
        one was typed for the run. Files that are not where a colleague had them are those of their names in the current
        folder. Raises DataError if they are not there either.
        """
        values = {setting_name(override): override.partition("=")[2] for override in overrides}
        replaced = GROUPS & values.keys()
        if config_file(f"dataset/{values.get('task')}", config_dir):
            replaced.add("dataset")
            if self.typed is not None and not any(_is_set(setting_name(typed), {"tokenizer"}) for typed in self.typed):
                replaced.add("tokenizer")
        settings = {name: value for name, value in self.settings.items() if name not in replaced}
        set_here = values.keys() | replaced
        for name in PATHS:
            if not _is_set(name, set_here):
                self._find_file(settings, name)
        typed = [override for override in self.typed or () if not _is_set(setting_name(override), set_here)]
        return EarlierRun(self.folder, settings, typed)

    def _find_file(self, settings: dict[str, Any], name: str) -> None:
        """Replace a path that is not on this machine by one that is. Raises DataError if there is none."""
        group, _, last = name.rpartition(".")
        holder = settings.get(group, {}) if group else settings
        value = holder.get(last)
        found = []
        for path in value if isinstance(value, list) else [value]:
            if not isinstance(path, str) or not Path(path).is_absolute() or has_magic(path) or Path(path).exists():
                found.append(path)
            elif Path(Path(path).name).exists():
                found.append(Path(path).name)
            else:
                problem = f"{OPTION}={self.folder} has {name}={path}, which is not on this machine"
                raise DataError(problem, remedy=f"Set {name}=... to where it is")
        if value is not None:
            # A copy: the settings of the run stay as they are.
            changed = {**holder, last: found if isinstance(value, list) else found[0]}
            settings.update({group: changed} if group else changed)

    def as_experiment(self) -> DictConfig:
        """Return these settings as Hydra composes an experiment."""
        defaults = []
        node: dict[str, Any] = {}
        for name, value in self.settings.items():
            if name in GROUPS and isinstance(value, dict):
                defaults.append({f"override /{name}": f"{value['schema']}_schema"})
                value = {key: inner for key, inner in value.items() if key != "schema"}
            node[name] = literal(value)
        config = OmegaConf.create({"defaults": defaults, **node})
        assert isinstance(config, DictConfig)
        return config


def _is_set(name: str, names: Set[str]) -> bool:
    """Return whether one of the names is this setting, or its group."""
    return any(f"{name}.".startswith(f"{other}.") for other in names)


def earlier_run(command: str, arguments: Sequence[str]) -> EarlierRun | None:
    """Return the run that config=... names among the arguments of a command; None if none does.

    Raises SettingError for an evaluation, a run of another command, or an experiment beside it; DataError if there is
    no run, or its records are damaged.
    """
    folders = [argument.partition("=")[2] for argument in arguments if argument.startswith(f"{OPTION}=")]
    if command not in TRAINING_COMMANDS or not folders or folders[-1] in ("", "null"):
        return None
    folder = folders[-1]
    others = [argument for argument in arguments if argument.lstrip("+").startswith("experiment=")]
    if others:
        remedy = f"Remove {others[0]}, or {OPTION}={folder}"
        raise SettingError(f"{OPTION}={folder} and {others[0]} each set everything", remedy=remedy)
    record = _record(Path(folder))
    started_by = record.get("command")
    if started_by not in TRAINING_COMMANDS:
        problem = f"The run in {folder} was started by encoderlab {started_by}, which trains nothing"
        raise SettingError(problem, allowed=f"a run of {', '.join(TRAINING_COMMANDS)}")
    if started_by != command:
        line = shlex.join(["encoderlab", started_by, *arguments])
        raise SettingError(f"The run in {folder} was started by encoderlab {started_by}", remedy=f"Run {line}")
    return EarlierRun(folder, _requested(folder, record, command), _typed(record))


def _record(folder: Path) -> dict[str, Any]:
    """Return environment.json of a run, which a colleague may have handed over. Raises DataError."""
    path = folder / "environment.json"
    try:
        record = json_of(record_of(path))
    except OSError as error:
        if path.exists():
            raise DataError(f"{path} cannot be read: {error.strerror}") from None
        problem = f"{OPTION}={folder} is not a run folder: it has no {path.name}"
        raise DataError(problem, remedy="Use a run folder, as printed by training") from None
    except ValueError as error:
        raise DataError(f"{path} cannot be read: {one_line(str(error))[:200]}") from None
    if not isinstance(record, dict):
        raise DataError(f"{path} cannot be read: it holds no record of a run")
    return record


def _requested(folder: str, record: Mapping[str, Any], command: str) -> dict[str, Any]:
    """Return the settings that a run was requested with, and those that were changed when it was resumed.

    Raises DataError if they are not settings of this version.
    """
    try:
        requested = {name: value for name, value in record["composed"].items() if name not in NOT_TAKEN_OVER}
        starts = [dict(flat_settings(start["settled"])) for start in (record, *record.get("resumed", []))]
        for name, value in starts[-1].items():
            if value != starts[0].get(name) and name not in NOT_TAKEN_OVER:
                group, _, setting = name.rpartition(".")
                (requested[group] if group else requested)[setting] = value
        settings_from_dict({"cache_dir": "", **requested}, TRAINING_CONFIGS[command])
    except (UserError, KeyError, TypeError, AttributeError, ValueError) as error:
        problem = f"The settings of {folder} cannot be taken over: {one_line(str(error))[:300]}"
        raise DataError(problem, remedy="It was started by another version of encoderlab, or is damaged") from None
    return requested


def _typed(record: Mapping[str, Any]) -> list[str] | None:
    """Return what was typed for a run, and for those from whose settings it began; None: it was started otherwise."""
    lines = [record.get("inherited"), record.get("overrides")]
    if not isinstance(lines[1], list):
        return None
    typed = [override for line in lines for override in line or () if isinstance(override, str)]
    return [override for override in typed if override[:1] != "-" and setting_name(override) not in NOT_TAKEN_OVER]
