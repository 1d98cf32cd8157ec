"""What is checked while Hydra reads a command line: its flags, the number of runs, and that no config names code to be run.

No config can have Hydra or logging call anything, and YAML is counted as a stream of events before anything is built from it
(`bounded_yaml`).
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, RangeSweep
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict

from encoderlab.errors import SettingError, closest
from encoderlab.system.bounded_yaml import check_yaml

PLUGINS = ("hydra_plugins.", "hydra._internal.core_plugins.")  # where Hydra itself looks for launchers and sweepers
LOGGING = {  # what logging's dictConfig may make: it would call anything that is named here
    "logging.StreamHandler",
    "logging.FileHandler",
    "logging.NullHandler",
    "logging.Formatter",
    "colorlog.ColoredFormatter",
    "ext://sys.stdout",
    "ext://sys.stderr",
    "${hydra.runtime.output_dir}/${hydra.job.name}.log",
}
MOST_RUNS = 10_000  # Hydra holds all combinations of values at once
CHECKED = "is_checked"  # an attribute of the function that composes, while configs are checked
CALLED = ("()", "class", "factory")


def checked_flags(command: str, arguments: list[str]) -> argparse.Namespace:
    """What Hydra makes of the arguments.

    Raises SettingError at a flag that it lacks, or that is used wrongly, and where a file in the folder of `--config-dir` would
    become too large.
    """
    from hydra._internal.utils import get_args_parser

    parser = get_args_parser()
    flags = [flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")]

    def refuse(message: str) -> NoReturn:
        unknown = re.fullmatch(r"unrecognized arguments: (.*)", message, re.DOTALL)
        if unknown is None:
            raise SettingError(message, remedy=f"See encoderlab {command} --help")
        flag = unknown[1].split(" -")[0]
        near = closest(flag.partition("=")[0], flags)
        remedy = f"Did you mean {near}?" if near else "Settings are typed as name=value, without dashes"
        raise SettingError(f"There is no flag {flag}", allowed=", ".join(flags), remedy=remedy)

    parser.error = refuse  # type: ignore[method-assign]
    flags_typed = parser.parse_args(arguments)
    for file in sorted(Path(flags_typed.config_dir).rglob("*.yaml")) if flags_typed.config_dir else []:
        _refuse_large(file)
    return flags_typed


def _refuse_large(file: Path) -> None:
    try:
        check_yaml(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingError(f"The config file {file} cannot be read: {error}") from None


def check_combinations(arguments: list[str]) -> None:
    """Refuse values for `-m` that make no run, or more than any sweep will see the end of. Raises SettingError."""
    parser, combinations = OverridesParser.create(), 1.0
    for argument in arguments:
        n = _n_values(argument, parser)
        if not n >= 1:
            raise SettingError(f"{argument} has no value", remedy="Use range(FROM,TO) with FROM below TO, or values as 1,2,3")
        combinations *= n
    if combinations > MOST_RUNS:
        raise SettingError(f"The values make more than {MOST_RUNS:,} runs", remedy="Try fewer of them in one sweep")


def _n_values(argument: str, parser: OverridesParser) -> float:
    """How many values Hydra would try, 1 where that is not known yet."""
    try:
        value = parser.parse_override(argument).value()
    except HydraException:
        return 1
    if isinstance(value, RangeSweep) and value.step and value.start is not None and value.stop is not None:
        values = (value.stop - value.start) / value.step
        return math.ceil(values) if math.isfinite(values) else values
    return len(value.list) if isinstance(value, ChoiceSweep) else 1


class CheckedLoader(ConfigLoaderImpl):
    """Composes in the worker of a launcher, which gets it pickled, as `checked_configs` lets Hydra compose in the main process."""

    def load_configuration(self, *arguments: Any, **named: Any) -> DictConfig:
        """See Hydra's."""
        if hasattr(ConfigLoaderImpl.load_configuration, CHECKED):
            return super().load_configuration(*arguments, **named)
        with checked_configs(lambda _: None):
            return super().load_configuration(*arguments, **named)


