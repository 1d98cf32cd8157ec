"""Scores of whole texts: a class, a set of labels or a number for each row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from encoderlab.metrics.calibration import DEFAULT, ThresholdRule, fit_thresholds, threshold_for_precision
from encoderlab.metrics.intervals import middle
from encoderlab.metrics.scores import (
    PredictionScores,
    TextMetrics,
    class_columns,
    class_scores,
    confusion,
    f1_macro,
    per_class,
    refuse_non_finite,
    share,
)

DIGITS = 6  # reported digits of a number, counted from the size of the standard deviation: float32 has no more


@dataclass(frozen=True, kw_only=True)
class ClassificationScores(PredictionScores):
    """The scores of one split. `labels` and `predicted` are class ids, [n]; `probabilities` is [n, classes], None if
    they are not known.

    `confusion` has a row for each true class and a column for each predicted one. `positive` is the id of the class
    that scores of two classes are about, such as `f1`; None for other numbers of classes. `threshold` is the
    probability from which it is predicted, None if the more probable class is. Logits were divided by the
    `temperature`, None: by none.
    """

    per_class: dict[str, dict[str, float]]
    confusion: list[list[int]]
    label_names: list[str]
    main: str = "accuracy"
    probabilities: np.ndarray | None = None
    positive: int | None = None
    threshold: float | None = None
    temperature: float | None = None

    @property
    def positive_label(self) -> str | None:
        """Return the name of the `positive` class."""
        return None if self.positive is None else self.label_names[self.positive]

    def kinds(self, *others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ids, counts = np.unique(np.stack([self.labels, self.predicted, *others]), axis=1, return_counts=True)
        labels, *sides = np.eye(len(self.label_names), dtype=np.int64)[ids]
        columns = [class_columns((labels & side).sum(1), labels & side, labels, side) for side in sides]
        return np.stack(columns, axis=1), counts

    def scores_of(self, totals: np.ndarray) -> dict[str, np.ndarray]:
        scores = class_scores(totals, self.positive)
        del scores["token_accuracy"]
        return scores

    def details(self) -> dict[str, Any]:
        positive = {} if self.positive is None else {"positive_label": self.positive_label}
        threshold = {} if self.threshold is None else {"threshold": self.threshold}
        return {**positive, **threshold, "per_class": self.per_class, "confusion": self.confusion}


def classification_scores(
    labels: np.ndarray, predicted: np.ndarray, names: Sequence[str], main: str, positive: int
) -> ClassificationScores:
    """Return the scores of class ids, [n] each.

    Macro F1 is the plain mean over the classes that occur as a label or a prediction (scikit-learn's rule): a class
    that a split does not have says nothing about the model.
    """
    return ClassificationScores.of(
        labels,
        predicted,
        per_class=per_class(labels, predicted, names),
        confusion=confusion(labels, predicted, names),
        label_names=list(names),
        main=main,
        positive=positive if len(names) == 2 else None,
    )


class ClassificationMetrics(TextMetrics):
    """Collects one prediction for each row.

    `labels` names the classes in the order of their ids. `main` is the score that a report puts first. Of two classes,
    `positive` is the id of the one that `f1` and `roc_auc` are about, and `threshold` says from which probability on it
    is predicted; one that is not known is fitted on the scored rows themselves. None: the more probable class is.
    """

    def __init__(
        self, labels: Sequence[str], main: str = "accuracy", positive: int = 1, threshold: ThresholdRule | None = None
    ) -> None:
        super().__init__()
        self.labels, self.main, self.threshold, self.positive = list(labels), main, threshold, positive

    def scores(self) -> ClassificationScores:
        """Return `loss` (mean cross entropy of a row, in nats), `accuracy`, `f1_macro`, `f1_weighted` and `matthews`
        (Matthews correlation).

        For two classes also `f1`, `roc_auc` and `average_precision` of the positive one; the last two are left out
        where the split holds one class only.
        """
        rows, targets, logits = self._in_order()
        losses = cross_entropy(logits, targets.long(), reduction="none").double().numpy()
        refuse_non_finite(losses)
        labels, probabilities = targets.long().numpy(), logits.double().softmax(-1).numpy()
        positive, chances = labels == self.positive, probabilities[:, self.positive]
        threshold = None if self.threshold is None else self.threshold.on(chances, positive)
        predicted = probabilities.argmax(-1) if threshold is None else predict_from(chances, threshold, self.positive)
        scores = classification_scores(labels, predicted, self.labels, self.main, self.positive)
        values = {"loss": float(losses.mean()), **scores.values}
        if scores.positive is not None and len(np.unique(labels)) == 2:
            from sklearn.metrics import average_precision_score, roc_auc_score

            values["roc_auc"] = float(roc_auc_score(positive, chances))
            values["average_precision"] = float(average_precision_score(positive, chances))
        return replace(scores, values=values, rows=rows, probabilities=probabilities, threshold=threshold)


def predict_from(chances: np.ndarray, threshold: float, positive: int) -> np.ndarray:
    """Return the `positive` class of two if its probability is at least the threshold, else the other: [n] -> class ids
    [n].
    """
    return np.where(chances >= threshold, positive, 1 - positive)


@dataclass(frozen=True, kw_only=True)
class LabelSetScores(PredictionScores):
    """The scores of one split. `labels` and `predicted` are bool [n, labels], `probabilities` float64 of that shape.

    `thresholds` are the probabilities from which each label is predicted, [labels].
    """

    per_class: dict[str, dict[str, Any]]
    probabilities: np.ndarray
    thresholds: np.ndarray
    label_names: list[str]

    def kinds(self, *others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return 1, whether the row is wholly right, and for each label its hits and occurrences (as a label and as a
        prediction).
        """
        sides = np.stack([self.predicted, *others], axis=1)
        labels = self.labels[:, None]
        hits, occurrences, right = labels & sides, labels.astype(np.int64) + sides, (labels == sides).all(-1)
        columns = [np.ones_like(right)[..., None], right[..., None], hits, occurrences]
        return np.concatenate(columns, axis=-1, dtype=np.int64), np.ones(self.n, np.int64)

    def scores_of(self, totals: np.ndarray) -> dict[str, np.ndarray]:
        hits, occurrences = np.split(totals[..., 2:], 2, axis=-1)
        return {
            "f1_micro": share(2 * hits.sum(-1), occurrences.sum(-1)),
            "f1_macro": f1_macro(hits, occurrences),
            "subset_accuracy": share(totals[..., 1], totals[..., 0]),
        }

    def details_with_intervals(self, totals: np.ndarray) -> dict[str, Any]:
        hits, occurrences = np.split(totals[:, 2:], 2, axis=1)
        f1 = share(2 * hits, occurrences).T
        labels = zip(self.per_class.items(), f1, strict=True)
        return {"per_class": {name: scores | {"f1_ci95": middle(drawn)} for (name, scores), drawn in labels}}

    def details(self) -> dict[str, Any]:
        return {"per_class": self.per_class}


def label_set_scores(labels: np.ndarray, predicted: np.ndarray, names: Sequence[str], main: str) -> LabelSetScores:
    """Return the scores of label sets, bool [n, labels] each.

    They are `f1_micro`, `f1_macro` (over the labels that occur) and `subset_accuracy`.
    """
    return LabelSetScores.of(
        labels,
        predicted,
        per_class=per_class(labels.astype(np.int64), predicted.astype(np.int64), names),
        probabilities=predicted.astype(np.float64),
        thresholds=np.full(len(names), DEFAULT),
        label_names=list(names),
        main=main,
    )


class LabelSetMetrics(TextMetrics):
    """Collects a probability of each label for each row.

    `labels` names them in the order of their ids. `thresholds` maps a label's name to the probability from which it is
    predicted. Those of other labels are fitted to the very rows that are scored (`fit_thresholds`), or for the label's
    precision in `precisions`. `main` names the score that a report puts first.
    """

    def __init__(
        self,
        labels: Sequence[str],
        thresholds: Mapping[str, float],
        main: str,
        precisions: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__()
        self.labels, self.thresholds, self.main = list(labels), dict(thresholds), main
        self.precisions = dict(precisions or {})

    def scores(self) -> LabelSetScores:
        """Return `loss` (mean binary cross entropy of a label, in nats), the scores of `label_set_scores`, and
        `average_precision_macro` over the labels that any row has. `per_class` adds each label's own and its threshold.
        """
        from sklearn.metrics import average_precision_score

        rows, targets, logits = self._in_order()
        losses = binary_cross_entropy_with_logits(logits, targets, reduction="none").double().mean(1).numpy()
        refuse_non_finite(losses)
        labels, probabilities = targets.numpy() > 0, logits.double().sigmoid().numpy()
        thresholds = self._thresholds(probabilities, labels)
        scores = label_set_scores(labels, probabilities >= thresholds, self.labels, self.main)
        columns = zip(labels.T, probabilities.T, strict=True)  # of labels; one that no row has is not ranked
        precisions = np.array([average_precision_score(*one) if one[0].any() else np.nan for one in columns])
        mean_precision = float(np.nanmean(precisions)) if labels.any() else 0.0
        for own, precision, threshold in zip(scores.per_class.values(), precisions, thresholds, strict=True):
            own["average_precision"] = None if np.isnan(precision) else float(precision)
            own["threshold"] = float(threshold)
        return replace(
            scores,
            values={"loss": float(losses.mean()), **scores.values, "average_precision_macro": mean_precision},
            rows=rows,
            probabilities=probabilities,
            thresholds=thresholds,
        )

    def _thresholds(self, probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
        if len(self.thresholds) == len(self.labels):
            return np.array([self.thresholds[name] for name in self.labels])
        fitted = fit_thresholds(probabilities, labels)
        for name, precision in self.precisions.items():
            label = self.labels.index(name)
            fitted[label] = threshold_for_precision(probabilities[:, label], labels[:, label], precision)
        return np.array([self.thresholds.get(name, own) for name, own in zip(self.labels, fitted, strict=True)])


@dataclass(frozen=True, kw_only=True)
class NumberScores(PredictionScores):
    """The scores of one split. `labels` and `predicted` are float64 [n], in the user's units.

    The intervals of Spearman's correlation resample the ranks that the rows have in the whole split.
    """

    def kinds(self, *others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sides = [_columns(self.labels, np.asarray(side, np.float64)) for side in (self.predicted, *others)]
        return np.stack(sides, axis=1), np.ones(self.n, np.int64)

    def scores_of(self, totals: np.ndarray) -> dict[str, np.ndarray]:
        n = totals[..., 0]
        return {
            "pearson": _correlation(n, totals[..., 1:6]),
            "spearman": _correlation(n, totals[..., 6:11]),
            "mae": totals[..., 11] / n,
            "rmse": np.sqrt(totals[..., 12] / n),
        }


def number_scores(labels: np.ndarray, predicted: np.ndarray, main: str) -> NumberScores:
    """Return `pearson`, `spearman`, `mae` (mean absolute error) and `rmse` (root mean squared error) of float64 numbers
    [n].

    A correlation is 0 if either side is constant, which leaves it undefined.
    """
    return NumberScores.of(labels, predicted, main=main)


def _columns(labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return what each row adds to the sums that scores are computed from: [n, 13]."""
    from scipy.stats import rankdata

    error = predicted - labels
    moments = [_moments(labels, predicted), _moments(rankdata(labels), rankdata(predicted))]
    return np.concatenate([np.ones((len(labels), 1)), *moments, np.abs(error)[:, None], error[:, None] ** 2], axis=1)


def _moments(labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    x, y = labels - labels.mean(), predicted - predicted.mean()
    return np.stack([x, y, x * x, y * y, x * y], axis=1)


def _correlation(n: np.ndarray, moments: np.ndarray) -> np.ndarray:
    x, y, xx, yy, xy = np.moveaxis(moments, -1, 0)
    covariance, spread_x, spread_y = n * xy - x * y, n * xx - x * x, n * yy - y * y
    is_constant = (spread_x <= 1e-12 * n * xx) | (spread_y <= 1e-12 * n * yy)  # but for rounding
    scale = np.sqrt(np.where(is_constant, 1.0, spread_x) * np.where(is_constant, 1.0, spread_y))
    return np.clip(np.where(is_constant, 0.0, covariance / scale), -1, 1)


class RegressionMetrics(TextMetrics):
    """Collects a number for each row, and scores them in the user's units: a scaled number times `deviation`, plus
    `mean`.

    `main` names the score that a report puts first.
    """

    def __init__(self, mean: float, deviation: float, main: str) -> None:
        super().__init__()
        self.mean, self.deviation, self.main = mean, deviation, main

    def scores(self) -> NumberScores:
        """Return `loss` (mean squared error of the scaled numbers) and the scores of `number_scores`."""
        rows, targets, logits = self._in_order()
        scaled = targets.double().numpy(), logits[:, 0].double().numpy()
        losses = (scaled[1] - scaled[0]) ** 2
        refuse_non_finite(losses)
        labels, predicted = (rounded(side * self.deviation + self.mean, self.deviation) for side in scaled)
        scores = number_scores(labels, predicted, self.main)
        return replace(scores, values={"loss": float(losses.mean()), **scores.values}, rows=rows)


def rounded(numbers: np.ndarray, deviation: float) -> np.ndarray:
    """Return the numbers rounded to about a millionth of their standard deviation."""
    return np.round(numbers.astype(np.float64), DIGITS - math.floor(math.log10(deviation)))
