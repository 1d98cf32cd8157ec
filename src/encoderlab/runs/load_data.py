"""Reads the rows of a run, and settles what must be known before they are tokenised: columns and held-out rows."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from encoderlab.config.commands import CommandConfig, RunConfig
from encoderlab.data.data import Data
from encoderlab.data.dataset import DatasetConfig
from encoderlab.data.documents import Documents
from encoderlab.errors import SettingError
from encoderlab.runs.settle import has_few_rows, too_few_to_hold_out
from encoderlab.tasks.pretraining import DocumentTaskConfig
from encoderlab.tasks.task import TaskConfig


def load_data(config: RunConfig, *, scored: bool = True) -> Data | Documents:
    """Return the labelled rows of a task, or the documents that it is learned from; each row is read once.

    If `dataset.validation_fraction` is open, and a tenth of the rows is too few to choose a checkpoint by, all rows are
    trained on, unless the task fits thresholds on held-out rows, or there is no other split although one is to be
    `scored`. Very few rows are all trained on in any case. Raises SettingError or DataError if the dataset cannot be
    read, or nothing can be learned.
    """
    if config.task.of_documents:
        if config.dataset.is_stream and config.training.steps is None and config.training.budget is None:
            problem = "dataset.streaming=true has no end, and neither training.steps nor training.budget is set"
            raise SettingError(problem, remedy="Set training.steps=100000, or training.budget=12h")
        return load_documents(config.dataset, config.task, config)

    data = config.dataset.load(config.cache, config.task.target)
    data = replace(data, may_lack_labels=config.task.of_vectors)
    if _trains_on_all_rows(config, data, scored=scored):
        data = data.without_validation()
    data.check_training_labels()
    return data


def has_rows_to_score(data: Data) -> bool:
    """Return whether there are rows that the model is not trained on."""
    return "validation" in data.by_name or "test" in data.by_name


def load_documents(dataset: DatasetConfig, task: TaskConfig, config: CommandConfig) -> Documents:
    """Return the documents of a dataset, and how `task` reads them."""
    of_documents = cast("DocumentTaskConfig", task)
    language = of_documents.language or dataset.sentence_language
    documents = dataset.documents(config.cache)
    return documents.read_by(language, of_documents.min_characters, of_documents.min_sentences)


def _trains_on_all_rows(config: RunConfig, data: Data, *, scored: bool) -> bool:
    """Return whether the rows that were held out for validation are better trained on."""
    if not config.dataset.leaves_validation_open or data.undivided is None:
        return False
    n_rows = len(data.split("train")) + len(data.split("validation"))
    if too_few_to_hold_out(config.training, n_rows):
        return True
    if config.task.fits_thresholds or (scored and "test" not in data.by_name):
        return False
    return has_few_rows(config.training, config.task, n_rows, len(data.labels))
