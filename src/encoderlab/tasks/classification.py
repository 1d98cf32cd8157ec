"""Classification: one label for a whole text, or for a pair of texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from encoderlab.errors import SettingError
from encoderlab.model.config import HeadSizes
from encoderlab.settings import setting
from encoderlab.tasks.task import (
    BALANCED,
    LabelledTaskConfig,
    RowPrediction,
    Task,
    TextTaskConfig,
    class_targets,
    refuse_unknown_label,
)

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from encoderlab.data.survey import SplitSurvey
    from encoderlab.data.tokenizers import Tokenizer
    from encoderlab.metrics.calibration import ThresholdRule
    from encoderlab.metrics.scores import PredictionScores, SplitScores
    from encoderlab.metrics.texts import ClassificationMetrics
    from encoderlab.tasks.rows import Targets
    from encoderlab.training.loss import LabelWeights

UNEVEN = 0.9  # share of the most frequent label


class ClassificationScore(Enum):
    """Scores that can select the best checkpoint of a classification run and lead its report."""

    auto = "auto"  # decided by the frequencies of the labels: see `ClassificationConfig.settled`
    accuracy = "accuracy"
    f1_macro = "f1_macro"
    f1_weighted = "f1_weighted"
    f1 = "f1"  # of two classes
    matthews = "matthews"


@dataclass
class ClassificationConfig(TextTaskConfig, LabelledTaskConfig):
    """One label for a whole text, or for a pair of texts."""

    one_class_per_text: ClassVar[bool] = True

    score: ClassificationScore = setting(
        ClassificationScore.auto,
        "Score that selects the best checkpoint and leads the report; auto: accuracy or, if one label has more than "
        "90% of the training rows, f1 (f1_macro of more than two labels) with balanced class_weights and threshold=f1.",
    )
    positive_label: str | None = setting(
        None, "Of two labels, the positive one for F1 and ROC AUC; null: the rarer one in the training rows."
    )
    threshold: Any = setting(
        None,
        "Probability from which the positive label is predicted, or how to fit it on validation: f1, or precision:0.9.",
    )

    def build(self, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> Classification:
        return Classification(self, tokenizer, labels, max_length)

    @property
    def fits_thresholds(self) -> bool:
        return isinstance(self.threshold, str)

    def two_class_rule(self, labels: Sequence[str]) -> tuple[ThresholdRule | None, int]:
        return threshold_rule(self), _positive_class(self, labels)

    @property
    def exported_thresholds(self) -> dict[str, Any]:
        if self.positive_label is None:
            return {}
        fields: dict[str, Any] = {"positive_label": self.positive_label}
        if self.threshold is not None:
            fields["thresholds"] = {self.positive_label: self.threshold}
        return fields

    def main_score_of(self, labels: Sequence[str]) -> str:
        return "accuracy" if self.score is ClassificationScore.auto else self.score.value

    def settled(
        self, labels: Sequence[str], train: SplitSurvey, *, has_validation: bool
    ) -> tuple[ClassificationConfig, list[str]]:
        """Return the settings with those decided that the labels' frequencies decide, and a note if some are rare.

        The positive label of two is the rarer one. If one label has more than `UNEVEN` of the rows, predicting it
        always is hard to beat in accuracy: then F1 leads, labels weigh alike, and the threshold of two labels is fitted
        if there is a validation split. A score of the user's own leaves all of this to the user.
        """
        counts = train.labels
        has_two_labels = len(labels) == 2
        decided: dict[str, Any] = {}
        if self.positive_label is None and has_two_labels:
            decided["positive_label"] = min(reversed(labels), key=lambda label: counts[label])
        if self.score is ClassificationScore.auto and is_uneven(labels, counts):
            decided["score"] = ClassificationScore.f1 if has_two_labels else ClassificationScore.f1_macro
            decided["class_weights"] = self.class_weights or BALANCED
            if self.threshold is None and has_two_labels and has_validation:
                decided["threshold"] = "f1"
        elif self.score is ClassificationScore.auto:
            decided["score"] = ClassificationScore.accuracy
        config = replace(self, **decided)
        return config, config._rare_labels_note(labels, counts)

    def _rare_labels_note(self, labels: Sequence[str], counts: Mapping[str, int]) -> list[str]:
        """Return a sentence on the settings with which rare labels are learned, if there are any."""
        if self.class_weights != BALANCED or not is_uneven(labels, counts):
            return []
        settings = f"task.score={self.score.value}, task.class_weights={BALANCED}"
        if self.threshold is not None:
            settings += f", task.threshold={self.threshold}"
        label = max(labels, key=lambda label: counts[label])
        share = counts[label] / sum(counts.values())
        return [f"{share:.0%} of the training rows are {label!r}, hence {settings}"]


def is_uneven(labels: Sequence[str], counts: Mapping[str, int]) -> bool:
    """Return whether one of the labels has more than `UNEVEN` of the rows."""
    return max(counts[label] for label in labels) > UNEVEN * sum(counts[label] for label in labels)


class Classification(Task):
    """Predicts one label for the whole sequence.

    With two labels, the scores of two classes refer to the one with the id `positive`: `positive_label` of the
    settings, or the last label if they name none. `threshold` is the probability from which it is predicted. Without
    one, or until scoring has fitted it, the more probable label is.
    """

    config: ClassificationConfig

    def __init__(
        self, config: ClassificationConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int
    ) -> None:
        super().__init__(config, tokenizer, labels, max_length, config.main_score_of(labels))
        self.threshold, self.positive = config.two_class_rule(self.labels)
        window_pooling = None if self.windows is None else self.windows.pooling
        self.heads = HeadSizes(sequence_classes=len(self.labels) or 1, window_pooling=window_pooling)

    def targets(self, targets: Iterable[Any]) -> Targets:
        return class_targets(targets)

    def label_weights(self, train: SplitSurvey) -> LabelWeights | None:
        return class_weights(self.config, self.labels, train)

    def metrics(self) -> ClassificationMetrics:
        from encoderlab.metrics.texts import ClassificationMetrics

        return ClassificationMetrics(self.labels, self.main_score, self.positive, self.threshold)

    def fitted_on(self, held_out: SplitScores | None) -> Task:
        """Return the task with the threshold that was fitted on validation, or 0.5 without any."""
        from encoderlab.metrics.calibration import DEFAULT
        from encoderlab.metrics.texts import ClassificationScores

        if not self.config.fits_thresholds:
            return self
        fitted = held_out.threshold if isinstance(held_out, ClassificationScores) else None
        config = replace(self.config, threshold=DEFAULT if fitted is None else fitted)
        return config.build(self.tokenizer, self.labels, self.max_length)

    def threshold_notes(self, scores: Mapping[str, PredictionScores]) -> list[str]:
        """Return how the threshold was fitted, and which precision it missed."""
        from encoderlab.metrics.calibration import DEFAULT
        from encoderlab.metrics.texts import ClassificationScores

        if not self.config.fits_thresholds:
            return []
        setting = f"task.threshold={self.config.threshold}"
        held_out = scores.get("validation")
        if not isinstance(held_out, ClassificationScores) or held_out.threshold is None:
            return [f"There is no validation split to fit {setting} on, so it is {DEFAULT}"]
        label = held_out.positive_label
        notes = [f"The threshold of {label!r}, {held_out.threshold:.3f}, was fitted on validation ({setting})"]
        rule = threshold_rule(self.config)
        reached = held_out.per_class[str(label)]["precision"]
        if rule is not None and rule.precision is not None and reached < rule.precision:
            missed = f"a precision of {rule.precision:g} on validation: the best has {reached:.3f}"
            notes.append(f"No threshold gives {label!r} {missed}")
        return notes

    def predictions_of(self, logits: Float[Tensor, "rows classes"]) -> list[RowPrediction]:
        """Return the most probable label of each row; the positive label is predicted from its threshold."""
        from encoderlab.metrics.texts import predict_from

        predictions = super().predictions_of(logits)
        if self.threshold is None or self.threshold.known is None:
            return predictions
        probabilities = logits.cpu().double().softmax(-1)[:, self.positive].numpy()  # MPS has no float64
        ids = predict_from(probabilities, self.threshold.known, self.positive)
        pairs = zip(predictions, ids.tolist(), strict=True)
        return [RowPrediction((self.labels[id_],), prediction.probabilities) for prediction, id_ in pairs]


def class_weights(config: LabelledTaskConfig, labels: Sequence[str], train: SplitSurvey) -> LabelWeights | None:
    """Return the weights of classes in the loss, by the settings and the frequencies in training; None: all alike.

    The mean weight of a training row (or word) is 1, so that weights do not change the size of steps. Raises
    SettingError for the weight of an unknown label.
    """
    import torch

    weights = config.known_class_weights
    if weights is None:
        return None
    counts = torch.tensor([train.labels[label] for label in labels], dtype=torch.float64)
    if isinstance(weights, str):
        rarer = 1 / counts.clamp(min=1)
    else:
        rarer = torch.tensor(weights_by_label(weights, labels), dtype=torch.float64)
    rarer = rarer * counts.sum() / (rarer * counts).sum()
    return rarer.float()


def weights_by_label(weights: Mapping[str, float], labels: Sequence[str]) -> list[float]:
    """Return the user's weight of each label, 1 if none is set. Raises SettingError for an unknown label."""
    for label in weights:
        refuse_unknown_label("task.class_weights", label, labels)
    return [weights.get(label, 1.0) for label in labels]


