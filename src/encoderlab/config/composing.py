"""From command-line arguments to typed settings: Hydra composes them from YAML, and the rest is checked here.

Hydra's own grammar, flags and configs are used as they are. This module adds that free texts and paths arrive as they
were typed, that flags may stand anywhere, that a user's own files imply a task, that a group on the command line
replaces that of an experiment, and that what Hydra would accept in silence or explain badly is refused in one line.
"""

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf, errors

from encoderlab.config import config_folder
from encoderlab.config.commands import SweepConfig
from encoderlab.config.earlier_run import EXPERIMENT, EarlierRun, earlier_run
from encoderlab.config.schemas import (
    COMMAND_CONFIGS,
    GROUPS,
    SCHEMAS,
    names_of,
    register_schemas,
    to_settings,
    unknown_setting,
)
from encoderlab.config.typed_texts import as_typed, as_typed_in_files
from encoderlab.config.yaml_lines import line_of
from encoderlab.data.formats import is_saved_dataset
from encoderlab.data.remote import is_url
from encoderlab.errors import SettingError, UserError, closest
from encoderlab.settings import allowed_range, quote

OWN_DATA = {"dataset=files", "dataset=hub"}
LABELLED_BY_DEFAULT = ("train", "finetune", "data", "baseline")  # commands whose default task has data of its own
FREE_TEXT = ("text", "text_pair", "label")
LOGARITHMIC = re.compile(r"=log\((.*)\)$")  # our short form of a range in Hydra's grammar
_WITHOUT_GROUPS = re.compile(r"-without(-\w+)+$")  # the end of the name of an experiment that is trimmed


@dataclass(frozen=True)
class CommandLine:
    """A command with its settings in Hydra's grammar, and Hydra's own flags. `sweep` has the settings of -m.

    `trimmed` has the experiments that are registered without the groups of this line, by their names there. `begins`
    has what of an earlier run's settings stays beside those of this line.
    """

    command: str
    overrides: list[str]
    flags: list[str]
    config_dir: str | None = None
    shows_config: bool = False  # --cfg
    sweep: SweepConfig | None = None
    trimmed: Mapping[str, str] = field(default_factory=dict)
    begins: EarlierRun | None = None

    def parsed(self) -> list[Override]:
        """Return the settings, parsed."""
        return OverridesParser.create().parse_overrides(self.overrides)

    def names_data(self) -> bool:
        """Return whether a setting says what to train on."""
        names = {override.key_or_group for override in self.parsed()}
        say_so = ("task", "dataset", "experiment", "resume", "config", "sweep")
        return any(name.partition(".")[0] in say_so for name in names)

    def typed(self, overrides: Sequence[str]) -> list[str]:
        """Return what a run records as typed: its `overrides`, after the flag that says where one's own configs are."""
        return [*([f"--config-dir={self.config_dir}"] if self.config_dir else []), *overrides]

    @property
    def inherited(self) -> list[str]:
        """Return what was typed for the earlier run, and is not set anew."""
        return [] if self.begins is None else list(self.begins.typed or ())

    def for_hydra(self) -> list[str]:
        """Return the settings with the trimmed experiments in the place of those that were typed, or an earlier run."""
        names = {experiment: name for name, experiment in self.trimmed.items()}
        renamed = [_renamed(override, names) for override in self.overrides]
        return renamed if self.begins is None else [*renamed, f"experiment={EXPERIMENT}"]


