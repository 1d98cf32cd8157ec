"""Sequence classification: one label for a text, or for a pair of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from encoderlab.batch import Batch, Encoded, HeadSizes, Prediction
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
    """Asks one question about the whole sequence.

    Of two labels, the one with the id `positive` is what the figures of two classes are about: `positive_label` of the settings,
    or the last where they name none. `threshold` says from which probability on it is given (None: where it is the likelier one);
    one that is still to be chosen is chosen in scoring, and answers take the likelier label.
    """

    def __init__(self, config: ClassificationConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> None:
        super().__init__(tokenizer, labels, max_length, config.score.value, shortest=5)  # [CLS] a [SEP] b [SEP]
        self.windows = Windowing.of(config)
        self.heads = HeadSizes(sequence_classes=len(self.labels), window_pooling=self.windows and self.windows.pooling)
        self.positive = positive_class(config, self.labels)
        self.threshold = threshold_rule(config)

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """See `Task.encode`."""
        texts = texts_among(examples, "a classification task asks for labelled texts")
        return sequences_of(self.tokenizer, texts, self.max_length, self.windows)

    def metrics(self) -> ClassificationMetrics:
        """See `Task.metrics`."""
        return ClassificationMetrics(self.labels, self.score, self.positive, self.threshold)

    def answers(self, prediction: Prediction, batch: Batch) -> list[Answer]:
        """See `Task.answers`."""
        assert prediction.sequence_logits is not None
        return self.answers_of(prediction.sequence_logits)

    def answers_of(self, logits: Float[Tensor, "rows classes"]) -> list[Answer]:
        """See `Task.answers_of`: the positive label from its threshold on."""
        answers = super().answers_of(logits)
        if self.threshold is None or self.threshold.known is None:
            return answers
        chances = logits.double().softmax(-1)[:, self.positive].cpu().numpy()
        given = given_from(chances, self.threshold.known, self.positive)
        return [replace(answer, labels=(self.labels[id_],)) for answer, id_ in zip(answers, given.tolist(), strict=True)]


def threshold_rule(config: ClassificationConfig) -> ThresholdRule | None:
    """How the threshold of the positive label is found; None where the likelier label is given. Raises SettingError."""
    given = config.threshold
    if given is None or given == "f1":
        return ThresholdRule() if given else None
    if isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given <= 1:
        return ThresholdRule(known=float(given))
    if (precision := requested_precision(given)) is None:
        allowed = "a probability from 0 to 1, f1, or precision:0.9 with a number above 0, at most 1"
        raise SettingError(f"task.threshold is {given}", allowed=allowed)
    return ThresholdRule(precision=precision)


def positive_class(config: ClassificationConfig, labels: Sequence[str]) -> int:
    """The id of the positive label, 1 where none is named; of more than two labels it means nothing.

    Raises SettingError for a label that is unknown, and for settings that need two labels where there are others.
    """
    if len(labels) == 2:
        if config.positive_label is None:
            return 1
        refuse_unknown_label("task.positive_label", config.positive_label, labels)
        return labels.index(config.positive_label)
    for name in ("positive_label", "threshold"):
        if getattr(config, name) is not None:
            wrong = f"task.{name}={getattr(config, name)} needs two labels, and the data has {len(labels)}"
            raise SettingError(wrong, remedy="Remove it, or set task=multilabel, which has a threshold for each label")
    if config.score is ClassificationScore.f1:
        wrong = f"task.score=f1 needs two labels, and the data has {len(labels)}"
        raise SettingError(wrong, remedy="Set task.score=f1_macro or task.score=f1_weighted")
    return 1
