"""Contrastive pretraining: an encoder whose vectors are trained to tell labels apart, and kept near those it had."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from encoderlab.batch import Batch
from encoderlab.config.commands import RunConfig
from encoderlab.errors import SettingError
from encoderlab.models.model import POOLINGS, Model
from encoderlab.recipes.distillation import vectors_by
from encoderlab.runs.prepared import PreparedRun
from encoderlab.runs.recipe import Recipe, StartingWeights
from encoderlab.system.processes import Processes
from encoderlab.tasks import contrastive
from encoderlab.tasks.contrastive_rows import ContrastiveRows
from encoderlab.training.batches import Rows


class ContrastivePretraining(Recipe):
    """The recipe of `encoderlab pretrain task=contrastive`."""

    def start(self, config: RunConfig, processes: Processes) -> StartingWeights:
        """Return the encoder that the run starts from. Raises SettingError without one, or with several processes."""
        task = config.task

        # The loss keeps each vector near the one that the starting encoder gives the text, so there must be one.
        if config.starts_from is None:
            problem = f"task={task.name} keeps the vectors of an encoder near those it had, but init_from names none"
            raise SettingError(problem, remedy="Set init_from=mini-en, or to another encoder")

        # Rows are compared with those of the same micro-batch, and another process would have others.
        if processes.size > 1:
            problem = f"task={task.name} needs a single process, and there are {processes.size}"
            raise SettingError(problem, remedy="Start one process")
        return super().start(config, processes)

    def extend_rows(self, prepared: PreparedRun, start: StartingWeights) -> None:
        """Relate the labels of the training rows, and keep their vectors, by the encoder that the run starts from."""
        assert start.encoder is not None
        keep_vectors(prepared.model, start.encoder, prepared.training.rows)


def keep_vectors(model: Model, start: Model, train: Rows) -> None:
    """Compute the vectors that a contrastive run keeps by the encoder it starts from, and which labels they relate.

    The vector of a text is pooled as by `embed`.
    Raises DataError for a set of rows with only one label.
    """
    task = cast("contrastive.Contrastive", model.task)
    rows = cast("ContrastiveRows", train)

    # A set with one label has nothing to keep apart, which is said before anything slow.
    rows.refuse_lone_labels()

    # The vectors to stay near to come from a copy of the encoder, because the steps change the model's own.
    task.teacher = vectors_by(start, POOLINGS[start.vector_pooling], model.compute)

    # The same vectors say which labels are hard to tell apart: those whose rows lie near each other.
    def sequence_vectors(batch: Batch) -> Tensor:
        assert task.teacher is not None
        vectors = task.teacher(batch).sequence_vectors
        assert vectors is not None
        return vectors

    rows.relate(sequence_vectors, model.tokenizer.pad_id, model.compute.device)
