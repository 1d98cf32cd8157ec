"""The hall where the rooms meet: builds everything a run needs from its config, or opens it again from its folder."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from encoderlab.batch import Batch
from encoderlab.config import OpenRunConfig, RunConfig
from encoderlab.data.tokenizer import Tokenizer
from encoderlab.device import Compute, choose_compute
from encoderlab.errors import DataError, SettingError
from encoderlab.metrics import Scores
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.runs.batches import scoring_batches, training_batches
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.folder import model_folder
from encoderlab.runs.saved_model import Origin, read_model
from encoderlab.tasks.rows import Rows
from encoderlab.tasks.task import Task
from encoderlab.training.config import TrainingConfig
from encoderlab.training.evaluation import evaluate


@dataclass(frozen=True, slots=True)
class Assembly:
    """The parts of a run, put together, the model on its device.

    `origin` says, for a run that was opened again, where its weights come from.
    """

    config: RunConfig
    compute: Compute
    tokenizer: Tokenizer
    task: Task
    model: EncoderWithHeads
    origin: Origin | None = None

    def evaluate(self, rows: Rows) -> Scores:
        """Score the model on all of `rows`."""
        return evaluate(self.model, self.scoring_batches(rows), self.task.metrics(), self.compute)

    def scoring_batches(self, rows: Rows) -> Iterator[Batch]:
        """Every one of `rows` once, on the model's device."""
        return scoring_batches(rows, self.tokenizer.pad_id, self.compute.device, self.task.prepare)

    def training_batches(self, rows: Rows) -> Iterator[list[Batch]]:
        """The run's batches, step after step, without end."""
        return training_batches(
            rows, self.config.training, self.config.seed, self.tokenizer.pad_id, self.compute.device, self.task.prepare
        )


def assemble(config: RunConfig, compute: Compute, corpus: Corpus) -> Assembly:
    """Build tokenizer, task and model for training. The weights depend on `config.seed` alone.

    Raises SettingError and DataError where the parts do not fit.
    """
    tokenizer = config.tokenizer.build(corpus.training_texts(), corpus.cache)
    task = config.task.build(tokenizer, corpus.splits.labels, config.model.max_length)
    torch.manual_seed(config.seed)
    return Assembly(config, compute, tokenizer, task, _build_model(config, tokenizer, task).to(compute.device))


def reopen(run: OpenRunConfig) -> Assembly:
    """Open a finished run: a run folder, or its model/ folder. Raises DataError where it is damaged or not there."""
    saved = read_model(model_folder(run.run))
    compute = choose_compute(run.device, run.precision.value, run.threads, setting="device")
    task = saved.config.task.build(saved.tokenizer, saved.labels, saved.config.model.max_length)
    model = _build_model(saved.config, saved.tokenizer, task)
    try:
        model.load_state_dict(saved.weights)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise DataError(f"The weights of run={run.run} do not fit its config: {reason}") from None
    return Assembly(saved.config, compute, saved.tokenizer, task, model.to(compute.device).eval(), saved.origin)


def check_paired(assembly: Assembly, paired: bool) -> None:
    """Refuse one text where the model was trained on pairs, and a pair where it was not. Raises DataError."""
    if paired != assembly.origin.paired:
        wants, found = ("pairs of texts", "one text") if assembly.origin.paired else ("single texts", "a pair")
        remedy = "Add text_pair (or its column)" if assembly.origin.paired else "Leave text_pair out"
        raise DataError(f"This model was trained on {wants}, and {found} is given", remedy=remedy)


def cache_folder(setting: str) -> Path:
    """The folder of the setting `cache_dir`, with ~ for the user's home."""
    return Path(setting).expanduser()


def resolve_steps(training: TrainingConfig, rows: int) -> tuple[TrainingConfig, int]:
    """The training settings with the number of steps filled in, and how many steps make an epoch of `rows` rows."""
    per_epoch = math.ceil(rows / training.batch_size)
    steps = training.steps or max(round(training.epochs * per_epoch), 1)
    return replace(training, steps=steps), per_epoch


def _build_model(config: RunConfig, tokenizer: Tokenizer, task: Task) -> EncoderWithHeads:
    try:
        return config.model.build(tokenizer.vocabulary_size, tokenizer.pad_id, task.heads)
    except RuntimeError as error:
        if "allocate" not in str(error):
            raise
        size = f"model.n_layers={config.model.n_layers} model.d_model={config.model.d_model}"
        raise SettingError(f"A model of {size} does not fit into this machine's memory", remedy="Choose a smaller one") from None
