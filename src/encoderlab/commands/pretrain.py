"""encoderlab pretrain: trains an encoder on documents to predict masked tokens and next sentences."""

from encoderlab.commands.train import run_training
from encoderlab.config.commands import PretrainConfig
from encoderlab.runs.run import Run
from encoderlab.system.processes import SINGLE_PROCESS, Processes


def pretrain(config: PretrainConfig, processes: Processes = SINGLE_PROCESS) -> Run | None:
    """Pretrain, score on held-out documents, and write the run folder. Anything invalid is refused before the folder is
    created.

    The `processes` share the work. Raises SettingError, DataError or TrainingError, each with a remedy.
    """
    return run_training(config, processes)
