"""Sequence classification: one label for a text, or for a pair of texts."""

from __future__ import annotations

from collections.abc import Sequence

from encoderlab.batch import Batch, Encoded, HeadSizes, Prediction
from encoderlab.data.examples import Example
from encoderlab.data.tokenizers.tokenizer import Tokenizer
from encoderlab.metrics import ClassificationMetrics
from encoderlab.tasks.config import ClassificationConfig
from encoderlab.tasks.sequences import sequences_of, texts_among
from encoderlab.tasks.task import Answer, Task, Windowing


class Classification(Task):
    """Asks one question about the whole sequence."""

    def __init__(self, config: ClassificationConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> None:
        super().__init__(tokenizer, labels, max_length, config.score.value, shortest=5)  # [CLS] a [SEP] b [SEP]
        self.windows = Windowing.of(config)
        self.heads = HeadSizes(sequence_classes=len(self.labels), window_pooling=self.windows and self.windows.pooling)

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """See `Task.encode`."""
        texts = texts_among(examples, "a classification task asks for labelled texts")
        return sequences_of(self.tokenizer, texts, self.max_length, self.windows)

    def metrics(self) -> ClassificationMetrics:
        """See `Task.metrics`."""
        return ClassificationMetrics(self.labels)

    def answers(self, prediction: Prediction, batch: Batch) -> list[Answer]:
        """See `Task.answers`."""
        assert prediction.sequence_logits is not None
        return self.answers_of(prediction.sequence_logits)
