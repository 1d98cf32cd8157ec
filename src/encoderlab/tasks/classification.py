"""Sequence classification: one label for a text, or for a pair of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from encoderlab.batch import Encoded, HeadSizes
from encoderlab.data.examples import Example
from encoderlab.data.tokenizers.tokenizer import Tokenizer
from encoderlab.errors import SettingError
from encoderlab.metrics import ClassificationMetrics
from encoderlab.metrics.classification import given_from
from encoderlab.metrics.thresholds import ThresholdRule
from encoderlab.tasks.choices import ClassificationScore
from encoderlab.tasks.config import ClassificationConfig, requested_precision
from encoderlab.tasks.sequences import sequences_of, texts_among
from encoderlab.tasks.task import Answer, Task, Windowing, refuse_unknown_label


class Classification(Task):
    """Predicts one label for the whole sequence.

    With two labels, the figures of two classes refer to the one with the id `positive`: `positive_label` of the
    settings, or the last label if they name none. `threshold` is the probability from which it is predicted (None: if
    it is the more probable one). A threshold that is still to be fitted is fitted in scoring; until then predictions
    take the more probable label.
    """

    def __init__(
        self, config: ClassificationConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int
    ) -> None:
        super().__init__(tokenizer, labels, max_length, config.score.value, shortest=5)  # [CLS] a [SEP] b [SEP]
        self.windows = Windowing.of(config)
        self.heads = HeadSizes(sequence_classes=len(self.labels), window_pooling=self.windows and self.windows.pooling)
        self.positive = positive_class(config, self.labels)
        self.threshold = threshold_rule(config)

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """See `Task.encode`."""
        texts = texts_among(examples, "a classification task needs labelled texts")
        return sequences_of(self.tokenizer, texts, self.max_length, self.windows)

    def metrics(self) -> ClassificationMetrics:
        """See `Task.metrics`."""
        return ClassificationMetrics(self.labels, self.score, self.positive, self.threshold)

    def answers_of(self, logits: Float[Tensor, "rows classes"]) -> list[Answer]:
        """See `Task.answers_of`: the positive label is predicted from its threshold."""
        answers = super().answers_of(logits)
        if self.threshold is None or self.threshold.known is None:
            return answers
        chances = logits.double().softmax(-1)[:, self.positive].cpu().numpy()
        given = given_from(chances, self.threshold.known, self.positive)
        return [
            replace(answer, labels=(self.labels[id_],)) for answer, id_ in zip(answers, given.tolist(), strict=True)
        ]


def threshold_rule(config: ClassificationConfig) -> ThresholdRule | None:
    """Return how the threshold of the positive label is found; None to predict the more probable label. Raises
    SettingError.
    """
    given = config.threshold
    if given is None or given == "f1":
        return ThresholdRule() if given else None
    if isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given <= 1:
        return ThresholdRule(known=float(given))
    if (precision := requested_precision(given)) is None:
        allowed = "a probability from 0 to 1, f1, or precision:P with P above 0, at most 1"
        raise SettingError(f"task.threshold is {given}", allowed=allowed)
    return ThresholdRule(precision=precision)


def positive_class(config: ClassificationConfig, labels: Sequence[str]) -> int:
    """Return the id of the positive label, 1 if none is named; with more than two labels it has no meaning.

    Raises SettingError for an unknown label, and for settings that need two labels if there are more or fewer.
    """
    if len(labels) == 2:
        if config.positive_label is None:
            return 1
        refuse_unknown_label("task.positive_label", config.positive_label, labels)
        return labels.index(config.positive_label)
    for name in ("positive_label", "threshold"):
        if getattr(config, name) is not None:
            wrong = f"task.{name}={getattr(config, name)} needs two labels, but the data has {len(labels)}"
            raise SettingError(wrong, remedy="Remove it, or set task=multilabel, which has a threshold for each label")
    if config.score is ClassificationScore.f1:
        wrong = f"task.score=f1 needs two labels, but the data has {len(labels)}"
        raise SettingError(wrong, remedy="Set task.score=f1_macro or task.score=f1_weighted")
    return 1
