"""Tasks on whole texts or pairs of texts: one label, a set of labels, a number, or nothing but vectors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from jaxtyping import Float
from torch import Tensor

from encoderlab.batch import Batch, Encoded, HeadSizes, Prediction
from encoderlab.data.examples import Example, WordsExample
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import DataError, SettingError
from encoderlab.metrics.calibration import DEFAULT, ThresholdRule
from encoderlab.metrics.entities import TaggingMetrics, ValidDecoder, entity_labels
from encoderlab.metrics.scores import Metrics
from encoderlab.metrics.texts import ClassificationMetrics, LabelSetMetrics, RegressionMetrics, predict_from, rounded
from encoderlab.tasks.config import (
    ClassificationConfig,
    ClassificationScore,
    Decoding,
    MultilabelConfig,
    RegressionConfig,
    TaggingConfig,
    TaskConfig,
)
from encoderlab.tasks.task import RowPrediction, Target, Task, Windowing, refuse_unknown_label

TextConfig = ClassificationConfig | MultilabelConfig | RegressionConfig
INSTEAD = "Train it on a task with encoderlab finetune init_from=..., or get its vectors with encoderlab embed"


class TextTask(Task):
    """Predicts something about a whole text; a subclass says how a label becomes a target, and what logits mean."""

    def __init__(self, config: TextConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> None:
        main_score = "accuracy" if config.score is ClassificationScore.auto else config.score.value
        super().__init__(tokenizer, labels, max_length, main_score)
        self.windows = Windowing.of(config)
        self.heads = HeadSizes(
            sequence_classes=len(self.labels) or 1,
            sequence_target=config.target,
            window_pooling=self.windows and self.windows.pooling,
        )

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        encoded = super().encode(examples)
        return [one if one.label is None else replace(one, label=self.target_of(one.label)) for one in encoded]

    def target_of(self, label: Target) -> Target:
        """Return the target for the known label of an example: the label itself, unless overridden."""
        return label


class Classification(TextTask):
    """Predicts one label for the whole sequence.

    With two labels, the scores of two classes refer to the one with the id `positive`: `positive_label` of the
    settings, or the last label if they name none. `threshold` is the probability from which it is predicted. Without
    one, or until scoring has fitted it, the more probable label is.
    """

    def __init__(
        self, config: ClassificationConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int
    ) -> None:
        super().__init__(config, tokenizer, labels, max_length)
        self.positive = positive_class(config, self.labels)
        self.threshold = threshold_rule(config)

    def metrics(self) -> ClassificationMetrics:
        return ClassificationMetrics(self.labels, self.main_score, self.positive, self.threshold)

    def predictions_of(self, logits: Float[Tensor, "rows classes"]) -> list[RowPrediction]:
        """Return the most probable label of each row; the positive label is predicted from its threshold."""
        predictions = super().predictions_of(logits)
        if self.threshold is None or self.threshold.known is None:
            return predictions
        probabilities = logits.double().softmax(-1)[:, self.positive].cpu().numpy()
        ids = predict_from(probabilities, self.threshold.known, self.positive)
        pairs = zip(predictions, ids.tolist(), strict=True)
        return [replace(prediction, labels=(self.labels[id_],)) for prediction, id_ in pairs]


class Multilabel(TextTask):
    """Predicts for each label whether a sequence has it: yes from the label's threshold.

    `thresholds` are the known ones by label; scoring fits the others, and predictions use 0.5 for them.
    """

    def __init__(self, config: MultilabelConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> None:
        super().__init__(config, tokenizer, labels, max_length)
        self.thresholds, self.encoded_by = config.known_thresholds, f"{len(self.labels)}"
        for label in self.thresholds:
            refuse_unknown_label("task.thresholds", label, self.labels)

    def target_of(self, label: Target) -> Target:
        """Return a 0 or 1 for each label instead of the ids."""
        assert isinstance(label, tuple), "the dataset was read for another task"
        return tuple(int(id_ in label) for id_ in range(len(self.labels)))

    def metrics(self) -> LabelSetMetrics:
        return LabelSetMetrics(self.labels, self.thresholds, self.main_score)

    def predictions_of(self, logits: Float[Tensor, "rows labels"]) -> list[RowPrediction]:
        """Return the labels of each row whose probability reaches their threshold."""
        bounds = [self.thresholds.get(label, DEFAULT) for label in self.labels]
        rows = logits.double().sigmoid()
        reached = (rows >= rows.new_tensor(bounds)).tolist()
        return [
            RowPrediction(tuple(label for label, yes in zip(self.labels, marks, strict=True) if yes), tuple(row))
            for marks, row in zip(reached, rows.tolist(), strict=True)
        ]


class Regression(TextTask):
    """Predicts one number, of which the model learns its distance from the `mean` in units of the `deviation`."""

    def __init__(self, config: RegressionConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> None:
        super().__init__(config, tokenizer, [], max_length)
        assert config.mean is not None and config.deviation is not None, "see `runs.task.resolve_task`"
        self.mean, self.unit = config.mean, config.deviation
        self.encoded_by = f"{self.mean!r} {self.unit!r}"

    def target_of(self, label: Target) -> Target:
        assert isinstance(label, float), "the dataset was read for another task"
        return (label - self.mean) / self.unit

    def metrics(self) -> RegressionMetrics:
        return RegressionMetrics(self.mean, self.unit, self.main_score)

    def predictions_of(self, logits: Float[Tensor, "rows one"]) -> list[RowPrediction]:
        """Return the number of each row in the user's units."""
        numbers = logits[:, 0].double().cpu().numpy() * self.unit + self.mean
        return [RowPrediction((), number=number) for number in rounded(numbers, self.unit).tolist()]


