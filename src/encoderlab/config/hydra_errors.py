"""Turns Hydra's and OmegaConf's errors about a command line into one line that says what to write instead.

`HYDRA_FULL_ERROR=1` makes Hydra raise its errors instead of printing them. Hydra accepts `+model.n_layer=2`, so every
key is compared with the schema after composing, and an unknown one is refused with the closest real name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import yaml
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException

from encoderlab.config.schemas import COMMAND_CONFIGS, GROUPS, SCHEMAS, unknown_setting
from encoderlab.errors import SettingError, UserError, closest
from encoderlab.settings import allowed_range, brought_along

_OWN_FILE = "For a file of your own, set dataset=files dataset.path={}"
LAUNCHERS = {"joblib": "parallel", "submitit": "slurm"}  # Hydra's name, and the extra that installs it


def refuse_what_hydra_cannot(command: str, arguments: list[str]) -> None:
    """Raise SettingError for what Hydra itself does not refuse clearly.

    That is `model=null`, a group the command does not read, and a setting of a dataset that was not chosen.
    """
    chosen = {argument.partition("=")[0] for argument in arguments}
    unread = brought_along(COMMAND_CONFIGS[command])
    for argument in arguments:
        group, equals, value = argument.partition("=")
        if group in GROUPS and equals and value in ("", "null"):
            raise SettingError(f"{argument} names no config", remedy=f"Use a name from encoderlab list {group}")
        owner = re.split("[.@]", group.lstrip("+~"))[0]
        if group.lstrip("+~") == "hydra.mode":
            raise SettingError(f"{argument} cannot be set", remedy="Use -m to start several runs")
        if owner in unread:
            raise SettingError(f"encoderlab {command} has no {owner} settings", remedy=f"Remove {argument}")
        if command == "eval" and group.startswith("dataset.") and "dataset" not in chosen:
            raise SettingError(f"{argument} needs a dataset", remedy="Set dataset=files or dataset=hub before it")


@contextmanager
def explained(command: str, started: Sequence[str] = ()) -> Iterator[None]:
    """Raise errors of Hydra, OmegaConf and YAML as a one-line SettingError; and any other error, until a job has
    started.

    Hydra raises plain errors of many kinds for input it cannot parse.
    """
    try:
        yield
    except UserError:
        raise
    except (HydraException, OmegaConfBaseException) as error:
        raise explain(error, command) from None
    except yaml.YAMLError as error:
        raise SettingError(f"A config file cannot be read: {error}") from None
    except Exception as error:
        if started:
            raise
        reason = str(error) or type(error).__name__
        raise SettingError(
            f"The command line cannot be read: {reason}", remedy=f"See encoderlab {command} --help"
        ) from None


def explain(error: HydraException | OmegaConfBaseException, command: str) -> SettingError:
    """Return the error as a one-line SettingError."""
    text = str(error)
    if found := re.search(r"In 'hydra/launcher/([\w-]+)': Could not load 'hydra/launcher/(joblib|submitit)", text):
        remedy = f"Run pip install 'encoderlab[{LAUNCHERS[found[2]]}]'"
        return SettingError(f"hydra/launcher={found[1]} needs a launcher that is not installed", remedy=remedy)
    if isinstance(error, MissingConfigException):
        return _missing_option(text)
    if isinstance(error, OverrideParseException):
        return _without_name(str(error.override), command)
    if isinstance(error, ConfigKeyError | ConfigCompositionException) and (
        found := re.search(r"Key '(\w+)' not in '\w+'", text)
    ):
        where = re.search(r"full_key: ([\w.]+)", text)
        return _unknown(where[1] if where else found[1], command, _owner(error))
    if text.startswith("Ambiguous value for argument"):
        return SettingError(
            f"{text.split(chr(39))[1]} has several values",
            remedy="Add -m to run each of them, or write a list as name=[a,b]",
        )
    if found := re.search(r"Could not (?:override|append to|delete from) '?(?:config\. )?'?([\w.@/]+)'?", text):
        return _unknown(found[1], command, _owner(error))
    if found := re.search(r"[Ee]rror merging override (\S+?)=(.*)", text):
        return _bad_value(found[1].lstrip("+"), found[2], error, command)
    cause = error.__cause__ if isinstance(error, ConfigCompositionException) and error.__cause__ else error
    return SettingError(" ".join(str(cause).split()), remedy=f"See encoderlab {command} --help")


def _without_name(argument: str, command: str) -> SettingError:
    """Return the error for an argument that is not name=value, such as a file or a folder alone."""
    settings = COMMAND_CONFIGS[command].__dataclass_fields__
    remedy = f"See encoderlab {command} --help"
    kind = _kind_of_path(argument)
    if kind == "folder" and "run" in settings:
        remedy = f"Set {shlex.quote(f'run={argument}')}"
    elif kind == "file" and "input" in settings:
        remedy = f"Set {shlex.quote(f'input={argument}')}"
    elif kind == "file" and "dataset" in settings:
        remedy = _OWN_FILE.format(shlex.quote(argument))
    return SettingError(f"{argument} cannot be read", allowed="name=value", remedy=remedy)


def _kind_of_path(argument: str) -> str | None:
    """Return whether an argument is the path of a folder or of a file; None for any other text, however long."""
    try:
        return "folder" if Path(argument).is_dir() else "file" if Path(argument).is_file() else None
    except (OSError, ValueError):
        return None


def _owner(error: Exception) -> str:
    """Return the class that lacks a key, as OmegaConf names it; "" if it names none."""
    found = re.search(r"object_type=(\w+)", f"{error} {error.__cause__}")
    return found[1] if found else ""


def _missing_option(text: str) -> SettingError:
    """Return the error for an unknown option of a config group, such as `task=sts2`."""
    found = re.search(r"Could not find '([\w/.-]+)'", text) or re.search(
        r"Cannot find primary config '([\w/.-]+)'", text
    )
    if found is None:
        return SettingError(" ".join(text.split()))
    group, _, name = found[1].rpartition("/")
    if not group:
        return SettingError(f"There is no config file {name} in the search path", remedy="Remove --config-path")
    listed = re.search(r"Available options in '[^']*':\n(.*?)\nConfig search path", text, re.DOTALL)
    options = [line.strip() for line in listed[1].splitlines()] if listed else []
    options = [option for option in options if not option.endswith("_schema")]
    near = closest(name, options)
    hint = f"Did you mean {group}={near}?" if near else "encoderlab list describes each"
    if group.startswith("dataset") and Path(file := found[1].removeprefix("dataset/")).suffix:
        return SettingError(f"There is no dataset named {file}", remedy=_OWN_FILE.format(file))
    if group == "dataset" and name in ("classification", "tagging"):
        hint = f"The task {name} has no data of its own: set dataset=files dataset.path=... or dataset=hub dataset.path=..."
        return SettingError(f"task={name} has no dataset yet", allowed=", ".join(options), remedy=hint)
    if group == "dataset" and name == "pretraining":
        return SettingError("task=pretraining has no labels to learn", remedy="Run encoderlab pretrain")
    return SettingError(
        f"There is no config named {name} in the group {group}", allowed=", ".join(options), remedy=hint
    )


def _unknown(key: str, command: str, owner: str = "") -> SettingError:
    """Return the error for an unknown key. It names the closest key, among those of the class `owner` if that is known."""
    key = key.replace("/", ".")
    group, _, name = key.rpartition(".")
    if key in GROUPS:
        return SettingError(f"{key} must be the name of a config", remedy=f"Use a name from encoderlab list {key}")
    if key.startswith("hydra."):
        return SettingError(f"Hydra has no setting {key}", remedy=f"See encoderlab {command} --hydra-help")
    own = COMMAND_CONFIGS[command].__dataclass_fields__
    if group in GROUPS and group not in own:
        remedy = f"Did you mean {name}?" if name in own else f"Remove {key}"
        return SettingError(f"encoderlab {command} has no {group} settings", remedy=remedy)
    owners = [schema for (of_group, _), schema in SCHEMAS.items() if of_group == group] or [COMMAND_CONFIGS[command]]
    owners = [schema for schema in owners if schema.__name__ == owner] or owners
    known = sorted({declared.name for owner in owners for declared in fields(owner)})
    if name in known:
        known = []  # a setting of another option of the group: unknown_setting says which
    return unknown_setting(key, known)


def _bad_value(key: str, value: str, error: BaseException, command: str) -> SettingError:
    """Return the error for a value of the wrong type, or one that is not among an Enum's names."""
    group, _, name = key.rpartition(".")
    owners = [schema for (owner, _), schema in SCHEMAS.items() if owner == group] or [COMMAND_CONFIGS[command]]
    declared = next((owner.__dataclass_fields__[name] for owner in owners if name in owner.__dataclass_fields__), None)
    reason = " ".join(str(error.__cause__).split("full_key")[0].split()) if error.__cause__ else ""
    if declared is None:
        return SettingError(f"{key}={value} cannot be read: {reason}")
    if options := re.search(r"(?:expected one of|one of) \[([^\]]*)\]", reason):
        return SettingError(f"{key}={value} is not a valid choice", allowed=options[1].replace("'", ""))
    kinds = {
        "int": "a whole number",
        "float": "a number",
        "bool": "true or false",
        "str": "a text",
        "list": "a list such as [a,b]",
    }
    written = getattr(declared.type, "__name__", "") if isinstance(declared.type, type) else str(declared.type)
    words = [kinds[kind] for kind in kinds if re.match(rf"{kind}\b", written)]
    words += ["null"] if "None" in str(declared.type) else []
    limits = allowed_range(declared.metadata)
    allowed = " or ".join(words) + (f", {limits}" if limits else "")
    return SettingError(
        f"{key}={value} has the wrong type", allowed=allowed or reason, remedy=declared.metadata.get("help", "")
    )
