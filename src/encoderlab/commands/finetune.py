"""encoderlab finetune: trains a pretrained encoder on a task, and reports how good it is."""

from encoderlab.config.commands import FinetuneConfig
from encoderlab.recipes.finetuning import Finetuning
from encoderlab.runs.run import Run
from encoderlab.runs.train import run_training
from encoderlab.system.processes import SINGLE_PROCESS, Processes


def finetune(config: FinetuneConfig, processes: Processes = SINGLE_PROCESS) -> Run | None:
    """Train as `encoderlab train` does, from the encoder of `init_from`, with a fresh head for the task.

    Raises SettingError, DataError or TrainingError, as `run_training` does.
    """
    return run_training(config, processes, lambda _: Finetuning())
