"""The facts on a run's page besides its scores, from its first records: its command line, settings, machine and data."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from encoderlab.errors import printable
from encoderlab.reports.parts.console import words_of
from encoderlab.reports.parts.shown_texts import shown
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.folders.chosen_settings import ChosenSetting, chosen_settings

MOST_CHARACTERS = 300  # of a setting's value, or of a fact
NOT_REPEATED = ("run_dir", "resume")  # a run is repeated in a new folder


def run_facts(folder: RunFolder, command: str) -> dict[str, Any]:
    """Return `repeat` (a command line, or None), `changed` and `other` settings, `machine`, `data`, and the `language`
    or None.

    Settings are triples of name, value and default ("" if there is none); `changed` are those that differ from it.
    `machine` holds pairs of words. `data` is environment.json's `dataset`, with its `origin` as pairs of words.
    """
    record = json.loads(folder.environment.read_text(encoding="utf-8"))
    settings = chosen_settings(folder, command)
    data = record["dataset"] or {}
    return {
        "repeat": repeat_line(record),
        "changed": [_setting(one) for one in settings if one.differs],
        "other": [_setting(one) for one in settings if not one.differs],
        "machine": _machine(record),
        "language": next((one.value for one in settings if one.name == "dataset.language"), None),
        "data": {
            **data,
            "origin": [(words_of(name), _as_yaml(value)) for name, value in (data.get("origin") or {}).items()],
        },
    }


def repeat_line(record: Mapping[str, Any]) -> str | None:
    """Return the command line that repeats the run; None if it was started from Python."""
    overrides = record.get("overrides")
    if overrides is None:
        return None
    again = [one for one in overrides if one.partition("=")[0].lstrip("+~") not in NOT_REPEATED]
    return printable(" ".join(["encoderlab", record["command"], *map(shlex.quote, again)]))


def _setting(chosen: ChosenSetting) -> tuple[str, str, str]:
    return chosen.name, _as_yaml(chosen.value), "" if chosen.required else _as_yaml(chosen.default)


def _as_yaml(value: Any) -> str:
    """Return a value as written in YAML, shortened if it is long."""
    return shown(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), MOST_CHARACTERS)


def _machine(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return hardware and versions, as far as they are known."""
    hardware = {words_of(name): value for name, value in record["hardware"].items()}
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items() if version)
    found = {**hardware, "versions": versions, "git commit": record["git_commit"]}
    found["resumed"] = f"{len(record['continued'])} time(s); see environment.json" if record.get("continued") else None
    return [(name, _as_yaml(value)) for name, value in found.items() if value is not None]
