"""From command-line arguments to typed settings: Hydra composes them from YAML, and the rest is checked here.

Hydra's own grammar, flags and configs are used as they are. This module adds that free texts and paths arrive as they
were typed, that flags may stand anywhere, that a user's own files imply a task, that a group on the command line
replaces that of an experiment, and that what Hydra would accept in silence is refused. Hydra's own program runs only
where it alone knows how: for the jobs of a sweep, to show a config, and to complete a line.
"""

import os
import re
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra._internal.utils import _run_hydra, get_args_parser
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.version import setbase
from omegaconf import DictConfig, OmegaConf

from encoderlab.config import config_file, config_folder
from encoderlab.config.commands import CommandConfig, SweepConfig
from encoderlab.config.earlier_run import EXPERIMENT, EarlierRun, earlier_run
from encoderlab.config.explaining import errors_explained
from encoderlab.config.schemas import GROUPS, names_of, register_schemas, to_settings
from encoderlab.config.typed_texts import as_typed, as_typed_in_files, read_mappings
from encoderlab.errors import SettingError
from encoderlab.settings import quote
from encoderlab.system.messages import say
from encoderlab.tables.formats import is_saved_dataset
from encoderlab.tables.remote import is_url

OWN_DATA = {"dataset=files", "dataset=hub"}
LABELLED_BY_DEFAULT = ("train", "finetune", "data", "baseline")  # commands whose default task has data of its own
FILE_SETTINGS = {f"dataset.{name}" for name in ("path", "train", "validation", "test")}
FREE_TEXT = ("text", "text_pair", "label")
LOGARITHMIC = re.compile(r"=log\((.*)\)$")  # our short form of a range in Hydra's grammar


@dataclass(frozen=True)
class CommandLine:
    """The settings of a command, which `schema` declares, in Hydra's grammar, and Hydra's own `flags`.

    `sweep` has the settings of -m, and `begins` what of an earlier run's settings stays beside those of this line.
    """

    schema: type[CommandConfig]
    overrides: list[str]
    flags: Namespace
    sweep: SweepConfig | None = None
    begins: EarlierRun | None = None

    @property
    def command(self) -> str:
        """Return the name of the command."""
        return self.schema.command

    @property
    def config_dir(self) -> str | None:
        """Return the folder of the user's own configs."""
        return self.flags.config_dir

    @property
    def shows(self) -> bool:
        """Return whether Hydra only shows something: the config that would run, its search path, or its own help."""
        flags = self.flags
        return bool(flags.cfg or flags.info or flags.hydra_help or flags.resolve)  # resolve: only beside --cfg

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
        """Return the settings, with those of an earlier run as an experiment, and with the folder of own configs."""
        experiments = [] if self.begins is None else [f"experiment={EXPERIMENT}"]
        folders = [quote(f"file://{Path(self.config_dir).resolve()}")] if self.config_dir else []
        return [*self.overrides, *experiments, *(f"hydra.searchpath=[{folder}]" for folder in folders)]


def parse_command_line(schema: type[CommandConfig], arguments: Sequence[str]) -> CommandLine:
    """Return the arguments of a command, with flags and settings separated and texts quoted for Hydra's grammar.

    Raises SettingError for what Hydra would misread, accept or explain badly.
    """
    command = schema.command
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
        if options.experimental_rerun is not None:
            problem = f"--experimental-rerun={options.experimental_rerun} is not supported"
            raise SettingError(problem, remedy="To begin from the settings of a run, set config=FOLDER")
        if options.config_dir is not None and not Path(options.config_dir).is_dir():
            problem = f"--config-dir={options.config_dir} is not a folder"
            raise SettingError(problem, remedy="Name the folder of your own configs")
        if options.config_name and options.config_dir:
            _check_primary(command, Path(options.config_dir), options.config_name, options.overrides)
        begins = earlier_run(command, options.overrides)

        # Texts and paths arrive as they were typed, and a user's own files imply a task.
        named = _with_names(schema, options.overrides, begins)
        overrides = [_quoted(argument, schema, is_sweep=options.multirun) for argument in named]
        # A process that is started again adds resume=auto (cli/main.py), which must not change what the line means.
        names = {override.partition("=")[0] for override in overrides if override != "resume=auto"}
        if command == "eval" and names & FILE_SETTINGS and "dataset" not in names:
            overrides.append("dataset=files")
        says_task = names & {"task", "experiment", "resume", "config"}
        if command in LABELLED_BY_DEFAULT and OWN_DATA & {*overrides} and not says_task:
            overrides.append("task=classification")  # the default task, on own data, would be this one by another name

        _notice_repeated(overrides)

        # The settings of a sweep are ours, and no part of a job's config.
        sweep_overrides = [override for override in overrides if override.partition("=")[0] in names_of(SweepConfig)]
        if sweep_overrides and not options.multirun:
            raise SettingError(f"{sweep_overrides[0]} needs several runs", remedy="Add -m to start them")
        sweep = _sweep_settings(sweep_overrides) if options.multirun else None
        overrides = [override for override in overrides if override not in sweep_overrides]

        # What Hydra would misread or accept in silence is refused before it sees the line.
        if begins is not None:
            begins = begins.beside(overrides, options.config_dir)
        line = CommandLine(schema, overrides, options, sweep, begins)
        _check(line)
        return line


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


