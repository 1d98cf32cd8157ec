"""Scores of whole texts: a class, a set of labels or a number for each row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from encoderlab.metrics.calibration import ThresholdRule, fit_thresholds
from encoderlab.metrics.own import OwnScore
from encoderlab.metrics.scores import (
    ClassScores,
    PredictionScores,
    TextMetrics,
    cross_entropy_of_frequencies,
    f1_sample_size,
    precision_recall_f1,
    refuse_non_finite,
)

DIGITS = 6  # reported digits of a number, counted from the size of the standard deviation: float32 has no more


@dataclass(frozen=True, kw_only=True)
class ClassificationScores(ClassScores):
    """The scores of one split. `labels` and `predicted` are class ids, [n]; `probabilities` is [n, classes], None if
    they are not known.

    `positive` is the id of the class that scores of two classes are about, such as `f1`; None for other numbers of
    classes. `thresholds` are the probabilities from which classes are predicted, by name; see `predict_from`. Logits
    were divided by the `temperature`, None: by none. `beta` is that of F-beta, if it is asked for.
    """

    NAMES = ("accuracy", "f1_macro", "f1_weighted", "matthews", "cohen_kappa")
    main_score: str = "accuracy"
    probabilities: np.ndarray | None = None
    positive: int | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)
    temperature: float | None = None
    beta: float | None = None

    def in_words(self, predicted: np.ndarray) -> np.ndarray:
        return np.array(self.label_names)[predicted]

    @property
    def positive_label(self) -> str | None:
        """Return the name of the `positive` class."""
        return None if self.positive is None else self.label_names[self.positive]

    @property
    def threshold(self) -> float | None:
        """Return the threshold of the `positive` class; None if it has none."""
        return self.thresholds.get(self.positive_label or "")

    def kinds(self, *others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ids, counts = np.unique(np.stack([self.labels, self.predicted, *others]), axis=1, return_counts=True)
        labels, *sides = np.eye(len(self.label_names), dtype=np.int64)[ids]
        columns = [self.columns((labels & side).sum(1), labels & side, labels, side) for side in sides]
        return np.stack(columns, axis=1), counts

    def scores_of(self, totals: np.ndarray) -> dict[str, np.ndarray]:
        scores = super().scores_of(totals)
        if self.positive is not None:
            counts = self.counts(totals)[..., self.positive]
            scores["f1"] = precision_recall_f1(counts[..., None])["f1"][..., 0]
            if self.beta is not None:
                hits, labels, predicted = np.moveaxis(counts, -1, 0)
                squared = self.beta**2
                below = squared * labels + predicted
                scores["f_beta"] = (1 + squared) * hits / np.where(below > 0, below, 1.0)
        return scores

    def sample_sizes(self, totals: np.ndarray) -> dict[str, float]:
        sizes = super().sample_sizes(totals)
        if self.positive is not None:
            sizes["f1"] = sizes["f_beta"] = f1_sample_size(self.counts(totals)[:, self.positive])
        return sizes

    def loss_of_frequencies(self, weights: np.ndarray | None = None) -> float:
        return cross_entropy_of_frequencies(self.labels, len(self.label_names), weights)

    def undefined(self) -> dict[str, str]:
        if len(self.occurring) > 1:
            return {}
        names = ["matthews", "cohen_kappa"]
        if self.positive_label is not None:
            names += ["roc_auc", "average_precision"]
            of_one = ["f1"] if self.beta is None else ["f1", "f_beta"]
            names += of_one if self.positive_label not in self.occurring else []
        only = self.occurring[0] if self.occurring else None
        return dict.fromkeys(names, f"every row has the label {only!r}")

    def details(self) -> dict[str, Any]:
        own = {"positive_label": self.positive_label, "threshold": self.threshold, "beta": self.beta}
        return {name: value for name, value in own.items() if value is not None} | super().details()


def classification_scores(
    labels: np.ndarray, predicted: np.ndarray, names: Sequence[str], main_score: str, positive: int, **fields: Any
) -> ClassificationScores:
    """Return the scores of class ids, [n] each. `positive` is the class that F1 of two is about; `fields` are further
    ones of `ClassificationScores.of`.
    """
    positive_class = positive if len(names) == 2 else None
    return ClassificationScores.from_predictions(
        labels, predicted, label_names=list(names), main_score=main_score, positive=positive_class, **fields
    )


@dataclass(frozen=True)
class ClassificationMetrics(TextMetrics):
    """Scores one prediction for each row.

    Of two classes, `positive` is the id of the one that `f1` and `roc_auc` are about. `thresholds` say from which
    probability on a class is predicted, by its id; one not known is fitted on the scored rows.
    """

    labels: list[str]
    main_score: str = "accuracy"
    positive: int = 1
    thresholds: Mapping[int, ThresholdRule] = field(default_factory=dict)
    beta: float | None = None
    own: OwnScore | None = None

    def scores(self, kept: Sequence[tuple[Tensor, ...]]) -> ClassificationScores:
        """Return `loss` (mean cross entropy of a row, in nats), `accuracy`, `f1_macro`, `f1_weighted`, `matthews`
        (Matthews correlation) and `cohen_kappa`.

        For two classes also `f1`, `roc_auc` and `average_precision` of the positive one; the last two are undefined
        where the split holds one class only.
        """
        rows, targets, logits = self._in_order(kept)
        losses = cross_entropy(logits, targets.long(), reduction="none").double().numpy()
        refuse_non_finite(losses)
        labels = targets.long().numpy()
        probabilities = logits.double().softmax(-1).numpy()
        thresholds = {id_: rule.on(probabilities[:, id_], labels == id_) for id_, rule in self.thresholds.items()}
        scores = classification_scores(
            labels,
            predict_from(probabilities, thresholds),
            self.labels,
            self.main_score,
            self.positive,
            rows=rows,
            loss=float(losses.mean()),
            losses=losses,
            probabilities=probabilities,
            thresholds={self.labels[id_]: threshold for id_, threshold in thresholds.items()},
            beta=self.beta if len(self.labels) == 2 else None,
            own=self.own,
        )
        if thresholds.keys() - {scores.positive}:
            for name, own in scores.per_class.items():
                own["threshold"] = scores.thresholds.get(name)
        if scores.positive is not None and len(np.unique(labels)) == 2:
            positive = labels == self.positive
            chances = probabilities[:, self.positive]
            from sklearn.metrics import average_precision_score, roc_auc_score

            scores.values["roc_auc"] = float(roc_auc_score(positive, chances))
            scores.values["average_precision"] = float(average_precision_score(positive, chances))
        return scores


def predict_from(probabilities: np.ndarray, thresholds: Mapping[int, float]) -> np.ndarray:
    """Return the class of each row, [n], from its probabilities, [n, classes], and the thresholds of some classes.

    A class with a threshold is predicted where its probability reaches that; of several that do, the one that is the
    most times as probable as its threshold. Where none does, it is the most probable class without a threshold. If all
    have one, it is the one that comes nearest to it.
    """
    if not thresholds:
        return probabilities.argmax(-1)
    ids = np.array(list(thresholds))
    bounds = np.array(list(thresholds.values()))
    ratios = probabilities[:, ids] / np.maximum(bounds, np.finfo(np.float64).tiny)
    by_threshold = ids[ratios.argmax(-1)]
    others = np.setdiff1d(np.arange(probabilities.shape[1]), ids)
    if not len(others):
        return by_threshold
    by_probability = others[probabilities[:, others].argmax(-1)]
    return np.where((probabilities[:, ids] >= bounds).any(-1), by_threshold, by_probability)


@dataclass(frozen=True, kw_only=True)
class LabelSetScores(ClassScores):
    """The scores of one split. `labels` and `predicted` are bool [n, labels], `probabilities` float64 of that shape.

    `thresholds` are the probabilities from which each label is predicted, [labels]. Both are None if not known.
    """

    NAMES = ("f1_micro", "f1_macro", "subset_accuracy")
    probabilities: Any = None
    thresholds: Any = None

    def kinds(self, *others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sides = np.stack([self.predicted, *others], axis=1)
        labels = np.broadcast_to(self.labels[:, None], sides.shape)
        return self.columns((labels == sides).all(-1), labels & sides, labels, sides), np.ones(self.n, np.int64)

    def loss_of_frequencies(self, weights: np.ndarray | None = None) -> float:
        """Return the mean over the labels of the binary cross entropy of their frequencies; the presence of a label
        weighs so much more than its absence.
        """
        by_label = []
        for column, marks in enumerate(self.labels.T):
            label_weights = None if weights is None else np.array([1.0, weights[column]])
            by_label.append(cross_entropy_of_frequencies(marks.astype(np.int64), 2, label_weights))
        return float(np.mean(by_label))

    def undefined(self) -> dict[str, str]:
        return {} if self.occurring else {"average_precision_macro": "no label applies to any row"}

    def details(self) -> dict[str, Any]:
        return {"per_class": self.per_class}


@dataclass(frozen=True)
class LabelSetMetrics(TextMetrics):
    """Scores a probability of each label for each row.

    `thresholds` maps the name of one of the `labels` to the probability from which it is predicted. Those of other
    labels are fitted to the very rows that are scored (`fit_thresholds`).
    """

    labels: list[str]
    thresholds: Mapping[str, float]
    main_score: str
    own: OwnScore | None = None

    def scores(self, kept: Sequence[tuple[Tensor, ...]]) -> LabelSetScores:
        """Return `loss` (mean binary cross entropy of a label, in nats), `f1_micro`, `f1_macro` (over the labels that
        occur), `subset_accuracy`, and `average_precision_macro` over the labels that any row has. `per_class` adds each
        label's own and its threshold.
        """
        from sklearn.metrics import average_precision_score

        rows, targets, logits = self._in_order(kept)
        losses = binary_cross_entropy_with_logits(logits, targets, reduction="none").double().mean(1).numpy()
        refuse_non_finite(losses)
        labels = targets.numpy() > 0
        probabilities = logits.double().sigmoid().numpy()
        thresholds = self._thresholds_on(probabilities, labels)
        predicted = probabilities >= thresholds
        scores = LabelSetScores.from_predictions(
            labels,
            predicted,
            rows=rows,
            loss=float(losses.mean()),
            losses=losses,
            label_names=self.labels,
            main_score=self.main_score,
            probabilities=probabilities,
            thresholds=thresholds,
            own=self.own,
        )
        precisions = []
        for column, (name, own) in enumerate(scores.per_class.items()):
            assert name == self.labels[column]
            precision = None  # a label that no row has is not ranked
            if labels[:, column].any():
                precision = float(average_precision_score(labels[:, column], probabilities[:, column]))
                precisions.append(precision)
            own["average_precision"] = precision
            own["threshold"] = float(thresholds[column])
        scores.values["average_precision_macro"] = float(np.mean(precisions)) if precisions else 0.0
        return scores

    def _thresholds_on(self, probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the known threshold of each label, or the one fitted to these rows, [labels]."""
        if self.thresholds.keys() >= set(self.labels):
            return np.array([self.thresholds[name] for name in self.labels])
        fitted = fit_thresholds(probabilities, labels)
        return np.array([self.thresholds.get(name, own) for name, own in zip(self.labels, fitted, strict=True)])


