"""Sequence classification: one label for a text, or for a pair of texts."""

from __future__ import annotations

from collections.abc import Sequence

from encoderlab.batch import Batch, Encoded, HeadSizes, Prediction
from encoderlab.data.examples import Example
from encoderlab.data.tokenizers.tokenizer import Tokenizer
from encoderlab.errors import SettingError
from encoderlab.metrics import ClassificationMetrics
from encoderlab.tasks.choices import ClassificationScore
from encoderlab.tasks.config import ClassificationConfig
from encoderlab.tasks.sequences import sequences_of, texts_among
from encoderlab.tasks.task import Answer, Task, Windowing, refuse_unknown_label


class Classification(Task):
    """Asks one question about the whole sequence.

    Of two labels, the one with the id `positive` is what the figures of two classes are about: `positive_label` of the settings,
    or the last where they name none.
    """

    def __init__(self, config: ClassificationConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> None:
        super().__init__(tokenizer, labels, max_length, config.score.value, shortest=5)  # [CLS] a [SEP] b [SEP]
        self.windows = Windowing.of(config)
        self.heads = HeadSizes(sequence_classes=len(self.labels), window_pooling=self.windows and self.windows.pooling)
        self.positive = positive_class(config, self.labels)

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        """See `Task.encode`."""
        texts = texts_among(examples, "a classification task asks for labelled texts")
        return sequences_of(self.tokenizer, texts, self.max_length, self.windows)

    def metrics(self) -> ClassificationMetrics:
        """See `Task.metrics`."""
        return ClassificationMetrics(self.labels, self.score, self.positive)

    def answers(self, prediction: Prediction, batch: Batch) -> list[Answer]:
        """See `Task.answers`."""
        assert prediction.sequence_logits is not None
        return self.answers_of(prediction.sequence_logits)


def positive_class(config: ClassificationConfig, labels: Sequence[str]) -> int:
    """The id of the positive label, 1 where none is named; of more than two labels it means nothing.

    Raises SettingError for a label that is unknown, and for settings that need two labels where there are others.
    """
    if len(labels) == 2:
        if config.positive_label is None:
            return 1
        refuse_unknown_label("task.positive_label", config.positive_label, labels)
        return labels.index(config.positive_label)
    if config.positive_label is not None:
        wrong = f"task.positive_label={config.positive_label} needs two labels, and the data has {len(labels)}"
        raise SettingError(wrong, remedy="Leave it out")
    if config.score is ClassificationScore.f1:
        wrong = f"task.score=f1 needs two labels, and the data has {len(labels)}"
        raise SettingError(wrong, remedy="Set task.score=f1_macro or task.score=f1_weighted")
    return 1
