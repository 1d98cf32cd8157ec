"""Tasks of an encoder's vectors: none at all for an encoder without a head, or a teacher's vectors to learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NoReturn

import numpy as np

from encoderlab.errors import DataError
from encoderlab.network.config import HeadSizes
from encoderlab.settings import setting
from encoderlab.tasks.pretraining import DocumentTaskConfig, Pretraining
from encoderlab.tasks.task import INSTEAD, RowPrediction, Task, TaskConfig

if TYPE_CHECKING:
    from encoderlab.batch import Batch, Prediction, TeacherOutputs
    from encoderlab.data.tokenizers import Tokenizer
    from encoderlab.metrics.pretraining import TeacherVectorsMetrics
    from encoderlab.metrics.scores import Metrics


@dataclass
class EncodingConfig(TaskConfig):
    """Texts become sequences, and nothing is predicted: the task of an encoder alone, for which no run is trained."""

    of_encoder_alone: ClassVar[bool] = True

    normalize: bool = setting(False, "Whether the vectors of texts were trained to have length 1.")

    @property
    def normalizes_vectors(self) -> bool:
        return self.normalize

    def build(self, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> Encoding:
        return Encoding(self, tokenizer, max_length)

    def main_score_of(self, labels: Sequence[str]) -> str:
        return ""


class Encoding(Task):
    """An encoder without a head: it has vectors and attention. Scores and predictions raise DataError."""

    heads = HeadSizes()

    def __init__(self, config: TaskConfig, tokenizer: Tokenizer, max_length: int) -> None:
        super().__init__(config, tokenizer, [], max_length, config.main_score_of([]))

    def metrics(self) -> Metrics:
        self._refuse()

    def predictions(self, prediction: Prediction, batch: Batch) -> list[RowPrediction]:
        self._refuse()

    def _refuse(self) -> NoReturn:
        problem = f"{self.config.name} is an encoder without a head and predicts nothing"
        raise DataError(problem, remedy=INSTEAD)


@dataclass
class TeacherVectorsConfig(DocumentTaskConfig):
    """The vectors of a teacher for texts and their tokens, learned on documents (encoderlab distill)."""

    command: ClassVar[str] = "distill"

    teacher_width: int | None = setting(None, "Width of the teacher's vectors; set by the teacher.", internal=True)

    def build(self, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> TeacherVectors:
        return TeacherVectors(self, tokenizer, max_length)

    @property
    def separates_pairs(self) -> bool:
        return True

    def main_score_of(self, labels: Sequence[str]) -> str:
        return "sequence_cosine"


class TeacherVectors(Encoding):
    """Learns the teacher's vector of every token and, as their mean, of the whole text."""

    config: TeacherVectorsConfig

    # Returns the vectors for a batch. It is set before rows are read; without one, the task only reads texts.
    teacher: Callable[[Batch], TeacherOutputs] | None = None

    def __init__(self, config: TeacherVectorsConfig, tokenizer: Tokenizer, max_length: int) -> None:
        super().__init__(config, tokenizer, max_length)
        self.heads = HeadSizes(teacher_width=config.teacher_width)
        self.is_ordinary = np.ones(tokenizer.vocabulary_size, dtype=bool)
        self.is_ordinary[list(tokenizer.special_ids)] = False

    def count_targets(self, flat: np.ndarray, lengths: np.ndarray) -> int:
        """Return how many tokens are targets: all."""
        return len(flat)

    def with_targets(self, batch: Batch, key: int) -> Batch:
        """Return `batch` with the teacher's vectors. Raises DataError if there is no teacher."""
        import torch

        from encoderlab.network.packing import places_of

        if self.teacher is None:
            problem = (
                f"{self.config.name} was distilled from a teacher's vectors and cannot be scored without the teacher"
            )
            raise DataError(problem, remedy=INSTEAD)
        real = torch.ones_like(batch.input_ids) if batch.attention_mask is None else batch.attention_mask
        batch = replace(batch, target_positions=places_of(real.flatten(), batch.n_tokens))
        return replace(batch, teacher=self.teacher(batch))

    def metrics(self) -> TeacherVectorsMetrics:
        from encoderlab.metrics.pretraining import TeacherVectorsMetrics

        return TeacherVectorsMetrics()


DocumentTask = Pretraining | TeacherVectors  # whose rows are made of sentences
