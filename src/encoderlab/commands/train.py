"""encoderlab train: trains an encoder from a config, and reports how good it is."""

from encoderlab.config.commands import RunConfig
from encoderlab.runs.recipe import Recipe
from encoderlab.runs.run import Run
from encoderlab.runs.train import run_training
from encoderlab.system.processes import SINGLE_PROCESS, Processes


def train(config: RunConfig, processes: Processes = SINGLE_PROCESS) -> Run | None:
    """Train, score, and write the run folder. Anything invalid is refused before the folder is created.

    With `config.dry_run` no folder is written; an estimate of the run is printed. The `processes` share the work.
    Raises SettingError, DataError or TrainingError, each with a remedy.
    """
    return run_training(config, processes, lambda _: Recipe())
