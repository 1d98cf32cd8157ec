"""What the shipped configs set: the config that a command uses in each group, and the values in that config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

SAME_AS_TASK = "${task}"


def chosen_configs(configs: Path, command: str) -> dict[str, str]:
    """Return the config that `command` uses in each group unless another is chosen; `configs` is the folder of all of
    them.
    """
    chosen: dict[str, str] = {}
    for entry in _read(configs / f"{command}.yaml")["defaults"]:
        if isinstance(entry, dict):
            chosen |= {group: name for group, name in entry.items() if (configs / group).is_dir()}
    return {group: chosen["task"] if name == SAME_AS_TASK else name for group, name in chosen.items()}


def values_of(configs: Path, group: str, name: str) -> tuple[str, dict[str, Any]]:
    """Return the schema that a config extends, and the values it sets itself or takes from another config."""
    file = configs / group / f"{name}.yaml"
    if not file.is_file():  # task=teacher_vectors, which has no dataset of its name, selects another
        return "", {}
    own = _read(file)
    schema, values = "", {}
    for entry in own.pop("defaults"):
        if isinstance(entry, str) and entry.endswith("_schema"):
            schema = entry.removesuffix("_schema")
        elif isinstance(entry, str) and entry != "_self_":
            schema, values = values_of(configs, group, entry)
    return schema, values | own


def _read(file: Path) -> dict[str, Any]:
    return yaml.safe_load(file.read_text(encoding="utf-8"))
