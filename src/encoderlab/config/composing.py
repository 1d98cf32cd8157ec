"""From command-line arguments to typed settings: Hydra composes them from YAML, and the rest is checked here.

Hydra's own grammar, flags and configs are used as they are. Added are: free texts and paths arrive as they were typed,
flags may stand anywhere, files of one's own imply a task, a group on the command line replaces that of an experiment,
and a key that no dataclass declares is refused (Hydra accepts `+model.n_layer=2`).
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import hydra
import yaml
from hydra._internal.utils import get_args_parser
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue

from encoderlab.config import config_folder
from encoderlab.config.commands import SweepConfig
from encoderlab.config.errors import explained, required_setting, unknown_setting
from encoderlab.config.schemas import COMMAND_CONFIGS, GROUPS, SCHEMAS, names_of, register_schemas
from encoderlab.errors import SettingError, closest
from encoderlab.settings import brought_along

FOLDERS = {"compare": "runs"}  # commands that take folders as plain arguments, and the setting that these become
OWN_DATA = {"dataset=files", "dataset=hub"}
LABELLED_BY_DEFAULT = ("train", "finetune", "data", "baseline")  # commands whose default task has data of its own
MAPPINGS = ("task.class_weights", "task.thresholds", "dataset.label_names")
FREE_TEXT = ("text", "text_pair", "label", "unsure")
# The recipe's batch, and with it the result, stays the same: the machine decides only the number of micro-batches. (The
# setting is not a union of number and text because OmegaConf 2.3 cannot merge one, see its issue 1087.)
ALIASES = {
    "training.batch_size=auto": "training.accumulate=null",
    "training.accumulate=auto": "training.accumulate=null",
    "training.epochs=auto": "training.epochs=null",
    "training.learning_rate=auto": "training.learning_rate=null",
    "model.max_length=auto": "model.max_length=null",
}
LOGARITHMIC = re.compile(r"=log\((.*)\)$")  # our short form of a range in Hydra's grammar
Typed = TypeVar("Typed")


@dataclass(frozen=True)
class CommandLine:
    """A command with its settings in Hydra's grammar, and Hydra's own flags. `sweep` has the settings of -m."""

    command: str
    overrides: list[str]
    flags: list[str]
    config_dir: str | None = None
    shows_config: bool = False  # --cfg
    sweep: SweepConfig | None = None

    def parsed(self) -> list[Override]:
        """Return the settings, parsed."""
        return OverridesParser.create().parse_overrides(self.overrides)


def read_line(command: str, arguments: Sequence[str]) -> CommandLine:
    """Return the arguments of a command, with flags and settings separated and texts quoted for Hydra's grammar.

    Registers the schemas that they may select. Raises SettingError for what Hydra would misread, accept or explain
    badly.
    """
    with explained(command):
        options, unknown = _parser(command).parse_known_intermixed_args(list(arguments))
        if unknown:
            raise _unknown_flag(unknown[0], command)
        flags, rest = [], list(options.overrides)
        for argument in arguments:
            if rest and argument == rest[0]:
                del rest[0]
            else:
                flags.append(argument)
        overrides = [_quoted(ALIASES.get(one, one)) for one in _with_folders_as_setting(command, options.overrides)]
        if _has_own_data_without_task(command, overrides):
            overrides.append("task=classification")
        of_sweep = [one for one in overrides if one.partition("=")[0] in names_of(SweepConfig)]
        if of_sweep and not options.multirun:
            raise SettingError(f"{of_sweep[0]} needs several runs", remedy="Add -m to start them")
        sweep = _sweep_settings(of_sweep) if options.multirun else None
        overrides = [one for one in overrides if one not in of_sweep]
        line = CommandLine(command, overrides, flags, options.config_dir, options.cfg is not None, sweep)
        register_schemas(command)
        _check(line)
        return replace(line, overrides=_groups_over_experiment(line))


def run_hydra(line: CommandLine, job: Callable[[DictConfig], Any]) -> None:
    """Let Hydra carry out a command line: compose the config, or one for each run of a sweep, and pass it to `job`."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # makes Hydra raise its errors instead of printing them and exiting
    sys.argv = [f"encoderlab {line.command}", *line.overrides, *line.flags]
    with explained(line.command):
        hydra.main(config_path=str(config_folder()), config_name=line.command, version_base="1.3")(job)()


def composed(line: CommandLine) -> Any:
    """Return the settings of a command line, by Hydra's compose API. Raises SettingError."""
    own = [f"hydra.searchpath=[{quote(f'file://{Path(line.config_dir).resolve()}')}]"] if line.config_dir else []
    with explained(line.command):
        with hydra.initialize_config_dir(str(config_folder()), version_base="1.3"):
            config = hydra.compose(line.command, [*line.overrides, *own])
        return typed(config, COMMAND_CONFIGS[line.command])


