"""Every setting with its help and values, read from a file in the cache: importing the settings takes longer than TAB
may.
"""

from __future__ import annotations

import hashlib
import json
import os
import types
from collections.abc import Collection
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from encoderlab.settings import CACHE, brought_along
from encoderlab.system.atomic_files import atomic_write_text

PACKAGE = Path(__file__).resolve().parents[1]
FILE = "completion.json"
AUTO = "auto"


class Offered(NamedTuple):
    """A setting: its line of help, the values it can be completed to, and what its text names (a member of `Names`, or
    None).
    """

    help: str
    values: list[str]
    names: str | None


Settings = dict[str, Offered]


class Table(NamedTuple):
    """The settings and config groups of each command, of each schema of a group, and of sweeps."""

    commands: dict[str, Settings]
    groups: dict[str, list[str]]
    schemas: dict[str, dict[str, Settings]]
    sweep: Settings


def settings_table() -> Table:
    """Return the table from the cache; build it first if there is none, or if the source of encoderlab has changed."""
    file = Path(os.environ.get("ENCODERLAB_CACHE") or CACHE).expanduser() / FILE
    source = _source_digest()
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        if kept.pop("source") == source:
            return _from_plain(kept)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    table = make_table()
    if not file.is_absolute():  # another folder at each TAB
        return table
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write_text(file, json.dumps({"source": source, **table._asdict()}))
    return table


def _source_digest() -> str:
    """Return a hash of where the modules of this package are, their sizes and the times of their last changes."""
    digest = hashlib.sha256()
    for folder, _, names in os.walk(PACKAGE):
        for name in sorted(names):
            if name.endswith(".py"):
                state = Path(folder, name).stat()
                digest.update(f"{folder}/{name} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _from_plain(kept: dict[str, Any]) -> Table:
    def settings(plain: dict[str, list]) -> Settings:
        return {name: Offered(*fields) for name, fields in plain.items()}

    return Table(
        commands={command: settings(plain) for command, plain in kept["commands"].items()},
        groups=kept["groups"],
        schemas={group: {name: settings(plain) for name, plain in of.items()} for group, of in kept["schemas"].items()},
        sweep=settings(kept["sweep"]),
    )


def make_table() -> Table:
    """Return the table, built from the dataclasses."""
    from encoderlab.cli.help import RECIPES, groups_of
    from encoderlab.config.command_settings import SweepConfig
    from encoderlab.config.schemas import COMMAND_CONFIGS, SCHEMAS

    groups = {command: groups_of(schema) for command, schema in COMMAND_CONFIGS.items()}
    schemas: dict[str, dict[str, Settings]] = {}
    for (group, name), schema in SCHEMAS.items():
        schemas.setdefault(group, {})[name] = _offered(schema, f"{group}.", ())
    return Table(
        commands={command: _offered(schema, "", groups[command]) for command, schema in COMMAND_CONFIGS.items()},
        groups={
            command: [*own, *(("experiment", "sweep") if command in RECIPES else ())] for command, own in groups.items()
        },
        schemas=schemas,
        sweep=_offered(SweepConfig, "", ()),
    )


def _offered(schema: type, prefix: str, groups: Collection[str]) -> Settings:
    from dataclasses import fields

    types_of, hidden = get_type_hints(schema), {*groups, *brought_along(schema)}
    return {
        f"{prefix}{declared.name}": Offered(
            declared.metadata["help"],
            _values(f"{prefix}{declared.name}", types_of[declared.name]),
            None if declared.metadata["names"] is None else declared.metadata["names"].name,
        )
        for declared in fields(schema)
        if declared.name not in hidden
    }


def _values(name: str, declared: Any) -> list[str]:
    """Return the values of an enumerated setting or a flag, as they are typed, and the aliases of any other."""
    from encoderlab.config.overrides import MEANT

    aliases = [AUTO] if f"{name}={AUTO}" in MEANT else []
    members = get_args(declared) if get_origin(declared) in (Union, types.UnionType) else (declared,)
    values = [value for member in members for value in _values_of_type(member)]
    return [*aliases, *values, *(["null"] if values and type(None) in members else [])]


def _values_of_type(declared: Any) -> list[str]:
    if declared is bool:
        return ["true", "false"]
    return [member.name for member in declared] if isinstance(declared, type) and issubclass(declared, Enum) else []