@contextmanager
def checked_configs(check: Callable[[DictConfig], None]) -> Iterator[None]:
    """Let Hydra compose configs in here, and `check` each before anything in it is used; refuse what names code to run.

    Hydra calls what `_target_` names in its callbacks, and logging calls what the configs of its handlers name: a config file of
    somebody else could run anything. Raises SettingError.

    Hydra would compose a config a second time just to read `hydra.mode`; here `-m` alone starts several runs. A group that is typed
    wins over an experiment, which Hydra lets change single settings of it.
    """
    from hydra._internal import hydra as internal

    compose, get_mode = ConfigLoaderImpl.load_configuration, internal.Hydra.get_mode

    def composed(self: ConfigLoaderImpl, config_name: str | None, overrides: list[str], *rest: Any, **named: Any) -> DictConfig:
        config = compose(self, config_name, overrides, *rest, **named)
        if groups := _typed_beside_experiment(config, overrides):
            of_groups = [override for override in overrides if _group_of(override) in groups]
            _take(groups, compose(self, config_name, of_groups, *rest, **named), config)
        _refuse_code(config.hydra)
        check(config)
        return config

    setattr(composed, CHECKED, True)
    ConfigLoaderImpl.load_configuration, internal.Hydra.get_mode = composed, lambda *_, **__: None
    internal.ConfigLoaderImpl = CheckedLoader  # pyright: ignore[reportPrivateImportUsage]
    try:
        yield
    finally:
        ConfigLoaderImpl.load_configuration, internal.Hydra.get_mode = compose, get_mode
        internal.ConfigLoaderImpl = ConfigLoaderImpl  # pyright: ignore[reportPrivateImportUsage]


def _typed_beside_experiment(config: DictConfig, overrides: list[str]) -> list[str]:
    """The groups whose option is typed, where an experiment is chosen too."""
    choices = config.hydra.runtime.choices
    if choices.get("experiment") is None:
        return []
    typed = [override.partition("=")[0] for override in overrides]
    return [name for name in typed if name in choices and name in config and name != "experiment"]


def _group_of(override: str) -> str:
    """The group that an override chooses, or of which it sets something: model for model=tiny and for ++model.n_layers=3."""
    return override.lstrip("+~").partition("=")[0].partition(".")[0]


def _take(groups: list[str], others: DictConfig, config: DictConfig) -> None:
    """Put the `groups` of the `others` into `config`."""
    with open_dict(config):
        for name in groups:
            config[name] = others[name]


def _refuse_code(hydra: DictConfig) -> None:
    plain = OmegaConf.to_container(hydra, resolve=False)
    assert isinstance(plain, dict)
    for plugin in ("launcher", "sweeper"):
        target = (plain.get(plugin) or {}).get("_target_", PLUGINS[0])
        if not str(target).startswith(PLUGINS):
            raise _names_code(f"hydra.{plugin}._target_", target, "an installed launcher or sweeper of Hydra")
    for name, callback in (plain.get("callbacks") or {}).items():
        raise _names_code(f"hydra.callbacks.{name}", callback, "no callbacks")
    for group in ("job_logging", "hydra_logging"):
        for key, value in _called(plain.get(group), f"hydra.{group}"):
            raise _names_code(key, value, ", ".join(sorted(LOGGING)))


def _called(node: Any, key: str) -> Iterator[tuple[str, Any]]:
    """What logging would look up by name, or could once it is interpolated, and is not among LOGGING."""
    if isinstance(node, str) and ("://" in node or "${" in node) and node not in LOGGING:
        yield key, node
    elif isinstance(node, dict):
        for name, value in node.items():
            if name in CALLED and value not in [*LOGGING]:
                yield f"{key}.{name}", value
            yield from _called(value, f"{key}.{name}")
    elif isinstance(node, list):
        for place, value in enumerate(node):
            yield from _called(value, f"{key}.{place}")


def _names_code(key: str, value: object, allowed: str) -> SettingError:
    return SettingError(
        f"{key}={value} names code to be run", allowed=allowed, remedy="Take it out of the command line, or of the config file"
    )
