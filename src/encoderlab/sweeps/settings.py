"""The settings given once for all runs of a sweep."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

from encoderlab.config.commands import SweepConfig
from encoderlab.errors import SettingError
from encoderlab.runs.folders.sweep import SweepFolder

_EXAMPLES = {"trials": 20}  # of the setting that is a whole number
_HYDRAS_NAME = "hydra.sweep.dir="
_RANGE = re.compile(r"(?!text)[\w.]+=(log|interval)\([^()]*\)")


def sweep_settings(arguments: Sequence[str], multirun: bool) -> tuple[SweepConfig, list[str]]:
    """Return the settings for all runs together, and the other arguments.

    Raises SettingError for such a setting without -m, and for a value it cannot have.
    """
    names = [declared.name for declared in fields(SweepConfig)]
    given = {
        name: value for name, equals, value in (one.partition("=") for one in arguments) if equals and name in names
    }
    rest = [argument for argument in arguments if argument.partition("=")[0] not in given]
    alone = [*given, *(["sweep"] if any(one.startswith("sweep=") and one != "sweep=null" for one in rest) else [])]
    if alone and not multirun:
        raise SettingError(f"{alone[0]} needs several runs", remedy="Add -m to start them")
    numbers = {name: _whole_number(name, given[name]) for name in _EXAMPLES if given.get(name, "null") != "null"}
    ranges = [one for one in rest if _RANGE.fullmatch(one)]
    if ranges and "trials" not in numbers:
        remedy = f"Add {'' if multirun else '-m '}trials=20 to search it"
        raise SettingError(f"{ranges[0]} is a range, not a value", remedy=remedy)
    hydras = [one.removeprefix(_HYDRAS_NAME) for one in rest if one.startswith(_HYDRAS_NAME)]
    rest = [argument for argument in rest if not argument.startswith(_HYDRAS_NAME)]
    folder = given.get("sweep_dir", hydras[0] if hydras else "null")
    return SweepConfig(sweep_dir=None if folder == "null" else folder, **numbers), rest


def _whole_number(name: str, value: str) -> int:
    if not (value.isascii() and value.lstrip("-").isdigit()):
        remedy = f"Set {name}={_EXAMPLES[name]}"
        raise SettingError(f"{name}={value} has the wrong type", allowed="a whole number, at least 1", remedy=remedy)
    return int(value)


def as_arguments(options: SweepConfig) -> list[str]:
    """Return the arguments that set them, except `sweep_dir`."""
    defaults = {declared.name: declared.default for declared in fields(options) if declared.name != "sweep_dir"}
    return [
        f"{name}={getattr(options, name)}" for name, default in defaults.items() if getattr(options, name) != default
    ]


@contextmanager
def folder_for(options: SweepConfig, *, dry: bool) -> Iterator[SweepFolder]:
    """Open the folder of a sweep, a temporary one if its jobs are `dry` runs. Raises SettingError."""
    if not dry:
        yield SweepFolder.named(options.sweep_dir)
        return
    if options.trials is not None:
        raise SettingError("dry_run=true gives no score to search by", remedy="Remove trials or dry_run")
    with tempfile.TemporaryDirectory(prefix="encoderlab-dry-sweep-") as folder:
        yield SweepFolder(Path(folder))
