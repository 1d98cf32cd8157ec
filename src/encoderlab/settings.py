"""Settings: dataclass fields that carry their line of help and their range, both used by `--help` and by the checks.

`setting(default, "help", minimum=..., above=...)` is read three times: by the checks, by `--help` and by the error
messages. `__post_init__` of a settings class refuses what the range of a single setting cannot express.
"""

import copy
import json
import math
import operator
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, fields
from typing import Any

from encoderlab.errors import SettingError

REQUIRED = "???"  # what OmegaConf calls a mandatory value
_WORDS = ("true", "false", "null", "nan", "inf", "yes", "no", "on", "off")
_PLAIN = re.compile(r"[A-Za-z][\w-]*")  # texts that Hydra reads as they are, if they are no words of YAML
CACHE = "~/.cache/encoderlab"  # unless ENCODERLAB_CACHE names another folder (configs/command.yaml)

BOUNDS = {
    "minimum": ("at least", operator.ge),
    "above": ("more than", operator.gt),
    "maximum": ("at most", operator.le),
    "below": ("less than", operator.lt),
}


def setting(default: Any, help: str, *, internal: bool = False, **bounds: float) -> Any:
    """Return a dataclass field with one line of `help` and the range of its numbers (see BOUNDS).

    A field that is `internal` is set by an option of another group; it is not read, and users may not set it.
    """
    unknown = bounds.keys() - BOUNDS.keys()
    if unknown:
        raise TypeError(f"setting() got an unknown bound: {', '.join(unknown)}")
    metadata = {"help": help, "internal": internal, **bounds}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: copy.copy(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def check_settings(settings: Any, group: str) -> None:
    """Refuse numbers that are not finite or out of their field's range.

    `settings` is a dataclass of `setting` fields, and `group` the prefix of their names. Raises SettingError.
    """
    for declared in fields(settings):
        value = getattr(settings, declared.name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        name = f"{group}.{declared.name}" if group else declared.name
        allowed = allowed_range(declared.metadata)
        bounds = declared.metadata
        in_range = (holds(value, bounds[key]) for key, (_, holds) in BOUNDS.items() if key in bounds)
        if not math.isfinite(value) or not all(in_range):
            remedy = "" if declared.default == REQUIRED else f"Remove {name} to use its default"
            raise SettingError(f"{name} is {value}", allowed=allowed or "a finite number", remedy=remedy)


def allowed_range(metadata: Any) -> str:
    """Return the range of a field in words, such as "more than 0, at most 1"; "" if it has none."""
    limits = []
    for key, (words, _) in BOUNDS.items():
        bound = metadata.get(key)
        if bound is not None:
            limits.append(f"{words} {bound if isinstance(bound, int) else f'{bound:g}'}")
    return ", ".join(limits)


_URL = re.compile(r"""([a-z][a-z0-9+.-]+://)(?:[^/\s'"]*@)?([^\s'"?]*)(?:\?[^\s'"]*)?""", re.IGNORECASE)


def without_folders(plain: Any) -> Any:
    """Return plain data with only the name of every file that has an absolute path, also in `name=/path` and lists.

    URLs lose their passwords and queries, which may hold a signature.

    >>> without_folders({"path": ["/home/jo/a b.csv", "data/b.csv"], "typed": "input=~/b/c.csv"})
    {'path': ['a b.csv', 'data/b.csv'], 'typed': 'input=c.csv'}
    >>> without_folders("input='https://jo:secret@host/d.csv?key=1'")
    "input='https://host/d.csv'"
    """
    if isinstance(plain, Mapping):
        return {name: without_folders(value) for name, value in plain.items()}
    if isinstance(plain, list):
        return [without_folders(value) for value in plain]
    if not isinstance(plain, str):
        return plain
    without_secrets = _URL.sub(r"\1\2", plain)
    return re.sub(r"""(^|[=\[,]\s*['"]?)~?/[^,\]]*/(?=[^/])""", r"\1", without_secrets)


def flat_settings(plain: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings in `plain` by their full names, such as training.epochs."""
    for name, value in plain.items():
        if isinstance(value, Mapping):
            yield from flat_settings(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


class MissingSettingError(SettingError):
    """A setting without a default is missing."""


def required_setting(key: str) -> MissingSettingError:
    """Return the error for a missing setting that has no default."""
    remedy = "Run encoderlab compare FOLDER FOLDER ..." if key == "runs" else f"Set {key}=..."
    return MissingSettingError(f"{key} is not set", remedy=remedy)


def uninterpolated(value: str) -> str:
    """Return the value with `${` escaped by a backslash, so that OmegaConf reads back exactly `value`."""
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", value)


def quote(value: str) -> str:
    """Return the value as a quoted string of Hydra's grammar, which reads back as exactly `value`."""
    value = uninterpolated(value)
    value = re.sub(r"(\\*)('|$)", lambda match: match[1] * 2 + ("\\'" if match[2] else ""), value)
    return f"'{value}'"


def setting_name(override: str) -> str:
    """Return the name of the setting that an override sets, such as training.epochs of +training.epochs=2."""
    return override.lstrip("+~").partition("=")[0]


def typed(setting: str, value: str) -> str:
    """Return a setting with a text as its value, as it can be pasted into a shell."""
    is_read_otherwise = value != value.strip() or "${" in value or value.lower() in _WORDS
    return shlex.quote(f"{setting}={quote(value) if is_read_otherwise else value}")


def typed_value(setting: str, value: Any) -> str:
    """Return a setting with any plain value, as it can be pasted into a shell.

    >>> typed_value("training.threads", None), typed_value("dataset.text", ["title", "body"])
    ('training.threads=null', "'dataset.text=[title,body]'")
    """
    if isinstance(value, str):
        return typed(setting, value)
    if isinstance(value, list):
        return shlex.quote(f"{setting}={typed_list(map(str, value))}")
    return shlex.quote(f"{setting}={json.dumps(value)}")


def typed_list(values: Iterable[str]) -> str:
    """Return texts as a list of Hydra's grammar, each in quotes unless it reads back without."""
    written = []
    for value in values:
        is_plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        written.append(value if is_plain else quote(value))
    return f"[{','.join(written)}]"
