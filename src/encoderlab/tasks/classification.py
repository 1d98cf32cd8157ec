"""Sequence classification: one label for a text, or for a pair of texts."""

from __future__ import annotations

from collections.abc import Sequence

from encoderlab.batch import Batch, Encoded, HeadSizes, Prediction
from encoderlab.data.examples import Example, are_texts
from encoderlab.data.tokenizers.tokenizer import Tokenizer
from encoderlab.errors import DataError
from encoderlab.metrics import ClassificationMetrics
from encoderlab.tasks.config import ClassificationConfig
from encoderlab.tasks.sequences import sequences_of
from encoderlab.tasks.task import Answer, Task


class Classification(Task):
    """Asks one question about the whole sequence."""

    def __init__(self, config: ClassificationConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> None:
        super().__init__(tokenizer, labels, max_length, config.score.value, shortest=5)  # [CLS] a [SEP] b [SEP]
        self.heads = HeadSizes(sequence_classes=len(self.labels))

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """See `Task.encode`."""
        if not are_texts(examples):
            raise DataError(
                "This dataset holds sequences of labelled words, and a classification task asks for labelled texts",
                remedy="Set task=tagging, or choose a dataset of texts",
            )
        return sequences_of(self.tokenizer, examples, self.max_length)

    def metrics(self) -> ClassificationMetrics:
        """See `Task.metrics`."""
        return ClassificationMetrics(self.labels)

    def answers(self, prediction: Prediction, batch: Batch) -> list[Answer]:
        """See `Task.answers`."""
        assert prediction.sequence_logits is not None
        probabilities = prediction.sequence_logits.float().softmax(-1)
        best = probabilities.argmax(-1).tolist()
        return [Answer((self.labels[i],), tuple(row)) for i, row in zip(best, probabilities.tolist(), strict=True)]