def parse_command_line(command: str, arguments: Sequence[str]) -> CommandLine:
    """Return the arguments of a command, with flags and settings separated and texts quoted for Hydra's grammar.

    Registers the schemas that they may select. Raises SettingError for what Hydra would misread, accept or explain
    badly.
    """
    with errors_explained(command):
        # Hydra's flags may stand anywhere; all other arguments are settings.
        options, unknown = _parser(command).parse_known_intermixed_args(list(arguments))
        if unknown:
            name = unknown[0].lstrip("-").partition("=")[0]
            known = [option for action in get_args_parser()._actions for option in action.option_strings]
            hint = f"Write settings without dashes: {name}=VALUE. Flags are {' '.join(known)}"
            raise SettingError(f"Unknown flag {unknown[0]}", remedy=hint)
        if options.config_path is not None:
            problem = f"--config-path={options.config_path} would replace the configs that every command needs"
            raise SettingError(problem, remedy="Name the folder of your own configs with --config-dir")
        if options.config_name and options.config_dir:
            _check_primary(command, Path(options.config_dir), options.config_name, options.overrides)
        begins = earlier_run(command, options.overrides)
        flags = []
        rest = list(options.overrides)
        for argument in arguments:
            if rest and argument == rest[0]:
                del rest[0]
            else:
                flags.append(argument)

        # Texts and paths arrive as they were typed, and a user's own files imply a task.
        named = _with_names(command, options.overrides, begins)
        overrides = [_quoted(argument, command, is_sweep=options.multirun) for argument in named]
        # A process that is started again adds resume=auto (cli/main.py), which must not change what the line means.
        names = {override.partition("=")[0] for override in overrides if override != "resume=auto"}
        says_task = names & {"task", "experiment", "resume", "config"}
        if command in LABELLED_BY_DEFAULT and OWN_DATA & {*overrides} and not says_task:
            overrides.append("task=classification")  # the default task, on own data, would be this one by another name

        # The settings of a sweep are ours, and no part of a job's config.
        sweep_overrides = [override for override in overrides if override.partition("=")[0] in names_of(SweepConfig)]
        if sweep_overrides and not options.multirun:
            raise SettingError(f"{sweep_overrides[0]} needs several runs", remedy="Add -m to start them")
        sweep = _sweep_settings(sweep_overrides) if options.multirun else None
        overrides = [override for override in overrides if override not in sweep_overrides]

        # What Hydra would misread or accept in silence is refused before it sees the line.
        if begins is not None:
            begins = begins.beside(overrides, options.config_dir)
        line = CommandLine(command, overrides, flags, options.config_dir, options.cfg is not None, sweep, begins=begins)
        register_schemas(command)
        _check(line)
        return replace(line, trimmed=_groups_over_experiment(line))


def _check_primary(command: str, folder: Path, name: str, overrides: Sequence[str]) -> None:
    """Raise SettingError for a primary config of one's own that is not one of this command's, as a run's is not."""
    file = folder / f"{name}.yaml"
    if not file.is_file():  # Hydra will say so
        return
    stated = OmegaConf.load(file)
    defaults = stated.get("defaults") if isinstance(stated, DictConfig) else None
    if {command, f"{command}_schema"} & {*map(str, defaults or ())}:
        return
    remedy = f"Begin its defaults with {command}"
    if (folder / "environment.json").is_file():
        line = shlex.join(["encoderlab", command, f"config={folder}", *overrides])
        remedy = f"To begin from the settings of this run, run {line}"
    raise SettingError(f"{file} is no config of encoderlab {command}", remedy=remedy)


def _sweep_settings(overrides: list[str]) -> SweepConfig:
    """Return the settings of a sweep. Raises SettingError for one that is out of range."""
    parsed = OverridesParser.create().parse_overrides(overrides)
    values = {override.key_or_group: override.value() for override in parsed}
    settings: Any = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(SweepConfig), values))
    return settings


def run_hydra(line: CommandLine, job: Callable[[DictConfig], Any], program: str = "") -> None:
    """Let Hydra carry out a command line: compose the config, or one for each run of a sweep, and pass it to `job`.

    `program` is what Hydra calls the program; unless it is set, encoderlab with its command.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # makes Hydra raise its errors instead of printing them and exiting
    before = sys.argv
    register_schemas(line.command)
    _register_earlier_run(line)
    sys.argv = [program or f"encoderlab {line.command}", *line.for_hydra(), *line.flags]  # Hydra reads it
    try:
        with errors_explained(line.command, line.config_dir):
            main = hydra.main(config_path=str(config_folder()), config_name=line.command, version_base="1.3")
            main(lambda config: job(as_typed_in_files(config, line.config_dir, line.overrides)))()
    finally:
        sys.argv = before


def composed(line: CommandLine) -> Any:
    """Return the settings of a command line, by Hydra's compose API. Raises SettingError."""
    own = [f"hydra.searchpath=[{quote(f'file://{Path(line.config_dir).resolve()}')}]"] if line.config_dir else []
    _register_earlier_run(line)
    with errors_explained(line.command, line.config_dir):
        with hydra.initialize_config_dir(str(config_folder()), version_base="1.3"):
            config = hydra.compose(line.command, [*line.for_hydra(), *own])
        return to_settings(as_typed_in_files(config, line.config_dir, line.overrides), COMMAND_CONFIGS[line.command])


