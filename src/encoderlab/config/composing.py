"""Checks a command line while Hydra reads it: its flags, the number of runs, and that no config names code to run.

No config can make Hydra or logging call anything. The size of a YAML file is checked as a stream of events before
anything is built from it (`bounded_yaml`).

Hydra's public `compose` cannot replace the patched loader, because it only returns the config of one run. `-m`,
launchers and `--cfg` need `hydra.main`, which reads its arguments from nowhere but `sys.argv`; sweepers and launchers
then compose each job's config with Hydra's own loader, which a parallel launcher pickles for its workers.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, RangeSweep
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict

from encoderlab.config.schemas import COMMAND_CONFIGS
from encoderlab.errors import SettingError, closest
from encoderlab.system.bounded_yaml import check_yaml

PLUGINS = ("hydra_plugins.", "hydra._internal.core_plugins.")  # where Hydra itself looks for launchers and sweepers
LOGGING = {  # what logging's dictConfig may build: it would call anything named here
    "logging.StreamHandler",
    "logging.FileHandler",
    "logging.NullHandler",
    "logging.Formatter",
    "colorlog.ColoredFormatter",
    "ext://sys.stdout",
    "ext://sys.stderr",
    "${hydra.runtime.output_dir}/${hydra.job.name}.log",
}
MOST_RUNS = 10_000  # Hydra keeps all combinations of values in memory
CHECKED = "is_checked"  # an attribute of the function that composes, while configs are checked
CALLED = ("()", "class", "factory")


def checked_flags(command: str, arguments: list[str]) -> argparse.Namespace:
    """Parse Hydra's flags in the arguments.

    Raises SettingError for an unknown or misused flag, and if a file in the folder of `--config-dir` would become too
    large.
    """
    from hydra._internal.utils import get_args_parser

    parser = get_args_parser()
    flags = [flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")]

    def refuse(message: str) -> NoReturn:
        unknown = re.fullmatch(r"unrecognized arguments: (.*)", message, re.DOTALL)
        if unknown is None:
            raise SettingError(message, remedy=f"See encoderlab {command} --help")
        flag = unknown[1].split(" -")[0]
        name, _, value = flag.lstrip("-").partition("=")
        if name.partition(".")[0] in {declared.name for declared in fields(COMMAND_CONFIGS[command])}:
            raise SettingError(
                f"Unknown flag {flag}", remedy=f"Write settings without dashes: {name}={value or 'VALUE'}"
            )
        near = closest(f"--{name}", flags)
        remedy = f"Did you mean {near}?" if near else "Write settings as name=value, without dashes"
        raise SettingError(f"Unknown flag {flag}", allowed=", ".join(flags), remedy=remedy)

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
    """Raise SettingError for values of `-m` that give no run, or more runs than any sweep could finish."""
    parser, combinations = OverridesParser.create(), 1.0
    for argument in arguments:
        n = _n_values(argument, parser)
        if not n >= 1:
            raise SettingError(
                f"{argument} has no values", remedy="Use range(FROM,TO) with FROM below TO, or values such as 1,2,3"
            )
        combinations *= n
    if combinations > MOST_RUNS:
        raise SettingError(f"These values make more than {MOST_RUNS:,} runs", remedy="Use fewer values in one sweep")


def _n_values(argument: str, parser: OverridesParser) -> float:
    """Return how many values Hydra would try; 1 if that is not known yet."""
    try:
        value = parser.parse_override(argument).value()
    except HydraException:
        return 1
    if isinstance(value, RangeSweep) and value.step and value.start is not None and value.stop is not None:
        values = (value.stop - value.start) / value.step
        return math.ceil(values) if math.isfinite(values) else values
    return len(value.list) if isinstance(value, ChoiceSweep) else 1


class CheckedLoader(ConfigLoaderImpl):
    """Makes the checks of `checked_configs` in the worker of a launcher too, to which Hydra sends its loader pickled."""

    def load_configuration(self, *arguments: Any, **named: Any) -> DictConfig:
        """See Hydra's."""
        if hasattr(ConfigLoaderImpl.load_configuration, CHECKED):
            return super().load_configuration(*arguments, **named)
        with checked_configs(lambda _: None):
            return super().load_configuration(*arguments, **named)


@contextmanager
def checked_configs(check: Callable[[DictConfig], None]) -> Iterator[None]:
    """Pass each config that Hydra composes in this context to `check` before it is used, and refuse one that names code
    to run.

    Hydra calls what `_target_` names in its callbacks, and logging calls what the configs of its handlers name: another
    person's config file could run anything. Raises SettingError.

    Hydra would compose a config a second time just to read `hydra.mode`; here only `-m` starts several runs. A group on
    the command line wins over an experiment, whose single settings of that group Hydra would otherwise keep.
    """
    from hydra._internal import hydra as internal

    compose, get_mode = ConfigLoaderImpl.load_configuration, internal.Hydra.get_mode

    def composed(
        self: ConfigLoaderImpl, config_name: str | None, overrides: list[str], *rest: Any, **named: Any
    ) -> DictConfig:
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
    """Return the groups chosen on the command line, if an experiment is chosen too."""
    choices = config.hydra.runtime.choices
    if choices.get("experiment") is None:
        return []
    typed = [override.partition("=")[0] for override in overrides]
    return [name for name in typed if name in choices and name in config and name != "experiment"]


def _group_of(override: str) -> str:
    """Return the group that an override chooses or changes: model for model=tiny and for ++model.n_layers=3."""
    return override.lstrip("+~").partition("=")[0].partition(".")[0]


def _take(groups: list[str], others: DictConfig, config: DictConfig) -> None:
    """Replace the `groups` in `config` by those of `others`."""
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
    """Yield what logging would look up by name, now or after interpolation, and that is not in LOGGING."""
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
        f"{key}={value} names code to run", allowed=allowed, remedy="Remove it from the command line or the config file"
    )
