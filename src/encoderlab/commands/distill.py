"""encoderlab distill: trains a small student to predict what a larger teacher predicts, and says how close it comes."""

from encoderlab.config.commands import DistillConfig
from encoderlab.recipes.distillation import Distillation
from encoderlab.runs.run import Run
from encoderlab.runs.train import run_training
from encoderlab.system.processes import SINGLE_PROCESS, Processes


def distill(config: DistillConfig, processes: Processes = SINGLE_PROCESS) -> Run | None:
    """Train the student, score it, and write the run folder. Anything invalid is refused before the folder is created.

    The `processes` share the work on documents. Raises SettingError, DataError or TrainingError, each with a remedy.
    """
    return run_training(config, processes, lambda _: Distillation())
