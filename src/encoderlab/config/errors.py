"""Turns the errors of Hydra and OmegaConf about a command line into one line that says what to write instead."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import yaml
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException, ValidationError

from encoderlab.config.schemas import COMMAND_CONFIGS, GROUPS, SCHEMAS, names_of
from encoderlab.errors import SettingError, UserError, closest
from encoderlab.settings import allowed_range

MISSPELLED = 0.8  # how alike a setting of the same group has to be to be meant rather than one of another group
OWN_FILE = "For a file of your own, set dataset=files dataset.path={}"
EXTRAS = {"joblib": "parallel", "submitit": "slurm"}  # Hydra's name of a launcher, and the extra that installs it
KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", list: "a list such as [a,b]"}


@contextmanager
def explained(command: str) -> Iterator[None]:
    """Raise any error of the enclosed reading of a command line as a one-line SettingError.

    Besides errors of their own, Hydra and OmegaConf raise plain ones of many kinds for input they cannot read.
    """
    try:
        yield
    except (UserError, BrokenExecutor):  # of a launcher's worker, which reads no line
        raise
    except (HydraException, OmegaConfBaseException) as error:
        raise _explain(error, command) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingError(f"A config file cannot be read: {error}") from None
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise SettingError(
            f"The command line cannot be read: {reason}", remedy=f"See encoderlab {command} --help"
        ) from None


def _explain(error: HydraException | OmegaConfBaseException, command: str) -> SettingError:
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else error
    if isinstance(error, MissingConfigException):
        return _missing_option(error)
    if isinstance(error, OverrideParseException):
        return _without_name(str(error.override), command)
    if isinstance(cause, ConfigKeyError | ConfigAttributeError):
        return _unknown_key(cause)
    if isinstance(cause, ValidationError) and cause.full_key:
        return _bad_value(cause)
    return SettingError(" ".join(str(cause).split()), remedy=f"See encoderlab {command} --help")


def _without_name(argument: str, command: str) -> SettingError:
    """Return the error for an argument that is not name=value, such as a file or a folder alone."""
    settings = COMMAND_CONFIGS[command].__dataclass_fields__
    remedy = f"See encoderlab {command} --help"
    try:
        is_folder, is_file = Path(argument).is_dir(), Path(argument).is_file()
    except (OSError, ValueError):  # too long, or with a null character
        is_folder = is_file = False
    if is_folder and "run" in settings:
        remedy = f"Set {shlex.quote(f'run={argument}')}"
    elif is_file and "input" in settings:
        remedy = f"Set {shlex.quote(f'input={argument}')}"
    elif is_file and "dataset" in settings:
        remedy = OWN_FILE.format(shlex.quote(argument))
    return SettingError(f"{argument} cannot be read", allowed="name=value", remedy=remedy)


def _missing_option(error: MissingConfigException) -> SettingError:
    """Return the error for an unknown option of a config group, such as `task=sts2`."""
    group, _, name = (error.missing_cfg_file or "").rpartition("/")
    if not group:
        return SettingError(" ".join(str(error).split()))
    extra = next((extra for launcher, extra in EXTRAS.items() if name.startswith(launcher)), None)
    if group == "hydra/launcher" and extra and not error.options:
        return SettingError(f"hydra/launcher needs {name}", remedy=f"Run pip install 'encoderlab[{extra}]'")
    if (group, name) == ("hydra/sweeper", "optuna"):
        return SettingError(
            "hydra/sweeper=optuna is not supported", remedy="Use trials=N to search with Optuna, such as trials=20"
        )
    options = [option for option in error.options or [] if not option.endswith("_schema")]
    near = closest(name, options)
    hint = f"Did you mean {group}={near}?" if near else "encoderlab list describes each"
    if group.startswith("dataset") and Path(name).suffix:
        path = f"{group}/{name}".removeprefix("dataset/")
        return SettingError(f"There is no dataset named {path}", remedy=OWN_FILE.format(path))
    if group == "dataset" and name == "pretraining":
        return SettingError("task=pretraining has no labels to learn", remedy="Run encoderlab pretrain")
    if group == "dataset" and ("task", name) in SCHEMAS:
        hint = (
            f"The task {name} has no data of its own: set dataset=files dataset.path=... "
            "or dataset=hub dataset.path=..."
        )
        return SettingError(f"task={name} has no dataset yet", allowed=", ".join(options), remedy=hint)
    return SettingError(
        f"There is no config named {name} in the group {group}", allowed=", ".join(options), remedy=hint
    )


def _unknown_key(error: OmegaConfBaseException) -> SettingError:
    """Return the error for an unknown key, with the closest among those of the dataclass that lacks it."""
    schema, key = error.object_type, str(error.full_key)
    group = next((group for (group, _), member in SCHEMAS.items() if member is schema), "")
    if group and not key.startswith(f"{group}."):  # in a config file of that group
        key = f"{group}.{key}"
    if schema not in [*SCHEMAS.values(), *COMMAND_CONFIGS.values()]:
        return SettingError(f"There is no setting {key}", remedy="See --hydra-help" if key[:6] == "hydra." else "")
    assert isinstance(schema, type)
    return unknown_setting(key, names_of(schema))


def unknown_setting(key: str, known: list[str]) -> SettingError:
    """Return the refusal of a key that is not one of the `known` names beside it: it names the closest, or
    its group.
    """
    group, _, name = key.rpartition(".")
    if group and group not in GROUPS:
        meant = closest(group, GROUPS)
        inside = closest(
            name, [one for (owner, _), schema in SCHEMAS.items() if owner == meant for one in names_of(schema)]
        )
        others = f"Settings with a dot start with {', '.join(sorted(GROUPS))}"
        return SettingError(
            f"There is no setting {key}", remedy=f"Did you mean {meant}.{inside}?" if inside else others
        )
    prefix = f"{group}." if group else ""
    owners = [option for (owner, option), schema in SCHEMAS.items() if owner == group and name in names_of(schema)]
    if owners:
        where = f"another {group} (encoderlab list {group})" if group in owners else f"{group}={' or '.join(owners)}"
        return SettingError(f"{key} is not a setting of the chosen {group}", remedy=f"It belongs to {where}")
    if not closest(name, known, MISSPELLED) and (elsewhere := _in_other_groups(name, group, known)):
        return SettingError(f"There is no setting {key}", remedy=f"Did you mean {' or '.join(elsewhere)}?")
    if near := closest(name, known) or next((one for one in known if name == initials(one)), ""):
        return SettingError(f"There is no setting {key}", remedy=f"Did you mean {prefix}{near}?")
    return SettingError(f"There is no setting {key}", allowed=", ".join(f"{prefix}{one}" for one in known))


def _in_other_groups(name: str, group: str, known: list[str]) -> list[str]:
    """Return the settings of that name, or with these initials, in other groups; for a key without a group, of the
    `known` ones.
    """
    names = {(owner, one) for (owner, _), schema in SCHEMAS.items() for one in names_of(schema) if owner != group}
    names = {(owner, one) for owner, one in names if group or owner in known}
    exact = sorted(f"{owner}.{one}" for owner, one in names if one == name)
    return exact or sorted(
        f"{owner}.{one}" for owner, one in names if not group and "_" in one and initials(one) == name
    )


def initials(name: str) -> str:
    """Return what people shorten a name to: lr for learning_rate."""
    return "".join(word[:1] for word in name.split("_"))


class MissingSettingError(SettingError):
    """A setting without a default is missing."""


def required_setting(key: str) -> MissingSettingError:
    """Return the error for a missing setting that has no default."""
    return MissingSettingError(f"{key} is not set", remedy=f"Set {key}=...")


def _bad_value(error: ValidationError) -> SettingError:
    """Return the error for a value of the wrong type, or one that is not among an Enum's names."""
    key, schema, written = str(error.full_key), error.object_type, error.value
    declared = getattr(schema, "__dataclass_fields__", {}).get(key.rpartition(".")[2])
    if declared is None:
        return SettingError(f"{key}={written} cannot be read: {' '.join(str(error.msg).split())}")
    allowed = _kinds(get_type_hints(schema)[declared.name], written)
    limits = allowed_range(declared.metadata)
    return SettingError(
        f"{key}={written} is not a valid value",
        allowed=" or ".join(allowed) + (f", {limits}" if limits else ""),
        remedy=declared.metadata.get("help", ""),
    )


def _kinds(declared: Any, written: Any) -> list[str]:
    """Return what a setting of a declared type may be, in words."""
    if get_origin(declared) in (Union, UnionType):
        return [kind for member in get_args(declared) for kind in _kinds(member, written)]
    if declared is NoneType:
        return ["null"]
    if isinstance(declared, type) and issubclass(declared, Enum):
        return [", ".join(member.name for member in declared)]
    return [KINDS.get(get_origin(declared) or declared, "a config")]