def _register_earlier_run(line: CommandLine) -> None:
    """Make Hydra know the settings of the run from which those of a line begin, if it names one."""
    if line.begins is not None:
        line.begins.register()


def _parser(command: str) -> Any:
    """Return Hydra's parser of flags, which raises SettingError instead of printing its usage."""

    def refuse(message: str) -> NoReturn:
        raise SettingError(message, remedy=f"See encoderlab {command} --help")

    parser = get_args_parser()
    parser.error = refuse  # type: ignore[method-assign]
    return parser


def _with_names(command: str, arguments: list[str], begins: EarlierRun | None) -> list[str]:
    """Return the arguments with a setting's name before each that has none: a path, or several for `compare`.

    `finetune reviews.csv` reads that file; `predict new.csv` too, and `eval outputs/mine more.csv` opens that run, and
    reads that file; to `data`, a folder is one of texts. A file beside an earlier run is read as that run's was. Raises
    SettingError if two paths would be the same setting.
    """
    settings = names_of(COMMAND_CONFIGS[command])
    bare = []
    named = []
    for argument in arguments:
        is_folder_of_compare = command == "compare" and "=" not in argument
        if is_folder_of_compare or is_url(argument) or os.path.exists(argument):  # noqa: PTH110  Path fails at what no path can be
            bare.append(argument)
        else:
            named.append(argument)
    if command == "compare":
        return [*named, f"runs=[{','.join(map(quote, bare))}]"] if bare else named
    meant: dict[str, str] = {}
    for path in bare:
        is_file = is_url(path) or not Path(path).is_dir() or is_saved_dataset(Path(path))  # or a pipe
        if is_file and "input" in settings:
            name = "input"
        elif "run" in settings and not (is_file and "dataset" in settings) and command != "data":
            name = "run"
        else:
            name = "dataset.path"
        if name in meant:
            raise SettingError(f"{path} and {meant[name]} are both {name}", remedy=f"Give one, as {name}=...")
        meant[name] = path
    reads_files = begins is not None and begins.settings["dataset"]["schema"] == "files"
    files = ["dataset=files"] if "dataset.path" in meant and not reads_files else []
    return [*named, *files, *(f"{name}={path}" for name, path in meant.items())]


def _quoted(argument: str, command: str, *, is_sweep: bool) -> str:
    """Return the argument, its value quoted if Hydra's grammar would misread or cannot read it.

    `text="Dull, dull, dull."` is a sentence and not a list of three values; a path with brackets or blanks is a path;
    and the label 1.10 is not the number 1.1.
    """
    key, equals, value = argument.partition("=")
    if not equals:
        return argument
    if key.lstrip("+") in (*GROUPS, "experiment", "sweep"):  # as in Hydra projects whose defaults name no experiment
        key = key.lstrip("+")
        argument = f"{key}={value}"
    if key not in FREE_TEXT:
        value = as_typed(command, key.lstrip("+"), value, is_sweep=is_sweep)
        argument = LOGARITHMIC.sub(r"=tag(log,interval(\1))", f"{key}={value}")
        with suppress(HydraException):
            OverridesParser.create().parse_override(argument)
            return argument
    return f"{key}={quote(value)}"


def _check(line: CommandLine) -> None:
    """Raise SettingError for settings that Hydra refuses without a remedy, or not at all."""
    settings = names_of(COMMAND_CONFIGS[line.command])
    names = {override.partition("=")[0] for override in line.overrides}
    for override in line.parsed():
        text = override.input_line or ""
        key = override.key_or_group
        group, _, name = key.partition(".")
        if key in ("hydra.run.dir", "hydra.sweep.dir"):
            raise SettingError(f"{text} has no effect", remedy=f"Set {key.split('.')[1]}_dir=... instead")
        if key == "hydra.sweep.subdir":
            remedy = "A job's folder is named by its settings; set sweep_dir=... for the folder of all jobs"
            raise SettingError(f"{text} has no effect", remedy=remedy)
        if key == "hydra.mode":
            remedy = "Add -m to start several runs; leave it out for one"
            raise SettingError(f"{text} does not say how many runs are started", remedy=remedy)
        if group in GROUPS and group not in settings:
            remedy = f"Did you mean {name}?" if name in settings else f"Remove {text}"
            raise SettingError(f"encoderlab {line.command} has no {group} settings", remedy=remedy)
        if line.command == "eval" and group == "dataset" and name and "dataset" not in names:
            raise SettingError(f"{text} needs a dataset", remedy="Set dataset=files or dataset=hub too")
        if override.is_interval_sweep() and not (line.sweep and line.sweep.trials):
            raise SettingError(f"{text} is a range", remedy="Add trials=20 to search it, and -m")
        if override.is_sweep_override() and not line.sweep:
            remedy = "Add -m to run each of them, or write a list as name=[a,b]"
            raise SettingError(f"{text} has several values", remedy=remedy)
        if key == "sweep" and override.value() and not line.sweep:
            raise SettingError(f"{text} needs several runs", remedy="Add -m to start them")


