"""Regression: a number for a text, or for a pair of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from encoderlab.batch import Encoded, HeadSizes
from encoderlab.data.examples import Example
from encoderlab.data.tokenizers.tokenizer import Tokenizer
from encoderlab.metrics import RegressionMetrics
from encoderlab.metrics.regression import rounded
from encoderlab.tasks.config import RegressionConfig
from encoderlab.tasks.sequences import sequences_of, texts_among
from encoderlab.tasks.task import Answer, Task, Windowing


class Regression(Task):
    """Predicts one number. The model learns it minus the `mean` and in units of the `deviation`, which callers never
    see.
    """

    def __init__(self, config: RegressionConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> None:
        super().__init__(tokenizer, [], max_length, config.score.value, shortest=5)  # [CLS] a [SEP] b [SEP]
        assert config.mean is not None and config.deviation is not None, "see `runs.models.task.settled_task`"
        self.mean, self.deviation = config.mean, config.deviation
        self.unit = config.deviation
        self.windows = Windowing.of(config)
        self.heads = HeadSizes(
            sequence_classes=1, sequence_target="number", window_pooling=self.windows and self.windows.pooling
        )

    @property
    def key(self) -> str:
        """See `Task.key`."""
        return f"{super().key} {self.mean!r} {self.deviation!r}"

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """See `Task.encode`."""
        texts = texts_among(examples, "a regression task needs texts with a number")
        return [self._scaled(one) for one in sequences_of(self.tokenizer, texts, self.max_length, self.windows)]

    def _scaled(self, encoded: Encoded) -> Encoded:
        if encoded.label is None:
            return encoded
        assert isinstance(encoded.label, float), "the dataset was read for another task"
        return replace(encoded, label=(encoded.label - self.mean) / self.deviation)

    def metrics(self) -> RegressionMetrics:
        """See `Task.metrics`."""
        return RegressionMetrics(self.mean, self.deviation, self.score)

    def answers_of(self, logits: Float[Tensor, "rows one"]) -> list[Answer]:
        """See `Task.answers_of`: the number is in the user's units."""
        numbers = logits[:, 0].double().cpu().numpy() * self.deviation + self.mean
        return [Answer((), number=number) for number in rounded(numbers, self.deviation).tolist()]
