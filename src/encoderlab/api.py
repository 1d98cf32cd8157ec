"""encoderlab from Python, for notebooks and programs: the settings, commands and runs of the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from encoderlab.commands.distill import distill as distill_command
from encoderlab.commands.finetune import finetune as finetune_command
from encoderlab.commands.pretrain import pretrain as pretrain_command
from encoderlab.commands.train import train as train_command
from encoderlab.config import TRAINING_COMMANDS
from encoderlab.config.commands import TRAINING_CONFIGS, DistillConfig, FinetuneConfig, PretrainConfig, RunConfig
from encoderlab.config.composing import composed, parse_command_line
from encoderlab.config.explaining import errors_explained
from encoderlab.config.schemas import settings_from_dict, settings_to_dict
from encoderlab.errors import SettingError, one_line
from encoderlab.models.folder import load_model
from encoderlab.models.model import Model
from encoderlab.runs.run import Run


def compose(*settings: str, command: str = "train") -> RunConfig:
    """Return the settings of a run, from the arguments of `encoderlab train` (or pretrain, finetune, distill).

    They come from the shipped configs, and are dataclasses that `dataclasses.replace` can change. Raises SettingError.
    """
    if command not in TRAINING_COMMANDS:
        raise SettingError(f"command={command} does not start a run", allowed=", ".join(TRAINING_COMMANDS))
    if not all(isinstance(setting, str) for setting in settings):
        problem = f"compose was given {one_line(str(settings))}"
        raise SettingError(problem, allowed='settings as strings, such as "task=sst2"')
    return composed(parse_command_line(TRAINING_CONFIGS[command], settings))


def train(config: RunConfig) -> Run | None:
    """Run `encoderlab train`; return None for a dry run. Raises SettingError, DataError, TrainingError."""
    return _run(train_command, config, RunConfig)


def pretrain(config: PretrainConfig) -> Run | None:
    """Run `encoderlab pretrain`; return None for a dry run. Raises SettingError, DataError, TrainingError."""
    return _run(pretrain_command, config, PretrainConfig)


def finetune(config: FinetuneConfig) -> Run | None:
    """Run `encoderlab finetune`; return None for a dry run. Raises SettingError, DataError, TrainingError."""
    return _run(finetune_command, config, FinetuneConfig)


def distill(config: DistillConfig) -> Run | None:
    """Run `encoderlab distill`; return None for a dry run. Raises SettingError, DataError, TrainingError."""
    return _run(distill_command, config, DistillConfig)


def _run(command: Callable[[Any], Run | None], config: Any, wanted: type[RunConfig]) -> Run | None:
    """Run a command if the config suits it (finetune's has more than train's), with its values' types checked."""
    if type(config) is not wanted:
        remedy = f'Make it with encoderlab.compose("task=...", command="{wanted.command}")'
        raise SettingError(f"The settings are {one_line(repr(config))[:80]}", allowed=wanted.__name__, remedy=remedy)
    with errors_explained(wanted.command):
        checked = settings_from_dict(settings_to_dict(config), wanted)
    return command(checked)


def load(run: str | Path, device: str = "auto") -> Model:
    """Open the model of a finished run, a model folder, a Hugging Face folder or a shipped encoder.

    Raises DataError if it is damaged or missing.
    """
    return load_model(run, device)
