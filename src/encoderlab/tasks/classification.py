"""Classification: one label for a whole text, or for a pair of texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from encoderlab.errors import SettingError
from encoderlab.network.config import HeadSizes
from encoderlab.settings import setting
from encoderlab.tasks.task import (
    BALANCED,
    LabelledTaskConfig,
    RowPrediction,
    Task,
    TextTaskConfig,
    check_score,
    class_targets,
    refuse_unknown_label,
    score_name,
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


class ClassificationScore(StrEnum):
    """Scores that can select the best checkpoint of a classification run and lead its report."""

    auto = "auto"  # decided by the frequencies of the labels: see `ClassificationConfig.settled`
    accuracy = "accuracy"
    f1_macro = "f1_macro"
    f1_weighted = "f1_weighted"
    f1 = "f1"  # of two classes
    f_beta = "f_beta"  # of two classes, with task.beta
    matthews = "matthews"
    cohen_kappa = "cohen_kappa"


@dataclass
class ClassificationConfig(TextTaskConfig, LabelledTaskConfig):
    """One label for a whole text, or for a pair of texts."""

    one_class_per_text: ClassVar[bool] = True

    score: str = setting(
        "auto",
        "Score that selects the best checkpoint and leads the report: accuracy, f1_macro, f1_weighted, f1, f_beta, "
        "matthews, cohen_kappa, or a function of your own of labels and predictions, module:function; auto: accuracy "
        "or, if one label has more than 90% of the training rows, f1 (f1_macro of more than two labels) with balanced "
        "class_weights and threshold=f1.",
    )
    beta: float | None = setting(
        None, "Of two labels, also score F-beta, in which recall weighs so many times as much as precision.", above=0
    )
    positive_label: str | None = setting(
        None, "Of two labels, the positive one for F1 and ROC AUC; null: the rarer one in the training rows."
    )
    threshold: Any = setting(
        None,
        "Probability from which the positive label is predicted, or how to fit it on validation: f1, or precision:0.9.",
    )
    thresholds: Any = setting(
        None,
        "The same for labels by name, also of more than two: {fraud: 0.3, spam: f1}. A label is predicted from its "
        "threshold on; where none is reached, the most probable of the others.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_score(self.score, ClassificationScore)
        if self.score == ClassificationScore.f_beta and self.beta is None:
            raise SettingError("task.score=f_beta needs task.beta", remedy="Set task.beta=2, or task.score=f1")
        if self.thresholds is None:
            return
        if self.threshold is not None:
            problem = f"task.threshold={self.threshold} and task.thresholds={self.thresholds} are both set"
            raise SettingError(problem, remedy="Remove one of them")
        if not isinstance(self.thresholds, dict):
            raise SettingError(f"task.thresholds is {self.thresholds}", allowed="a threshold by label: {fraud: 0.3}")
        for label, threshold in self.thresholds.items():
            parsed_rule(f"task.thresholds.{label}", threshold)

    def build(self, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> Classification:
        return Classification(self, tokenizer, labels, max_length)

    @property
    def fits_thresholds(self) -> bool:
        return any(isinstance(threshold, str) for threshold in (self.threshold, *self.known_thresholds.values()))

    @property
    def known_thresholds(self) -> dict[str, Any]:
        """Return `thresholds` by label; YAML reads some labels as numbers."""
        return {str(label): threshold for label, threshold in (self.thresholds or {}).items()}

    def threshold_rules(self, labels: Sequence[str]) -> dict[str, ThresholdRule]:
        """Return how the thresholds of labels are set, by label. Raises SettingError for an unknown one."""
        if self.threshold is not None:
            return {labels[_positive_class(self, labels)]: parsed_rule("task.threshold", self.threshold)}
        for label in self.known_thresholds:
            refuse_unknown_label("task.thresholds", label, labels)
        by_label = self.known_thresholds.items()
        return {label: parsed_rule(f"task.thresholds.{label}", threshold) for label, threshold in by_label}

    def two_class_rule(self, labels: Sequence[str]) -> tuple[ThresholdRule | None, int]:
        positive = _positive_class(self, labels)
        rules = self.threshold_rules(labels)
        return (rules.get(labels[positive]) if len(labels) == 2 else None), positive

    @property
    def exported_thresholds(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if self.positive_label is not None:
            fields["positive_label"] = self.positive_label
        if self.threshold is not None:
            fields["thresholds"] = {self.positive_label: self.threshold}
        elif self.thresholds:
            fields["thresholds"] = self.known_thresholds
        return fields

    def main_score_of(self, labels: Sequence[str]) -> str:
        return "accuracy" if self.score == ClassificationScore.auto else score_name(self.score)

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
        if self.score == ClassificationScore.auto and is_uneven(labels, counts):
            decided["score"] = "f1" if has_two_labels else "f1_macro"
            decided["class_weights"] = self.class_weights or BALANCED
            has_none = self.threshold is None and self.thresholds is None
            if has_none and has_two_labels and has_validation:
                decided["threshold"] = "f1"
        elif self.score == ClassificationScore.auto:
            decided["score"] = "accuracy"
        config = replace(self, **decided)
        return config, config._rare_labels_note(labels, counts)

    def _rare_labels_note(self, labels: Sequence[str], counts: Mapping[str, int]) -> list[str]:
        """Return a sentence on the settings with which rare labels are learned, if there are any."""
        if self.class_weights != BALANCED or not is_uneven(labels, counts):
            return []
        settings = f"task.score={self.score}, task.class_weights={BALANCED}"
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
    settings, or the last label if they name none. `thresholds` say how the probability from which a label is predicted
    is set. Without them, or until scoring has fitted them, the most probable label is predicted.
    """

    config: ClassificationConfig

    def __init__(
        self, config: ClassificationConfig, tokenizer: Tokenizer, labels: Sequence[str], max_length: int
    ) -> None:
        super().__init__(config, tokenizer, labels, max_length, config.main_score_of(labels))
        _, self.positive = config.two_class_rule(self.labels)
        self.thresholds = config.threshold_rules(self.labels)
        window_pooling = None if self.windows is None else self.windows.pooling
        self.heads = HeadSizes(sequence_classes=len(self.labels) or 1, window_pooling=window_pooling)

    def targets(self, targets: Iterable[Any]) -> Targets:
        return class_targets(targets)

    def label_weights(self, train: SplitSurvey) -> LabelWeights | None:
        return class_weights(self.config, self.labels, train)

    def metrics(self) -> ClassificationMetrics:
        from encoderlab.metrics.texts import ClassificationMetrics

        rules = {self.labels.index(label): rule for label, rule in self.thresholds.items()}
        beta = self.config.beta
        return ClassificationMetrics(self.labels, self.main_score, self.positive, rules, beta=beta, own=self.own_score)

    def fitted_on(self, held_out: SplitScores | None) -> Task:
        """Return the task with the thresholds that were fitted on validation, or 0.5 without any."""
        from encoderlab.metrics.calibration import DEFAULT
        from encoderlab.metrics.texts import ClassificationScores

        if not self.config.fits_thresholds:
            return self
        fitted = held_out.thresholds if isinstance(held_out, ClassificationScores) else {}
        known = {}
        for label, rule in self.thresholds.items():
            known[label] = fitted.get(label, DEFAULT if rule.known is None else rule.known)
        if self.config.threshold is None:
            config = replace(self.config, thresholds=known)
        else:
            config = replace(self.config, threshold=known[self.labels[self.positive]])
        return config.build(self.tokenizer, self.labels, self.max_length)

    def threshold_notes(self, scores: Mapping[str, PredictionScores]) -> list[str]:
        """Return how thresholds were fitted, and which precision each missed."""
        from encoderlab.metrics.calibration import DEFAULT
        from encoderlab.metrics.texts import ClassificationScores

        held_out = scores.get("validation")
        notes = []
        for label, rule in self.thresholds.items():
            if rule.known is not None:
                continue
            wish = "f1" if rule.precision is None else f"precision:{rule.precision:g}"
            setting = "task.threshold=" if self.config.threshold is not None else f"task.thresholds of {label!r}: "
            if not isinstance(held_out, ClassificationScores) or label not in held_out.thresholds:
                notes.append(f"There is no validation split to fit {setting}{wish} on, so it is {DEFAULT}")
                continue
            fitted = held_out.thresholds[label]
            notes.append(f"The threshold of {label!r}, {fitted:.3f}, was fitted on validation ({setting}{wish})")
            reached = held_out.per_class[label]["precision"]
            if rule.precision is not None and reached < rule.precision:
                missed = f"a precision of {rule.precision:g} on validation: the best has {reached:.3f}"
                notes.append(f"No threshold gives {label!r} {missed}")
        return notes

    def predictions_of(self, logits: Float[Tensor, "rows classes"]) -> list[RowPrediction]:
        """Return the label of each row: the most probable one, unless thresholds decide."""
        from encoderlab.metrics.texts import predict_from

        predictions = super().predictions_of(logits)
        known = {
            self.labels.index(label): rule.known for label, rule in self.thresholds.items() if rule.known is not None
        }
        if len(known) < len(self.thresholds) or not known:
            return predictions
        probabilities = logits.cpu().double().softmax(-1).numpy()  # MPS has no float64
        ids = predict_from(probabilities, known)
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


