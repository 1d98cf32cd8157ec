"""Settings that are texts, such as the names of labels and columns, taken as they were typed.

YAML and Hydra's grammar read 1.10 as the number 1.1, `no` as a truth value and `null` as nothing. Where a setting holds
texts, these are the names of labels. On a command line they are quoted before Hydra reads them; in the files of one's
own configs, what YAML has misread is replaced by what stands there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from encoderlab.config.commands import CommandConfig, RunConfig
from encoderlab.config.schemas import GROUPS, SCHEMAS
from encoderlab.errors import SettingError
from encoderlab.settings import quote, setting_name

if TYPE_CHECKING:
    from omegaconf import DictConfig

MAPPINGS = ("task.class_weights", "task.thresholds", "dataset.label_names")
# Settings of any type that hold texts: a name or a list; a list or a mapping.
_TEXTS = (*(f"dataset.{name}" for name in ("text", "path", "train", "validation", "test", "label_names")), *MAPPINGS)
_NAMES = tuple(f"dataset.{name}" for name in ("text", "path", "train", "validation", "test"))
_NESTED = re.compile(r"[][{}()'\"\\]")


@cache
def _type_of(command: type[CommandConfig], key: str) -> Any:
    """Return the type of a setting of a command; None if there is none of that name."""
    group, _, name = key.rpartition(".")
    schemas = [schema for (owner, _), schema in SCHEMAS.items() if owner == group]
    for schema in schemas if group else [command]:
        hints = get_type_hints(schema)
        if name in hints:
            return hints[name]
    return None


def _holds_texts(command: type[CommandConfig], key: str) -> bool:
    """Return whether a setting holds a text, several, or something by the names of labels."""
    return key in _TEXTS or _type_of(command, key) in (str, str | None, list[str], list[str] | None)


def as_typed(command: type[CommandConfig], key: str, value: str, *, is_sweep: bool) -> str:
    """Return the value of a setting in Hydra's grammar so that texts in it are read as they were typed.

    null alone, with which a setting is left open, stays as it is. A comma separates the values of a sweep only in a
    line that `is_sweep` (or, where a setting may hold several texts, in any).
    """
    if not _holds_texts(command, key) or value in ("", "null") or "${" in value:
        return value
    is_one_text = _type_of(command, key) in (str, str | None)
    if key in _NAMES and value[0] != "[" and not is_sweep and "," in value:
        return quote(value)  # a column or a file with a comma in its name; several are a list in brackets
    with suppress(HydraException):
        override = OverridesParser.create().parse_override(f"name={value}")
        if override.is_sweep_override() and (is_sweep or not is_one_text):
            return value if _NESTED.search(value) else ",".join(map(_element_as_typed, value.split(",")))
        if not override.is_sweep_override():
            read = override.value()
            if isinstance(read, str) or (not is_one_text and _has_only_texts(read, numbers=key.startswith("task."))):
                return value
    if is_one_text or value[0] not in "[{":
        return quote(value)
    with suppress(yaml.YAMLError):
        texts = yaml.load(value, yaml.BaseLoader)  # each word is a text there
        if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
            return f"[{','.join(map(quote, texts))}]"
        if isinstance(texts, dict):  # Hydra has no quoted keys: `read_mappings` reads the mapping
            return quote(value)
    return value


def _element_as_typed(value: str) -> str:
    """Return one of the texts of a sweep, quoted if Hydra reads something else."""
    with suppress(HydraException):
        if value == "null" or isinstance(OverridesParser.create().parse_override(f"name={value}").value(), str):
            return value
    return quote(value)


def _has_only_texts(value: Any, *, numbers: bool) -> bool:
    """Return whether all values and keys are texts; with `numbers`, the values of a mapping are not looked at."""
    if isinstance(value, list):
        return all(isinstance(part, str) for part in value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and (numbers or isinstance(part, str)) for key, part in value.items())
    return isinstance(value, str)


def as_typed_in_files(config: DictConfig, folder: str | None, overrides: Sequence[str]) -> DictConfig:
    """Return the composed config with the texts of one's own YAML files in `folder` as they are written there.

    A value is replaced if the config has what YAML makes of it, False of `no` and 1.1 of 1.10, and if none of the
    `overrides` of the command line sets it.
    """
    from omegaconf import OmegaConf, open_dict

    typed = set(map(setting_name, overrides))
    for key, misread, written in _misread_texts(folder) if folder else ():
        if key in typed:
            continue
        found = OmegaConf.select(config, key, throw_on_missing=False, throw_on_resolution_failure=False)
        plain = OmegaConf.to_container(found) if OmegaConf.is_config(found) else found
        if plain == misread or (isinstance(plain, str) and plain == str(misread)):
            with open_dict(config):
                OmegaConf.update(config, key, written, merge=False)
    return config


def read_mappings(config: DictConfig) -> None:
    """Replace the mappings in `config` that have arrived as texts.

    Hydra's grammar has no quoted keys and no letters beyond ASCII in them: it cannot read `task.class_weights={größer:
    5}`. They are read as YAML, in which each word is a text: `no` is a label.
    """
    from omegaconf import OmegaConf

    for name in MAPPINGS:
        text = OmegaConf.select(config, name, throw_on_missing=False, throw_on_resolution_failure=False)
        if not isinstance(text, str) or not text.startswith("{"):
            continue
        with suppress(ValueError, yaml.YAMLError):  # otherwise it stays a text, which the setting refuses
            mapping = yaml.load(text, yaml.BaseLoader)
            mapping = dict(_with_value(key, value) for key, value in mapping.items())
            if name.startswith("task."):
                mapping = {label: float(value) for label, value in mapping.items()}
            OmegaConf.update(config, name, mapping)


def _with_value(key: str, value: str) -> tuple[str, str]:
    """Return a key and its value: Hydra needs no blank after a colon, and YAML reads {no:5} as a key without value."""
    if value or ":" not in key:
        return key, value
    key, _, value = key.rpartition(":")
    return key, value


def _misread_texts(folder: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield each setting of texts that YAML misreads in a file of `folder`, what it reads, and what is written."""
    for file in sorted(Path(folder).rglob("*.yaml")):
        try:
            text = file.read_text(encoding="utf-8")
            misread = yaml.safe_load(text)
            written = yaml.load(text, yaml.BaseLoader)
        except (OSError, ValueError, yaml.YAMLError):
            continue  # Hydra says so if it reads the file
        if not isinstance(misread, dict):
            continue
        group = file.parent.name
        if group in GROUPS:
            misread = {group: misread}
            written = {group: written}
        for name in GROUPS & misread.keys():
            if isinstance(misread[name], dict):
                for setting, value in misread[name].items():
                    key = f"{name}.{setting}"
                    if value is not None and _holds_texts(RunConfig, key) and value != written[name][str(setting)]:
                        yield key, value, _numbers_kept(key, written[name][str(setting)])


def _numbers_kept(key: str, written: Any) -> Any:
    """Return what is written, with the numbers of a mapping from labels as numbers."""
    if key.startswith("task.") and isinstance(written, dict):
        try:
            return {label: float(number) for label, number in written.items()}
        except ValueError:
            raise SettingError(f"{key} is {written}", allowed="a number for each label") from None
    return written
