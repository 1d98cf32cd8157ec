"""The hall where the rooms meet: builds everything a run needs from its config, or opens it again from its folder."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from encoderlab.batch import Batch
from encoderlab.config import OpenRunConfig, RunConfig
from encoderlab.data.token_store import TokenStore
from encoderlab.data.tokenizer import Tokenizer
from encoderlab.device import Compute, choose_compute
from encoderlab.errors import DataError
from encoderlab.metrics import Scores
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.runs.batches import scoring_batches, training_batches
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.folder import model_folder
from encoderlab.runs.saved_model import read_model
from encoderlab.tasks.task import Task
from encoderlab.training.config import TrainingConfig
from encoderlab.training.evaluation import evaluate


@dataclass(frozen=True, slots=True)
class Assembly:
    """The parts of a run, put together, the model on its device.

    `checkpoint` says, for a run that was opened again, after which step its weights were taken and why.
    """

    config: RunConfig
    compute: Compute
    tokenizer: Tokenizer
    task: Task
    model: EncoderWithHeads
    checkpoint: dict[str, Any] = field(default_factory=dict)

    def evaluate(self, store: TokenStore) -> Scores:
        """Score the model on every row of `store`."""
        return evaluate(self.model, self.scoring_batches(store), self.task.metrics(), self.compute)

    def scoring_batches(self, store: TokenStore) -> Iterator[Batch]:
        """Every row of `store` once, on the model's device."""
        return scoring_batches(store, self.tokenizer.pad_id, self.compute.device)

    def training_batches(self, store: TokenStore) -> Iterator[list[Batch]]:
        """The run's batches, step after step, without end."""
        return training_batches(
            store, self.config.training, self.config.seed, self.tokenizer.pad_id, self.compute.device, self.task.prepare
        )


def assemble(config: RunConfig, compute: Compute, corpus: Corpus) -> Assembly:
    """Build tokenizer, task and model for training. The weights depend on `config.seed` alone.

    Raises SettingError and DataError where the parts do not fit.
    """
    if not corpus.labelled("train"):
        raise DataError("The training split has no labels", remedy="Set dataset.label to the column that holds them")
    tokenizer = config.tokenizer.build(corpus.training_texts(), corpus.cache)
    task = config.task.build(tokenizer, corpus.splits.labels, config.model.max_length)
    torch.manual_seed(config.seed)
    return Assembly(config, compute, tokenizer, task, _build_model(config, tokenizer, task).to(compute.device))


def reopen(run: OpenRunConfig) -> Assembly:
    """Open a finished run: a run folder, or its model/ folder. Raises DataError where it is damaged or not there."""
    saved = read_model(model_folder(run.run))
    compute = choose_compute(run.device, run.precision.value, run.threads)
    task = saved.config.task.build(saved.tokenizer, saved.labels, saved.config.model.max_length)
    model = _build_model(saved.config, saved.tokenizer, task)
    try:
        model.load_state_dict(saved.weights)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise DataError(f"The weights of run={run.run} do not fit its config: {reason}") from None
    return Assembly(saved.config, compute, saved.tokenizer, task, model.to(compute.device).eval(), saved.checkpoint)


def cache_folder(setting: str) -> Path:
    """The folder of the setting `cache_dir`, with ~ for the user's home."""
    return Path(setting).expanduser()


def resolve_steps(training: TrainingConfig, rows: int) -> tuple[TrainingConfig, int]:
    """The training settings with the number of steps filled in, and how many steps make an epoch of `rows` rows."""
    per_epoch = math.ceil(rows / training.batch_size)
    steps = training.steps or max(round(training.epochs * per_epoch), 1)
    return replace(training, steps=steps), per_epoch


def _build_model(config: RunConfig, tokenizer: Tokenizer, task: Task) -> EncoderWithHeads:
    return config.model.build(tokenizer.vocabulary_size, tokenizer.pad_id, task.sequence_classes, task.token_classes)
