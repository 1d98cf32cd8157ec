"""Distillation on documents: a student learns the vectors that its teacher gives to texts and to their tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from encoderlab.batch import Batch, HeadSizes, Targets
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import DataError
from encoderlab.metrics.pretraining import TeacherVectorsMetrics
from encoderlab.tasks.config import TeacherVectorsConfig
from encoderlab.tasks.texts import Encoding


class TeacherVectors(Encoding):
    """Learns the teacher's vector of every token and, as their mean, of the whole text.

    `teacher` returns the vectors for a batch; it is set before rows are read. Without one, the task only reads texts.
    """

    teacher: Callable[[Batch], Targets] | None = None

    def __init__(
        self, config: TeacherVectorsConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int
    ) -> None:
        super().__init__(config, tokenizer, labels, max_length)
        self.config, self.score = config, "sequence_cosine"
        self.heads = HeadSizes(teacher_width=config.teacher_width)
        self.is_ordinary = np.ones(tokenizer.vocabulary_size, dtype=bool)
        self.is_ordinary[list(tokenizer.special_ids)] = False

    def count_targets(self, flat: np.ndarray, lengths: np.ndarray) -> int:
        """Return how many tokens will be predicted in the sequences that follow one another in `flat`: all."""
        return len(flat)

    def ask(self, batch: Batch, key: int) -> Batch:
        """Return `batch` with the teacher's vectors as its targets. Raises DataError if there is no teacher."""
        if self.teacher is None:
            raise DataError(
                f"{self.name} was distilled from a teacher's vectors and cannot be scored without the teacher",
                remedy="Get its vectors with encoderlab embed, or train it on a task with encoderlab finetune "
                "init_from=...",
            )
        mask = batch.attention_mask
        if mask is None:
            target_positions = torch.arange(batch.input_ids.numel(), device=batch.input_ids.device)
        else:
            target_positions = torch.nonzero_static(mask.flatten(), size=batch.n_tokens).flatten()
        batch = replace(batch, target_positions=target_positions)
        weights = {"sequence_weight": self.config.sequence_weight, "token_weight": self.config.token_weight}
        return replace(batch, targets=replace(self.teacher(batch), **weights))

    def metrics(self) -> TeacherVectorsMetrics:
        return TeacherVectorsMetrics()
