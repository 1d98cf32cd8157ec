"""Scores of sequence classification: one class for each example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch.nn.functional import cross_entropy

from encoderlab.metrics.scores import (
    PredictionScores,
    TextMetrics,
    class_columns,
    class_scores,
    per_class_and_confusion,
    refuse_non_finite,
    with_bounds,
)
from encoderlab.metrics.thresholds import ThresholdRule


@dataclass(frozen=True, kw_only=True)
class Scores(PredictionScores):
    """The scores of one split. `labels` and `predicted` are class ids, [n]; `probabilities` is [n, classes], None if
    they are not known.

    `confusion` has a row for each true class and a column for each predicted one. `positive` is the id of the class
    that scores of two classes are about, such as `f1`; None for other numbers of classes. `threshold` is the
    probability from which it is predicted, None if the more probable class is.
    """

    per_class: dict[str, dict[str, float]]
    confusion: list[list[int]]
    probabilities: np.ndarray | None
    label_names: list[str]
    main: str = "accuracy"
    positive: int | None = None
    threshold: float | None = None

    @property
    def positive_label(self) -> str | None:
        """Return the name of the `positive` class."""
        return None if self.positive is None else self.label_names[self.positive]

    def kinds(self, *predicted: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        ids, counts = np.unique(np.stack([self.labels, *predicted], axis=1), axis=0, return_counts=True)
        return [columns_of(ids[:, 0], side, len(self.label_names)) for side in ids.T[1:]], counts

    def scores_of(self, totals: np.ndarray) -> dict[str, np.ndarray]:
        return class_scores(totals, self.positive)

    def as_dict(self) -> dict[str, Any]:
        named = {} if self.positive is None else {"positive_label": self.positive_label}
        named |= {} if self.threshold is None else {"threshold": self.threshold}
        figures = with_bounds(self.figures, self.intervals)
        return {"n": self.n, **named, **figures, "per_class": self.per_class, "confusion": self.confusion}


def columns_of(labels: np.ndarray, predicted: np.ndarray, n_classes: int) -> np.ndarray:
    """Return `class_columns` of examples with one prediction each: class ids, [n]."""
    one_hot = np.eye(n_classes, dtype=np.int64)
    right = (labels == predicted).astype(np.int64)
    return class_columns(right, one_hot[labels] * right[:, None], one_hot[labels], one_hot[predicted])


def classification_scores(
    labels: np.ndarray, predicted: np.ndarray, names: Sequence[str], main: str, positive: int
) -> Scores:
    """Return the scores of predictions without probabilities, such as a baseline's: class ids [n] each.

    Macro F1 is the plain mean over the classes that occur as a label or a prediction (scikit-learn's rule): a class
    that a split does not have says nothing about the model.
    """
    per_class, confusion = per_class_and_confusion(labels, predicted, names)
    scores = Scores(
        n=len(labels),
        figures={},
        per_class=per_class,
        confusion=confusion,
        rows=np.arange(len(labels)),
        labels=labels,
        predicted=predicted,
        probabilities=None,
        label_names=list(names),
        main=main,
        positive=positive if len(names) == 2 else None,
    )
    [columns], counts = scores.kinds(predicted)
    figures = {name: float(value[0]) for name, value in scores.scores_of((counts @ columns)[None]).items()}
    del figures["token_accuracy"]
    return replace(scores, figures=figures)


class ClassificationMetrics(TextMetrics):
    """Collects one prediction for each example.

    `labels` names the classes in the order of their ids. `main` is the score that a report puts first. Of two classes,
    `positive` is the id of the one that `f1` and `roc_auc` are about, and `threshold` says from which probability on it
    is predicted; one that is not known is fitted on the scored rows themselves. None: the more probable class is.
    """

    def __init__(
        self, labels: Sequence[str], main: str = "accuracy", positive: int = 1, threshold: ThresholdRule | None = None
    ) -> None:
        super().__init__()
        self.labels, self.main, self.threshold, self.positive = list(labels), main, threshold, positive

    def scores(self) -> Scores:
        """Return `loss` (mean cross entropy of an example, in nats), `accuracy`, `f1_macro`, `f1_weighted` and
        `matthews` (Matthews correlation).

        For two classes also `f1`, `roc_auc` and `average_precision` of the positive one; the last two are left out
        where the split holds one class only.
        """
        rows, labels, logits = self._in_order()
        labels = labels.long()
        losses = cross_entropy(logits, labels, reduction="none").double().numpy()
        refuse_non_finite(losses)
        probabilities = logits.double().softmax(-1).numpy()
        return self._scored(rows.numpy(), labels.numpy(), probabilities, float(losses.mean()))

    def _scored(self, rows: np.ndarray, labels: np.ndarray, probabilities: np.ndarray, loss: float) -> Scores:
        positive, chances = labels == self.positive, probabilities[:, self.positive]
        threshold = None if self.threshold is None else self.threshold.on(chances, positive)
        predicted = probabilities.argmax(-1) if threshold is None else predict_from(chances, threshold, self.positive)
        scores = classification_scores(labels, predicted, self.labels, self.main, self.positive)
        figures = {"loss": loss, **scores.figures}
        if scores.positive is not None and len(np.unique(labels)) == 2:
            from sklearn.metrics import average_precision_score, roc_auc_score

            figures["roc_auc"] = float(roc_auc_score(positive, chances))
            figures["average_precision"] = float(average_precision_score(positive, chances))
        return replace(scores, figures=figures, rows=rows, probabilities=probabilities, threshold=threshold)


def predict_from(chances: np.ndarray, threshold: float, positive: int) -> np.ndarray:
    """Return the `positive` class of two if its probability is at least the threshold, else the other: [n] -> class ids
    [n].
    """
    return np.where(chances >= threshold, positive, 1 - positive)