@dataclass(frozen=True, kw_only=True)
class NumberScores(PredictionScores):
    """The scores of one split. `labels` and `predicted` are float64 [n], in the user's units.

    They are `pearson`, `spearman`, `mae` (mean absolute error) and `rmse` (root mean squared error). A correlation is 0
    if all predictions are the same, and undefined if all labels are. The intervals of Spearman's resample the ranks
    that the rows have in the whole split.
    """

    def undefined(self) -> dict[str, str]:
        if np.ptp(self.labels) > 0:
            return {}
        return dict.fromkeys(("pearson", "spearman"), f"every row has the number {self.labels[0]:g}")

    def kinds(self, *others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        from scipy.stats import rankdata

        columns = []
        ranks = rankdata(self.labels)
        for side in np.stack([self.predicted, *others]).astype(np.float64):
            errors = side - self.labels
            moments = _moments(self.labels, side)
            rank_moments = _moments(ranks, rankdata(side))
            columns.append((*moments, *rank_moments, abs(errors), errors**2))
        return np.array(columns).transpose(2, 0, 1), np.ones(self.n, np.int64)

    def loss_of_frequencies(self, weights: np.ndarray | None = None) -> float | None:
        """Return the loss of predicting the mean for every row."""
        if not self.values.get("rmse"):
            return None
        scale = self.values["loss"] / self.values["rmse"] ** 2  # of training's numbers, whose deviation is 1
        return float(self.labels.var() * scale)

    def scores_of(self, totals: np.ndarray) -> dict[str, np.ndarray]:
        return {
            "pearson": _correlation(totals[..., :6]),
            "spearman": _correlation(totals[..., 6:12]),
            "mae": totals[..., 12] / self.n,
            "rmse": np.sqrt(totals[..., 13] / self.n),
        }


def _moments(labels: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return what each row adds to a correlation, as `_correlation` reads it: six arrays [n]."""
    x = labels - labels.mean()
    y = predicted - predicted.mean()
    return np.ones(len(x)), x, y, x * x, y * y, x * y


def _correlation(moments: np.ndarray) -> np.ndarray:
    """Return Pearson's correlation, [...], from sums of `_moments`, [..., 6]; 0 if either side is constant."""
    n, x, y, xx, yy, xy = np.moveaxis(moments, -1, 0)
    covariance = n * xy - x * y
    spread_x = n * xx - x * x
    spread_y = n * yy - y * y
    is_constant = (spread_x <= 1e-12 * n * xx) | (spread_y <= 1e-12 * n * yy)  # but for rounding
    scale = np.sqrt(np.where(is_constant, 1.0, spread_x) * np.where(is_constant, 1.0, spread_y))
    return np.clip(np.where(is_constant, 0.0, covariance / scale), -1, 1)


@dataclass(frozen=True)
class RegressionMetrics(TextMetrics):
    """Scores a number for each row in the user's units: a scaled number times `deviation`, plus `mean`."""

    mean: float
    deviation: float
    main_score: str
    own: OwnScore | None = None

    def scores(self, kept: Sequence[tuple[Tensor, ...]]) -> NumberScores:
        """Return `loss` (mean squared error of the scaled numbers) and the scores of `NumberScores`."""
        rows, targets, logits = self._in_order(kept)
        scaled = targets.double().numpy(), logits[:, 0].double().numpy()
        losses = (scaled[1] - scaled[0]) ** 2
        refuse_non_finite(losses)
        labels, predicted = (rounded(side * self.deviation + self.mean, self.deviation) for side in scaled)
        return NumberScores.from_predictions(
            labels,
            predicted,
            rows=rows,
            loss=float(losses.mean()),
            losses=losses,
            main_score=self.main_score,
            own=self.own,
        )


def rounded(numbers: np.ndarray, deviation: float) -> np.ndarray:
    """Return the numbers rounded to about a millionth of their standard deviation."""
    return np.round(numbers.astype(np.float64), DIGITS - math.floor(math.log10(deviation)))