def parsed_rule(setting: str, threshold: Any) -> ThresholdRule:
    """Return how a threshold is found, by the value of the `setting`. Raises SettingError for another value."""
    from encoderlab.metrics.calibration import ThresholdRule

    if threshold == "f1":
        return ThresholdRule()
    is_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if is_number and 0 <= threshold <= 1:
        return ThresholdRule(known=float(threshold))
    requested = re.fullmatch(r"precision:(\d*\.?\d+)", str(threshold))
    if requested is None or not 0 < float(requested[1]) <= 1:
        allowed = "a probability from 0 to 1, f1, or precision:P with P above 0, at most 1"
        raise SettingError(f"{setting} is {threshold}", allowed=allowed)
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
    for name in ("positive_label", "threshold", "beta"):
        if getattr(config, name) is not None:
            problem = f"task.{name}={getattr(config, name)} needs two labels, but the data has {len(labels)}"
            remedy = "Remove it"
            if name == "threshold":
                remedy += f", or name the label: task.thresholds={{{labels[-1]}: {config.threshold}}}" if labels else ""
            raise SettingError(problem, remedy=remedy)
    if config.score == ClassificationScore.f1:
        problem = f"task.score=f1 needs two labels, but the data has {len(labels)}"
        raise SettingError(problem, remedy="Set task.score=f1_macro or task.score=f1_weighted")
    return 1
