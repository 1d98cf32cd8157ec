"""Encoding without a head: an encoder alone has vectors and attention, but no predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from encoderlab.batch import Batch, Encoded, HeadSizes, Prediction
from encoderlab.data.examples import Example, are_texts
from encoderlab.data.tokenizers.tokenizer import Tokenizer
from encoderlab.errors import DataError
from encoderlab.metrics import Metrics
from encoderlab.tasks.config import TaskConfig
from encoderlab.tasks.sequences import sequences_of
from encoderlab.tasks.task import Answer, Task


@dataclass
class EncodingConfig(TaskConfig):
    """Texts become sequences, and nothing is predicted. No run is trained for it; see `runs.models.saved_model`."""


class Encoding(Task):
    """Reads texts and pairs, and refuses to predict. It has no labels, even if the examples do."""

    def __init__(self, config: TaskConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> None:
        super().__init__(tokenizer, [], max_length, "", shortest=5)  # [CLS] a [SEP] b [SEP]
        self.name = config.name
        self.heads = HeadSizes()

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """See `Task.encode`."""
        if not are_texts(examples):
            raise DataError("An encoder without a head reads texts, but these are sequences of words")
        return sequences_of(self.tokenizer, examples, self.max_length)

    def metrics(self) -> Metrics:
        """Raise DataError, because there is nothing to score."""
        raise self._no_answers()

    def answers(self, prediction: Prediction, batch: Batch) -> list[Answer]:
        """Raise DataError, because there are no predictions."""
        raise self._no_answers()

    def _no_answers(self) -> DataError:
        return DataError(
            f"{self.name} is an encoder without a head and predicts nothing",
            remedy="Train it on a task with encoderlab finetune init_from=..., or get its vectors with encoderlab embed",
        )
