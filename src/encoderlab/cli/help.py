"""`--help` of a command: usage, examples, the config groups, and a line of help for each setting."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from enum import Enum
from pathlib import Path
from typing import Any

import yaml

from encoderlab.cli.table import Command
from encoderlab.commands.list import GROUPS, options_of
from encoderlab.config import TRAINING_COMMANDS
from encoderlab.config.commands import SweepConfig
from encoderlab.config.schemas import SCHEMAS, groups_read
from encoderlab.settings import allowed_range

USAGE = {"compare": "FOLDER [FOLDER ...] "}
SAME_AS_TASK = "${task}"
SWEEPS = """
Settings of a sweep (with -m; runs several jobs, then prints a table; hydra/launcher=parallel runs them in parallel):"""
HYDRA_FLAGS = """Hydra's own flags work too:
  --cfg job           print the config that would run     --config-dir DIR    add your own configs
  -m, --multirun      run every combination of a,b values --hydra-help        show Hydra's own help"""


def print_help(shown: Command, configs: Path, arguments: Sequence[str] = ()) -> None:
    """Print the help of a command, with the settings of the configs that it uses, or that `arguments` choose.

    The shipped configs are in the folder `configs`.
    """
    schema = shown.schema()
    command = schema.command
    print(f"encoderlab {command}: {shown.summary}\n")
    print(f"usage: encoderlab {command} {USAGE.get(command, '')}[name=value ...]\n")
    lines = {f"encoderlab {command} {example}".rstrip(): line for example, line in schema.example_lines}
    print("\n".join(f"  {example:<{max(map(len, lines))}}  {line}" for example, line in lines.items()))
    groups = groups_read(schema)
    if groups:
        print("\nConfig groups (encoderlab list describes each option):")
        for group in [*groups, *(["experiment", "sweep"] if command in TRAINING_COMMANDS else [])]:
            print(f"  {group:<12}{', '.join(options_of(configs, group))}")
    print("\nSettings (name=value), with their defaults:")
    print(*_lines(schema), sep="\n")
    options = chosen_configs(configs, command, arguments) if groups else {}
    for group in groups:
        kind, values = values_of(configs, group, options.get(group, ""))
        if kind:
            print(f"\n{group}={options[group]}: {first_line(SCHEMAS[group, kind])}")
            print(*_lines(SCHEMAS[group, kind], f"{group}.", values), sep="\n")
    if groups:
        print(f"\nOther choices have other settings: see encoderlab {command} {groups[0]}=NAME --help")
    if command in TRAINING_COMMANDS:
        print(SWEEPS, *_lines(SweepConfig), sep="\n")
    print(f"\n{HYDRA_FLAGS}")


def _fields(schema: type) -> list[Field[Any]]:
    """Return the fields that users may set."""
    return [declared for declared in fields(schema) if not declared.metadata["internal"]]


def _lines(schema: type, *further: Any) -> list[str]:
    return [f"  {setting:<38} {line}" for setting, line in settings_with_help(schema, *further)]


def settings_with_help(
    schema: type, prefix: str = "", values: Mapping[str, Any] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield each setting of a dataclass as name=default, after `prefix`, with its line of help and its range; config
    groups are skipped.

    `values` are those that a config of the group sets; they replace the defaults.
    """
    for declared in _fields(schema):
        if declared.name in GROUPS:
            continue
        limits = allowed_range(declared.metadata)
        default = declared.default_factory() if declared.default_factory is not MISSING else declared.default
        value = written((values or {}).get(declared.name, default))
        yield f"{prefix}{declared.name}={value}", declared.metadata["help"] + (f" ({limits})" if limits else "")


def written(value: Any) -> str:
    """Return the value of a setting as a command line gives it."""
    if isinstance(value, Enum):
        return value.name
    words = {None: "null", True: "true", False: "false", "???": "..."}
    return words[value] if isinstance(value, bool | str | None) and value in words else str(value).replace("'", "")


def first_line(schema: type) -> str:
    """Return the first line of a settings class's docstring."""
    return (schema.__doc__ or "").strip().splitlines()[0]


def chosen_configs(configs: Path, command: str, arguments: Sequence[str]) -> dict[str, str]:
    """Return the config of each group, from the folder `configs`, that `command` with its `arguments` uses."""
    options: dict[str, str] = {}
    for entry in _read(configs / f"{command}.yaml")["defaults"]:
        if isinstance(entry, dict):
            options |= {group: name for group, name in entry.items() if (configs / group).is_dir()}
    for argument in arguments:
        group, _, name = argument.partition("=")
        if group in GROUPS:
            options[group] = name
    return {group: options["task"] if name == SAME_AS_TASK else name for group, name in options.items()}


def values_of(configs: Path, group: str, name: str) -> tuple[str, dict[str, Any]]:
    """Return the schema that a config extends, and the values it sets itself or takes from another config."""
    file = configs / group / f"{name}.yaml"
    if not file.is_file():  # task=teacher_vectors, which has no dataset of its name, selects another
        return "", {}
    own = _read(file)
    schema = ""
    values = {}
    for entry in own.pop("defaults"):
        if isinstance(entry, str) and entry.endswith("_schema"):
            schema = entry.removesuffix("_schema")
        elif isinstance(entry, str) and entry != "_self_":
            schema, values = values_of(configs, group, entry)
    return schema, values | own


def _read(file: Path) -> dict[str, Any]:
    return yaml.safe_load(file.read_text(encoding="utf-8"))
