"""The settings of a run next to their defaults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from typing import Any

from encoderlab.config.schemas import COMMAND_CONFIGS, SCHEMAS
from encoderlab.runs.folder import RunFolder
from encoderlab.settings import REQUIRED
from encoderlab.system.bounded_yaml import load_yaml

NO_MATTER_OF_THE_RUN = ("cache_dir", "run_dir", "resume")


@dataclass(frozen=True, slots=True)
class ChosenSetting:
    """A setting by its full name, with its value and its default; `required` means that it has none."""

    name: str
    value: Any
    default: Any
    required: bool

    @property
    def differs(self) -> bool:
        """Return whether the run sets it to something else."""
        return self.required or self.value != self.default


def chosen_settings(folder: RunFolder, command: str) -> list[ChosenSetting]:
    """Return the settings in config.yaml of a run of `command`, in its order, without those that only place files.

    The default is that of the chosen kind: for `dataset=files`, that of `files`. If a group has several kinds, the
    group comes first, with its kind.
    """
    plain = load_yaml(folder.config.read_text(encoding="utf-8"))
    return [one for one in _chosen(plain, COMMAND_CONFIGS[command], "") if one.name not in NO_MATTER_OF_THE_RUN]


def _chosen(plain: dict[str, Any], schema: type, prefix: str) -> Iterator[ChosenSetting]:
    defaults = {declared.name: _default(declared) for declared in fields(schema)}
    for name, value in plain.items():
        if isinstance(value, dict) and (name, value.get("schema")) in SCHEMAS:
            if value["schema"] != name:
                yield ChosenSetting(name, value["schema"], None, required=True)
            inside = {key: inner for key, inner in value.items() if key != "schema"}
            yield from _chosen(inside, SCHEMAS[name, value["schema"]], f"{name}.")
        else:
            default = defaults.get(name, REQUIRED)
            yield ChosenSetting(f"{prefix}{name}", value, default, required=default == REQUIRED)


def _default(declared: Any) -> Any:
    default = declared.default_factory() if declared.default_factory is not MISSING else declared.default
    return default.name if isinstance(default, Enum) else default