def _sweep_settings(overrides: list[str]) -> SweepConfig:
    values = {one.key_or_group: one.value() for one in OverridesParser.create().parse_overrides(overrides)}
    return cast("SweepConfig", OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(SweepConfig), values)))


def _parser(command: str) -> Any:
    """Return Hydra's parser of flags, which raises SettingError instead of printing its usage."""

    def refuse(message: str) -> NoReturn:
        raise SettingError(message, remedy=f"See encoderlab {command} --help")

    parser = get_args_parser()
    parser.error = refuse  # type: ignore[method-assign]
    return parser


def _unknown_flag(flag: str, command: str) -> SettingError:
    name, _, value = flag.lstrip("-").partition("=")
    if name.partition(".")[0] in names_of(COMMAND_CONFIGS[command]):
        return SettingError(f"Unknown flag {flag}", remedy=f"Write settings without dashes: {name}={value or 'VALUE'}")
    flags = [option for action in get_args_parser()._actions for option in action.option_strings]
    near = closest(f"--{name}", flags)
    remedy = f"Did you mean {near}?" if near else "Write settings as name=value, without dashes"
    return SettingError(f"Unknown flag {flag}", remedy=remedy)


def _with_folders_as_setting(command: str, overrides: list[str]) -> list[str]:
    """Return `compare a b output=c` as `compare output=c runs=[a,b]`.

    A folder is an argument without an equals sign, or one that exists, because a path may contain one.
    """
    if command not in FOLDERS:
        return overrides
    folders = [one for one in overrides if "=" not in one or _exists(one)]
    others = [one for one in overrides if one not in folders]
    return [*others, f"{FOLDERS[command]}=[{','.join(map(quote, folders))}]"] if folders else overrides


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # too long, or with a null character
        return False


def _has_own_data_without_task(command: str, overrides: list[str]) -> bool:
    """Return whether own data is chosen without a task: the default task would only lend it its name."""
    chosen = {one.partition("=")[0] for one in overrides}
    has_own_data = command in LABELLED_BY_DEFAULT and bool(OWN_DATA & set(overrides))
    return has_own_data and not chosen & {"task", "experiment", "resume"}


def _quoted(argument: str) -> str:
    """Return the argument, its value quoted if Hydra's grammar would misread or cannot read it.

    `text="Dull, dull, dull."` is a sentence and not a list of three values; a path with brackets or blanks is a path.
    """
    key, equals, value = argument.partition("=")
    if not equals:
        return argument
    if key not in FREE_TEXT:
        argument = LOGARITHMIC.sub(r"=tag(log,interval(\1))", argument)
        with suppress(HydraException):
            OverridesParser.create().parse_override(argument)
            return argument
    return f"{key}={quote(value)}"


def quote(value: str) -> str:
    """Return the value as a quoted string of Hydra's grammar that reads back as exactly `value`, without
    interpolation.
    """
    value = _uninterpolated(value)
    value = re.sub(r"(\\*)('|$)", lambda match: match[1] * 2 + ("\\'" if match[2] else ""), value)
    return f"'{value}'"


def _uninterpolated(value: str) -> str:
    """Return the value with `${` escaped by a backslash, so that OmegaConf reads back exactly `value`."""
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", value)


def _check(line: CommandLine) -> None:
    """Raise SettingError for settings that Hydra refuses without a remedy, or not at all."""
    schema, command = COMMAND_CONFIGS[line.command], line.command
    chosen = {one.partition("=")[0] for one in line.overrides}
    for override in line.parsed():
        text, key = override.input_line or "", override.key_or_group
        group, _, name = key.partition(".")
        if key in GROUPS and not override.is_sweep_override() and override.value() in (None, ""):
            raise SettingError(f"{text} names no config", remedy=f"Use a name from encoderlab list {key}")
        if group in brought_along(schema) or (group in GROUPS and group not in names_of(schema)):
            remedy = f"Did you mean {name}?" if name in names_of(schema) else f"Remove {text}"
            raise SettingError(f"encoderlab {command} has no {group} settings", remedy=remedy)
        if command == "eval" and group == "dataset" and name and "dataset" not in chosen:
            raise SettingError(f"{text} needs a dataset", remedy="Set dataset=files or dataset=hub too")
        if override.is_interval_sweep() and not (line.sweep and line.sweep.trials):
            raise SettingError(f"{text} is a range", remedy="Add trials=20 to search it, and -m")
        if override.is_sweep_override() and not line.sweep:
            remedy = "Add -m to run each of them, or write a list as name=[a,b]"
            raise SettingError(f"{text} has several values", remedy=remedy)
        if key == "sweep" and override.value() and not line.sweep:
            raise SettingError(f"{text} needs several runs", remedy="Add -m to start them")
        if override.is_range_sweep() and next(iter(override.sweep_string_iterator()), None) is None:
            raise SettingError(f"{text} has no values", remedy="Use range(FROM,TO) with FROM below TO, or 1,2,3")