def _groups_over_experiment(line: CommandLine) -> dict[str, str]:
    """Register each experiment of a line without what it states about the groups that the line chooses.

    Hydra lets the single settings of an experiment win over a group on the command line, which should replace them.
    Returns the names that the experiments are registered by, each with the experiment's own.
    """
    by_name = {override.key_or_group: override for override in line.parsed()}
    groups = sorted(GROUPS & by_name.keys())
    if "experiment" not in by_name or not groups:
        return {}
    folders = [config_folder()]
    if line.config_dir:
        folders.append(Path(line.config_dir))
    trimmed = {}
    for experiment in by_name["experiment"].get_value_element_as_str().split(","):
        files = [folder / "experiment" / f"{experiment}.yaml" for folder in folders]
        file = next(filter(Path.is_file, files), None)
        if file is None:  # Hydra will say so
            continue
        stated = OmegaConf.load(file)
        assert isinstance(stated, DictConfig)
        node = {key: stated._get_node(key) for key in stated if key not in groups}
        name = "-".join([experiment, "without", *groups])
        ConfigStore.instance().store(name=name, node=node, group="experiment", package="_global_")
        trimmed[name] = experiment
    return trimmed


def as_entered(overrides: Sequence[str], trimmed: Mapping[str, str]) -> list[str]:
    """Return the settings of one job, as Hydra lists them, with the experiments' own names; an earlier run is named by
    its own setting.
    """
    entered = [override for override in overrides if override != f"experiment={EXPERIMENT}"]
    return [_renamed(override, trimmed) for override in entered]


def _renamed(override: str, names: Mapping[str, str]) -> str:
    """Return the setting; if it is the experiment's, with the names that `names` has for some experiments."""
    key, _, value = override.partition("=")
    if key != "experiment":
        return override
    return f"experiment={','.join(names.get(name, name) for name in value.split(','))}"


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
        return SettingError(f"{error.override} cannot be read", allowed="name=value, or an existing file")
    # What is wrong with a setting is the cause of Hydra's error; in a file, which Hydra's error names, its context.
    reasons = (error.__cause__, error.__context__) if isinstance(error, HydraException) else ()
    cause = next((reason for reason in reasons if isinstance(reason, errors.OmegaConfBaseException)), error)
    where = _place_in_file(str(error), str(getattr(cause, "full_key", "")), config_dir)
    if isinstance(cause, errors.ConfigKeyError | errors.ConfigAttributeError):
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
    named = re.match(r"In '([^']+)': \w+ raised while composing", message)
    if named is None:
        return ""
    config = _WITHOUT_GROUPS.sub("", named[1])
    folders = [config_folder(), *([Path(config_dir)] if config_dir else [])]
    file = next((path for folder in folders if (path := folder / f"{config}.yaml").is_file()), None)
    if file is None:
        return ""
    line = line_of(file, key)
    return f"{file}, line {line}" if line else str(file)


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
    if not group:
        problem = f"There is no config named {name or repr(name)}"
        remedy = "Remove --config-name; choose a recipe with experiment=NAME, also of your own, with --config-dir"
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
    if schema not in [*SCHEMAS.values(), *COMMAND_CONFIGS.values()]:
        return SettingError(f"There is no setting {key}", remedy="See --hydra-help" if key[:6] == "hydra." else "")
    assert isinstance(schema, type)
    return unknown_setting(key, names_of(schema))


def _bad_value(error: errors.ValidationError) -> SettingError:
    """Return the error for a value of the wrong type, or one that is not among an Enum's names."""
    key = str(error.full_key)
    declared = getattr(error.object_type, "__dataclass_fields__", {})
    name = key.rpartition(".")[2]
    metadata = declared[name].metadata if name in declared else {}
    problem = f"{key}={error.value}: {str(error.msg).partition(chr(10))[0]}"
    return SettingError(problem, allowed=allowed_range(metadata), remedy=metadata.get("help", ""))
