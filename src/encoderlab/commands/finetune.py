"""encoderlab finetune: from a pretrained encoder to one that answers a task, and a report of how good it is."""

from __future__ import annotations

from collections.abc import Collection

from encoderlab.command_settings import FinetuneConfig
from encoderlab.commands.train import train_and_report
from encoderlab.runs.folder import RunFolder
from encoderlab.world import ALONE, World


def finetune(config: FinetuneConfig, said: Collection[str] | None = None, world: World = ALONE) -> RunFolder | None:
    """Train as `encoderlab train` does, from the encoder of `init_from`, with a fresh head for the task.

    `said` as for `train`. Raises SettingError, DataError or TrainingError with what the user can do, before the run folder is made.
    """
    return train_and_report(config, "finetune", said, world)