def _groups_over_experiment(line: CommandLine) -> list[str]:
    """Return the settings of a line on which a group that is chosen replaces what an experiment states about it.

    Hydra lets the single settings of an experiment win over the chosen group. So the experiment is registered again,
    without those groups and under another name.
    """
    chosen = {override.key_or_group: override for override in line.parsed()}
    groups = sorted(GROUPS & chosen.keys())
    if "experiment" not in chosen or not groups:
        return line.overrides
    names = []
    for name in str(chosen["experiment"].get_value_element_as_str()).split(","):
        folders = [config_folder(), *([Path(line.config_dir)] if line.config_dir else [])]
        file = next((file for one in folders if (file := one / "experiment" / f"{name}.yaml").is_file()), None)
        if file is not None:
            stated = OmegaConf.load(file)
            assert isinstance(stated, DictConfig)
            node = {key: stated._get_node(key) for key in stated if key not in groups}
            name = "-".join([name, "without", *groups])
            ConfigStore.instance().store(name=name, node=node, group="experiment", package="_global_")
        names.append(name)
    others = [one for one in line.overrides if not one.startswith("experiment=")]
    return [*others, f"experiment={','.join(names)}"]


def typed(config: DictConfig, schema: type[Typed]) -> Typed:
    """Return the config as an instance of `schema`, with every range checked.

    Raises SettingError for a key the schema lacks (Hydra accepts `+model.n_layer=2`), for a required setting that is
    missing, and for a value out of range.
    """
    for key, owner in _keys(config, schema):
        if key.rpartition(".")[2] not in names_of(owner):
            raise unknown_setting(_to_the_end(config, key), names_of(owner))
    _read_mappings(config)
    try:
        return cast("Typed", OmegaConf.to_object(config))  # guaranteed by its schema
    except MissingMandatoryValue as error:
        raise required_setting(str(error.full_key)) from None


def _keys(config: DictConfig, schema: type, prefix: str = "") -> Iterator[tuple[str, type]]:
    """Yield every key of the config with dots, and the dataclass that should declare it."""
    for name in config:
        yield f"{prefix}{name}", schema
        value = config._get_node(name)
        if isinstance(value, DictConfig) and is_dataclass(node_type := OmegaConf.get_type(config, cast("str", name))):
            yield from _keys(value, node_type, f"{prefix}{name}.")


def _to_the_end(config: DictConfig, key: str) -> str:
    """Return the key with the first names inside its value, because a misspelt `+trainig.epochs=1` creates a group."""
    inside = OmegaConf.select(config, key, throw_on_missing=False, throw_on_resolution_failure=False)
    while isinstance(inside, DictConfig) and len(inside):
        name = next(iter(inside))
        key, inside = f"{key}.{name}", inside._get_node(name)
    return key


def _read_mappings(config: DictConfig) -> None:
    """Replace the mappings in `config` that have arrived as texts.

    Hydra's grammar has no quoted keys and no letters beyond ASCII in them: it cannot read `task.class_weights={größer:
    5}`. They are read as JSON or else as YAML, in which each word is a text: `no` is a label.
    """
    for name in MAPPINGS:
        text = OmegaConf.select(config, name, throw_on_missing=False, throw_on_resolution_failure=False)
        if not isinstance(text, str) or not text.startswith("{"):
            continue
        with suppress(ValueError, yaml.YAMLError):  # otherwise it stays a text, which the setting refuses
            try:
                mapping = json.loads(text)
            except ValueError:
                mapping = yaml.load(text, yaml.BaseLoader)
                if set(mapping.values()) == {""}:  # Hydra needs no blank after a colon, and YAML does
                    mapping = yaml.load(text.replace(":", ": "), yaml.BaseLoader)
            if name.startswith("task."):
                mapping = {label: _number_or_text(value) for label, value in mapping.items()}
            OmegaConf.update(config, name, mapping)


def _number_or_text(value: Any) -> Any:
    with suppress(TypeError, ValueError):
        return float(value)
    return value


def settings_from_dict(plain: dict[str, Any], schema: type[Typed]) -> Typed:
    """Return the settings that `settings_to_dict` wrote, with every type and range checked.

    Raises SettingError for an unknown schema or key, or a bad value.
    """
    config = OmegaConf.structured(schema)
    for name, value in _literal(plain).items():
        if isinstance(value, dict):
            group = SCHEMAS.get((name, value.get("schema", "")))
            if group is None:
                raise SettingError(f"{name} has no schema {value.get('schema')}")
            value = OmegaConf.merge(OmegaConf.structured(group), {k: v for k, v in value.items() if k != "schema"})
        if name not in names_of(schema):
            raise unknown_setting(name, names_of(schema))
        config[name] = value
    return typed(config, schema)


def _literal(value: Any) -> Any:
    """Return the value escaped for OmegaConf, so that text is never interpolated."""
    if isinstance(value, dict):
        return {name: _literal(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_literal(inner) for inner in value]
    return _uninterpolated(value) if isinstance(value, str) else value
