"""Errors of Hydra and OmegaConf in one line: what is wrong, what is allowed, and what was probably meant."""

import re
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import yaml
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf, errors

from encoderlab.config import config_file
from encoderlab.config.commands import CommandConfig
from encoderlab.config.schemas import SCHEMAS, is_without_schema, missing_schema, names_of, unknown_setting
from encoderlab.errors import SettingError, UserError, closest
from encoderlab.settings import allowed_range


@contextmanager
def errors_explained(command: str, config_dir: str | None = None) -> Iterator[None]:
    """Raise any error of the enclosed reading of a command line as a one-line SettingError.

    Besides errors of their own, Hydra and OmegaConf raise plain ones of many kinds for input they cannot read. One's
    own configs are in `config_dir`.
    """
    try:
        yield
    except (UserError, BrokenExecutor):  # of a launcher's worker, which reads no line
        raise
    except (HydraException, errors.OmegaConfBaseException) as error:
        raise _explain(error, command, config_dir) from None
    except Exception as error:
        problem = f"The command line or a config file cannot be read: {str(error) or type(error).__name__}"
        raise SettingError(problem, remedy=f"See encoderlab {command} --help") from None


def _explain(
    error: HydraException | errors.OmegaConfBaseException, command: str, config_dir: str | None
) -> SettingError:
    if isinstance(error, MissingConfigException):
        return _missing_option(error)
    if isinstance(error, OverrideParseException):
        typed = str(error.override)
        problem = f"{typed} {'does not exist' if '=' not in typed and Path(typed).suffix else 'cannot be read'}"
        near = closest(Path(typed).name, (entry.name for entry in Path().iterdir()), 0.7)
        remedy = f"Did you mean {near}?" if near else ""
        return SettingError(problem, allowed="name=value, or an existing file", remedy=remedy)
    # What is wrong with a setting is the cause of Hydra's error; in a file, which Hydra's error names, its context.
    reasons = (error.__cause__, error.__context__) if isinstance(error, HydraException) else ()
    cause = next((reason for reason in reasons if isinstance(reason, errors.OmegaConfBaseException)), error)
    where = _place_in_file(str(error), str(getattr(cause, "full_key", "")), config_dir)
    if isinstance(cause, errors.ConfigKeyError | errors.ConfigAttributeError):
        group = str(cause.full_key).partition(".")[0]
        file = _file_named(str(error), config_dir)
        if file is not None and is_without_schema(cause.object_type, group):
            return missing_schema(group, str(file), [str(key) for key in cast("DictConfig", OmegaConf.load(file))])
        return _at(where, _unknown_key(cause))
    if isinstance(cause, errors.ValidationError) and cause.full_key:
        return _at(where, _bad_value(cause))
    foreign = re.search(r"In '(\w+)/(\w+)': Could not override '(\w+)'", str(cause))
    if "Incompatible key type" in str(cause):
        problem = f"{getattr(cause, 'full_key', None) or 'A config file'} has a key that is no text"
        return SettingError(problem, remedy="In a YAML file, write a label such as 'null' in quotes")
    if foreign is not None:
        group, option, brought = foreign.groups()
        problem = f"{group}={option} sets {brought}, which encoderlab {command} does not have"
        return SettingError(problem, remedy=f"Choose another {group}: encoderlab list {group}")
    return SettingError(" ".join(str(cause).split()), remedy=f"See encoderlab {command} --help")


def _place_in_file(message: str, key: str, config_dir: str | None) -> str:
    """Return the file that Hydra's message names, and its line that states the setting `key`; "" if it names none."""
    file = _file_named(message, config_dir)
    if file is None:
        return ""
    line = _line_of(file, key)
    return f"{file}, line {line}" if line else str(file)


def _line_of(file: Path, setting: str) -> int | None:
    """Return the line, counted from 1, on which a YAML file states a setting such as model.d_model; None if it does
    not.

    The config of a group states its settings without the name of the group.
    """
    root = yaml.compose(file.read_text(encoding="utf-8"), yaml.SafeLoader)
    names = setting.split(".")
    for first in range(len(names)):
        line = _line_in(root, names[first:])
        if line is not None:
            return line
    return None