def threshold_rule(config: ClassificationConfig) -> ThresholdRule | None:
    """Return how the positive label's threshold is set; None: predict the more probable label. Raises SettingError."""
    from encoderlab.metrics.calibration import ThresholdRule

    threshold = config.threshold
    if threshold is None:
        return None
    if threshold == "f1":
        return ThresholdRule()
    is_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if is_number and 0 <= threshold <= 1:
        return ThresholdRule(known=float(threshold))
    requested = re.fullmatch(r"precision:(\d*\.?\d+)", str(threshold))
    if requested is None or not 0 < float(requested[1]) <= 1:
        allowed = "a probability from 0 to 1, f1, or precision:P with P above 0, at most 1"
        raise SettingError(f"task.threshold is {threshold}", allowed=allowed)
    return ThresholdRule(precision=float(requested[1]))


def _positive_class(config: ClassificationConfig, labels: Sequence[str]) -> int:
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
            problem = f"task.{name}={getattr(config, name)} needs two labels, but the data has {len(labels)}"
            raise SettingError(
                problem, remedy="Remove it, or set task=multilabel, which has a threshold for each label"
            )
    if config.score is ClassificationScore.f1:
        problem = f"task.score=f1 needs two labels, but the data has {len(labels)}"
        raise SettingError(problem, remedy="Set task.score=f1_macro or task.score=f1_weighted")
    return 1