def composed(line: CommandLine) -> Any:
    """Return the settings of a command line, by Hydra's compose API. Raises SettingError."""
    with errors_explained(line.command, line.config_dir), _known_to_hydra(line):
        name = line.command if line.flags.config_name is None else line.flags.config_name
        with hydra.initialize_config_dir(str(config_folder()), version_base="1.3"):
            config = hydra.compose(name, line.for_hydra())
    return settings_of(config, line)


def settings_of(config: DictConfig, line: CommandLine) -> Any:
    """Return the settings in a config that Hydra has composed for a line. Raises SettingError."""
    with errors_explained(line.command, line.config_dir):
        config = as_typed_in_files(config, line.config_dir, line.overrides)
        read_mappings(config)
        return to_settings(config, line.schema)


def run_hydra(line: CommandLine, job: Callable[[DictConfig], Any]) -> None:
    """Let Hydra's own program carry out what it alone can: the jobs of a sweep, each by calling `job` with its config;
    showing a config; completing a line.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # makes Hydra raise its errors instead of printing them and exiting
    flags = Namespace(**vars(line.flags) | {"overrides": line.for_hydra(), "config_dir": None})
    setbase("1.3")
    with errors_explained(line.command, line.config_dir), _known_to_hydra(line):
        _run_hydra(flags, get_args_parser(), job, str(config_folder()), line.command)


@contextmanager
def _known_to_hydra(line: CommandLine) -> Iterator[None]:
    """Let Hydra find the schemas, the experiments of a line as it uses them, and an earlier run's settings."""
    Plugins.instance().register(_RegisteredFirst)
    register_schemas(line.schema)
    for name, experiment in _experiments(line):
        ConfigStore.instance().store(name=name, node=experiment, group="experiment", package="_global_")
    try:
        yield
    finally:
        ConfigStore.instance().repo.pop("experiment", None)


class _RegisteredFirst(SearchPathPlugin):
    """Lets Hydra find a config that is registered with it before a file of the same name."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Put what is registered in front."""
        search_path.prepend("schema", "structured://")


def _experiments(line: CommandLine) -> Iterator[tuple[str, DictConfig]]:
    """Yield the experiments of a line by their names, without what they state about the groups that the line chooses;
    or an earlier run.

    Hydra lets the single settings of an experiment win over a group on the command line, which should replace them.
    """
    if line.begins is not None:
        yield EXPERIMENT, line.begins.as_experiment()
    by_name = {override.key_or_group: override for override in line.parsed()}
    groups = GROUPS & by_name.keys()
    if "experiment" not in by_name or not groups:
        return
    for name in by_name["experiment"].get_value_element_as_str().split(","):
        file = config_file(f"experiment/{name}", line.config_dir)
        if file is not None:  # otherwise Hydra says so
            stated = OmegaConf.load(file)
            assert isinstance(stated, DictConfig)
            yield name, OmegaConf.create({key: stated._get_node(key) for key in stated if key not in groups})


def _parser(command: str) -> ArgumentParser:
    """Return Hydra's parser of flags, which raises SettingError instead of printing its usage."""

    def refuse(message: str) -> NoReturn:
        raise SettingError(message, remedy=f"See encoderlab {command} --help")

    parser = get_args_parser()
    parser.error = refuse  # type: ignore[method-assign]
    return parser


def _with_names(schema: type[CommandConfig], arguments: list[str], begins: EarlierRun | None) -> list[str]:
    """Return the arguments with a setting's name before each that has none: a path, or several for `compare`.

    `finetune reviews.csv` reads that file; `predict new.csv` too, and `eval outputs/mine more.csv` opens that run, and
    reads that file; to `data`, a folder is one of texts. A file beside an earlier run is read as that run's was. Raises
    SettingError if two paths would be the same setting.
    """
    command = schema.command
    settings = names_of(schema)
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


def _quoted(argument: str, schema: type[CommandConfig], *, is_sweep: bool) -> str:
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
        value = as_typed(schema, key.lstrip("+"), value, is_sweep=is_sweep)
        argument = LOGARITHMIC.sub(r"=tag(log,interval(\1))", f"{key}={value}")
        with suppress(HydraException):
            OverridesParser.create().parse_override(argument)
            return argument
    return f"{key}={quote(value)}"


def _notice_repeated(overrides: Sequence[str]) -> None:
    """Say which settings stand twice with different values, of which Hydra takes the last. Raises SettingError for a
    text: two of them are not two texts to read.
    """
    values: dict[str, dict[str, None]] = {}
    for override in overrides:
        name, _, value = override.partition("=")
        values.setdefault(name.lstrip("+"), {}).pop(value, None)
        values[name.lstrip("+")][value] = None  # the last one that was typed is the last
    for name, typed in values.items():
        if len(typed) < 2:
            continue
        both = " and ".join(f"{name}={value}" for value in typed)
        if name in FREE_TEXT:
            raise SettingError(f"{both} are given together", allowed="one text, or a file of them with input=FILE")
        say(f"{both} are both given: the last counts")


def _check(line: CommandLine) -> None:
    """Raise SettingError for settings that Hydra refuses without a remedy, or not at all."""
    settings = names_of(line.schema)
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