def _line_in(node: yaml.Node | None, names: list[str]) -> int | None:
    """Return the line of nested keys with these names; None if the node does not have them."""
    line = None
    for name in names:
        if not isinstance(node, yaml.MappingNode):
            return None
        stated = [(key, value) for key, value in node.value if key.value == name]
        if not stated:
            return None
        key, node = stated[-1]
        line = key.start_mark.line + 1
    return line


def _file_named(message: str, config_dir: str | None) -> Path | None:
    """Return the config file that Hydra's message names; None if it names none."""
    named = re.match(r"In '([^']+)': \w+ raised while composing", message)
    return None if named is None else config_file(named[1], config_dir)


def _at(where: str, error: SettingError) -> SettingError:
    """Return the error with the place of what is wrong before it, if that is known."""
    return SettingError(f"{where}: {error.wrong}", allowed=error.allowed, remedy=error.remedy) if where else error


def _missing_option(error: MissingConfigException) -> SettingError:
    """Return the error for an unknown option of a config group, such as `task=sts2`."""
    group, _, name = (error.missing_cfg_file or "").rpartition("/")
    options = [option for option in error.options or [] if not option.endswith("_schema")]
    problem = f"There is no config named {name} in the group {group}"
    near = closest(name, options)
    remedy = f"Did you mean {group}={near}?" if near else "encoderlab list describes each"
    schemas = [f"{option}_schema" for owner, option in SCHEMAS if owner == group]
    if name.endswith("_schema") and schemas:  # which a config of one's own begins with
        options = schemas
        problem = f"There is no schema {name} with which a {group} begins"
        remedy = f"Did you mean {closest(name, schemas) or schemas[0]}?"
    if not group:
        problem = f"There is no config named {name or repr(name)}"
        remedy = "Remove --config-name; choose an experiment with experiment=NAME, also of your own, with --config-dir"
    elif not name:
        problem = f"{group}= names no config"
        remedy = f"Set {group}=NAME"
    elif group.startswith("dataset") and Path(name).suffix:
        path = f"{group}/{name}".removeprefix("dataset/")
        problem = f"There is no dataset named {path}"
        options = []
        remedy = f"For a file of your own, set dataset=files dataset.path={path}"
    elif (group, name) == ("dataset", "pretraining"):
        problem = "task=pretraining has no labels to learn"
        options = []
        remedy = "Run encoderlab pretrain"
    elif group == "dataset" and ("task", name) in SCHEMAS:
        problem = f"task={name} has no data of its own"
        remedy = "Set dataset=files dataset.path=... or dataset=hub dataset.path=..."
    elif (group, name) == ("hydra/sweeper", "optuna"):
        problem = f"{group}={name} is not supported"
        options = []
        remedy = "Add trials=N to search with Optuna"
    elif group == "hydra/launcher" and not options:
        problem = f"hydra/launcher needs {name}"
        remedy = "Run pip install 'encoderlab[parallel]' or 'encoderlab[slurm]'"
    return SettingError(problem, allowed=", ".join(options), remedy=remedy)


def _unknown_key(error: errors.OmegaConfBaseException) -> SettingError:
    """Return the error for an unknown key, with the closest among those of the dataclass that lacks it."""
    schema = error.object_type
    key = str(error.full_key)
    if not isinstance(schema, type) or not (schema in SCHEMAS.values() or issubclass(schema, CommandConfig)):
        return SettingError(f"There is no setting {key}", remedy="See --hydra-help" if key[:6] == "hydra." else "")
    return unknown_setting(key, names_of(schema))


def _bad_value(error: errors.ValidationError) -> SettingError:
    """Return the error for a value of the wrong type, or one that is not among an Enum's names."""
    key = str(error.full_key)
    declared = getattr(error.object_type, "__dataclass_fields__", {})
    name = key.rpartition(".")[2]
    metadata = declared[name].metadata if name in declared else {}
    problem = f"{key}={error.value}: {str(error.msg).partition(chr(10))[0]}"
    return SettingError(problem, allowed=allowed_range(metadata), remedy=metadata.get("help", ""))
