"""Multi-label classification: any number of labels for a text, or for a pair of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from encoderlab.batch import Encoded, HeadSizes
from encoderlab.data.examples import Example
from encoderlab.data.tokenizers.tokenizer import Tokenizer
from encoderlab.metrics import LabelSetMetrics
from encoderlab.metrics.thresholds import DEFAULT
from encoderlab.tasks.config import FittedThresholds, MultilabelConfig
from encoderlab.tasks.sequences import sequences_of, texts_among
from encoderlab.tasks.task import Answer, Task, Windowing, refuse_unknown_label


class Multilabel(Task):
    """Predicts for each label whether a sequence has it: yes from the label's threshold.

    `thresholds` are the known ones by label; scoring fits the others, and predictions use 0.5 for them.
    """

    def __init__(self, config: MultilabelConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> None:
        super().__init__(tokenizer, labels, max_length, config.score.value, shortest=5)  # [CLS] a [SEP] b [SEP]
        self.thresholds = config.known_thresholds
        self.precisions = config.requested_precisions
        for label in (*self.thresholds, *self.precisions):
            refuse_unknown_label("task.thresholds", label, self.labels)
        self.shared = config.fit_thresholds is FittedThresholds.shared
        self.windows = Windowing.of(config)
        self.heads = HeadSizes(
            sequence_classes=len(self.labels),
            sequence_target="label_set",
            window_pooling=self.windows and self.windows.pooling,
        )

    @property
    def key(self) -> str:
        """See `Task.key`."""
        return f"{super().key} {len(self.labels)}"

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """See `Task.encode`."""
        texts = texts_among(examples, "a multilabel task needs labelled texts")
        return [self._marked(one) for one in sequences_of(self.tokenizer, texts, self.max_length, self.windows)]

    def _marked(self, encoded: Encoded) -> Encoded:
        """Return the example with a 0 or 1 for each label instead of the ids."""
        if encoded.label is None:
            return encoded
        assert isinstance(encoded.label, tuple), "the dataset was read for another task"
        marks = [0] * len(self.labels)
        for id_ in encoded.label:
            marks[id_] = 1
        return replace(encoded, label=tuple(marks))

    def metrics(self) -> LabelSetMetrics:
        """See `Task.metrics`."""
        return LabelSetMetrics(self.labels, self.thresholds, self.score, shared=self.shared, precisions=self.precisions)

    def answers_of(self, logits: Float[Tensor, "rows labels"]) -> list[Answer]:
        """See `Task.answers_of`: every label is predicted from its threshold."""
        thresholds = [self.thresholds.get(label, DEFAULT) for label in self.labels]
        answers = []
        for row in logits.double().sigmoid().tolist():
            given = (
                label for label, chance, least in zip(self.labels, row, thresholds, strict=True) if chance >= least
            )
            answers.append(Answer(tuple(given), tuple(row)))
        return answers
