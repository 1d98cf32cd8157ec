"""encoderlab pretrain: trains an encoder on documents to predict masked tokens and next sentences."""

from encoderlab.config.commands import PretrainConfig, RunConfig
from encoderlab.recipes.contrastive import ContrastivePretraining
from encoderlab.runs.recipe import Recipe
from encoderlab.runs.run import Run
from encoderlab.runs.train import run_training
from encoderlab.system.processes import SINGLE_PROCESS, Processes


def pretrain(config: PretrainConfig, processes: Processes = SINGLE_PROCESS) -> Run | None:
    """Pretrain, score on held-out documents, and write the run folder. Anything invalid is refused before the folder is
    created.

    The `processes` share the work. Raises SettingError, DataError or TrainingError, each with a remedy.
    """
    return run_training(config, processes, _recipe_for)


def _recipe_for(config: RunConfig) -> Recipe:
    """Return the recipe of a run with these settings: a run that is resumed may have another task than was typed."""
    return ContrastivePretraining() if config.task.of_vectors else Recipe()