@dataclass
class EncodingConfig(TaskConfig):
    """Texts become sequences, and nothing is predicted. No run is trained for it; see `runs.saved_model`."""


class Encoding(Task):
    """An encoder without a head: it has vectors and attention. Scores and predictions raise DataError."""

    def __init__(self, config: TaskConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> None:
        super().__init__(tokenizer, [], max_length, "")
        self.name = config.name
        self.heads = HeadSizes()

    def metrics(self) -> Metrics:
        raise self._no_predictions()

    def predictions(self, prediction: Prediction, batch: Batch) -> list[RowPrediction]:
        raise self._no_predictions()

    def _no_predictions(self) -> DataError:
        return DataError(f"{self.name} is an encoder without a head and predicts nothing", remedy=INSTEAD)


def threshold_rule(config: ClassificationConfig) -> ThresholdRule | None:
    """Return how the positive label's threshold is set; None: predict the more probable label. Raises SettingError."""
    threshold = config.threshold
    if threshold is None or threshold == "f1":
        return ThresholdRule() if threshold else None
    if isinstance(threshold, int | float) and not isinstance(threshold, bool) and 0 <= threshold <= 1:
        return ThresholdRule(known=float(threshold))
    requested = re.fullmatch(r"precision:(\d*\.?\d+)", str(threshold))
    if requested is None or not 0 < float(requested[1]) <= 1:
        allowed = "a probability from 0 to 1, f1, or precision:P with P above 0, at most 1"
        raise SettingError(f"task.threshold is {threshold}", allowed=allowed)
    return ThresholdRule(precision=float(requested[1]))


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


class Tagging(Task):
    """Predicts a label for each word; words beyond `max_length` tokens have no target, and the run counts such rows."""

    def __init__(self, config: TaggingConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> None:
        self.shortest = 3 if config.special_tokens else 1
        super().__init__(tokenizer, labels, max_length, config.main_score(labels))
        self.special_tokens, self.encoded_by = config.special_tokens, f"{config.special_tokens}"
        self.heads = HeadSizes(token_classes=len(self.labels))
        entities = None if config.decoding is Decoding.argmax else entity_labels(self.labels)
        if entities is None and config.decoding is Decoding.valid:
            wrong = "task.decoding=valid needs BIO or BIOES labels, such as B-person, I-person and O"
            raise SettingError(wrong, remedy="Set task.decoding=argmax")
        self.decoder = None if entities is None else ValidDecoder(entities)

    def encode(self, examples: Sequence[Example]) -> list[Encoded]:
        if not all(isinstance(example, WordsExample) for example in examples):
            wrong = "This dataset holds labelled texts, but a tagging task needs sequences of labelled words"
            raise DataError(wrong, remedy="Set task=classification, or choose a dataset of words")
        sentences = cast("Sequence[WordsExample]", examples)
        pieces = self.tokenizer.encode_words([example.words for example in sentences])
        before, after = ([self.tokenizer.cls_id], [self.tokenizer.sep_id]) if self.special_tokens else ([], [])
        kept, encoded = max(self.max_length - len(before) - len(after), 0), []
        for example, (ids, word_of) in zip(sentences, pieces, strict=True):
            sequence = [*before, *ids[:kept], *after]
            firsts = [place for place, word in enumerate(word_of[:kept]) if not place or word_of[place - 1] != word]
            labels = example.labels or [None] * len(example.words)
            targets = {place + len(before): labels[word_of[place]] for place in firsts}
            encoded.append(Encoded(sequence, [0] * len(sequence), None, targets, truncated=len(ids) > kept))
        return encoded

    def metrics(self) -> TaggingMetrics:
        return TaggingMetrics(self.labels, self.main_score, self._decoded)

    def _decoded(self, logits: Tensor, batch: Batch) -> Tensor:
        """Return the id of the label of each target word: [targets, labels] -> int64 [targets]."""
        if self.decoder is None:
            return logits.argmax(-1)
        n_rows, longest = batch.input_ids.shape
        return self.decoder.decode(logits, batch.target_positions // longest, n_rows, longest)

    def predictions(self, prediction: Prediction, batch: Batch) -> list[RowPrediction]:
        """Return the labels of each row's words; truncated words have none, which a caller that knows them fills in."""
        assert prediction.token_logits is not None
        logits = prediction.token_logits.float()
        ids = self._decoded(logits, batch).cpu().numpy()
        chances = logits.softmax(-1).cpu().numpy()
        chances = chances[np.arange(len(ids)), ids]
        rows = (batch.target_positions // batch.input_ids.shape[1]).cpu().numpy()
        starts = np.searchsorted(rows, np.arange(1, len(batch)))
        return [
            RowPrediction(tuple(self.labels[id_] for id_ in of_row), None, tuple(confidences.tolist()))
            for of_row, confidences in zip(np.split(ids, starts), np.split(chances, starts), strict=True)
        ]
