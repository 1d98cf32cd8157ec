"""Scores of multi-label classification: a set of labels for each example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch.nn.functional import binary_cross_entropy_with_logits

from encoderlab.metrics.intervals import (
    Score,
    f1_macro,
    lead_of_columns,
    middle,
    middle_around,
    resamples,
    score_of_columns,
    totals_of_resamples,
)
from encoderlab.metrics.scores import AnswerScores, TextMetrics, refuse_non_finite, with_bounds
from encoderlab.metrics.thresholds import DEFAULT, fit_thresholds, threshold_for_precision

RANKED_RESAMPLES = 200  # for average precision, which must rank all rows again


@dataclass(frozen=True, slots=True)
class LabelSetScores(AnswerScores):
    """The figures of one split, and the answers they were computed from.

    `labels` and `predicted` are bool [n, labels], `probabilities` float64 of that shape, in the order of `rows`, the
    examples' places in their split. `thresholds` are the probabilities from which each label is given, [labels].
    """

    n: int
    figures: dict[str, float]
    per_class: dict[str, dict[str, Any]]
    rows: np.ndarray
    labels: np.ndarray
    predicted: np.ndarray
    probabilities: np.ndarray
    thresholds: np.ndarray
    label_names: list[str]
    main: str
    intervals: dict[str, list[float]] = field(default_factory=dict)

    def with_intervals(self, seed: int) -> LabelSetScores:
        """Return the same scores with 95% bootstrap intervals of all figures but the loss, and of each label's F1.

        Those of average precision draw 200 splits instead of 2,000, and take equal probabilities in the order of the
        rows.
        """
        totals = totals_of_resamples(np.ones(self.n, np.int64), columns_of(self.labels, self.predicted), seed)
        found = {name: middle_around(self.figures[name], score(totals)) for name, score in SCORES.items()}
        if "average_precision_macro" in self.figures:
            drawn = self._resampled_average_precision(seed)
            found["average_precision_macro"] = middle_around(self.figures["average_precision_macro"], drawn)
        hits, occurrences = _by_label(totals)
        bounds = [
            middle(2 * hits[:, label] / np.maximum(occurrences[:, label], 1)) for label in range(len(self.label_names))
        ]
        per_class = {
            name: figures | {"f1_ci95": bound}
            for (name, figures), bound in zip(self.per_class.items(), bounds, strict=True)
        }
        return replace(self, intervals=found, per_class=per_class)

    def _resampled_average_precision(self, seed: int) -> np.ndarray:
        """Return macro average precision in RANKED_RESAMPLES bootstrap splits."""
        counts = np.concatenate(list(resamples(np.ones(self.n, np.int64), seed, RANKED_RESAMPLES)))
        known = np.flatnonzero(self.labels.any(0))
        sums, occurring = np.zeros(len(counts)), np.zeros(len(counts))
        for label in known:
            order = np.argsort(-self.probabilities[:, label], kind="stable")
            drawn, right = counts[:, order].astype(np.float32), self.labels[order, label]
            precision = np.cumsum(drawn * right, 1)[:, right] / np.maximum(np.cumsum(drawn, 1)[:, right], 1)
            weights = drawn[:, right]
            total = weights.sum(1)
            sums += (precision * weights).sum(1) / np.maximum(total, 1)
            occurring += total > 0
        return sums / np.maximum(occurring, 1)

    def as_dict(self) -> dict[str, Any]:
        """See `SplitScores.as_dict`."""
        return {"n": self.n, **with_bounds(self.figures, self.intervals), "per_class": self.per_class}

    def lead_over(self, predicted: Any, seed: int) -> tuple[float, list[float]]:
        """See `AnswerScores.lead_over`."""
        sides = [columns_of(self.labels, side) for side in (self.predicted, np.asarray(predicted)[self.rows])]
        return lead_of_columns(sides, SCORES[self.main], seed)

    def score_on(self, places: np.ndarray, seed: int) -> tuple[float | None, list[float] | None]:
        """See `AnswerScores.score_on`."""
        return score_of_columns(columns_of(self.labels[places], self.predicted[places]), SCORES[self.main], seed)


def columns_of(labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return what each row adds to the totals that scores are computed from, [n, 2 + 2 labels]: 1, whether it is wholly
    right, and for each label hits and occurrences (as a label and as a prediction).
    """
    right = (labels == predicted).all(1)
    hits, occurrences = labels & predicted, labels.astype(np.int64) + predicted
    return np.concatenate([np.ones((len(labels), 1), np.int64), right[:, None], hits, occurrences], axis=1)


def _by_label(totals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return hits and occurrences of each label: [splits, labels] each."""
    hits, occurrences = np.split(totals[:, 2:], 2, axis=1)
    return hits, occurrences


def _f1_micro(totals: np.ndarray) -> np.ndarray:
    hits, occurrences = _by_label(totals)
    return 2 * hits.sum(1) / np.maximum(occurrences.sum(1), 1)


SCORES: dict[str, Score] = {  # of totals of `columns_of`
    "f1_micro": _f1_micro,
    "f1_macro": lambda totals: f1_macro(*_by_label(totals)),
    "subset_accuracy": lambda totals: totals[:, 1] / np.maximum(totals[:, 0], 1),
}


def label_set_figures(labels: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Return `f1_micro`, `f1_macro` (over the labels that occur) and `subset_accuracy` of bool arrays [n, labels]."""
    totals = columns_of(labels, predicted).sum(0, keepdims=True).astype(np.float64)
    return {name: float(score(totals)[0]) for name, score in SCORES.items()}


def average_precisions(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Return the average precision of each label, NaN if no row has it: [n, labels] each -> [labels]."""
    from sklearn.metrics import average_precision_score

    return np.array(
        [
            average_precision_score(labels[:, label], probabilities[:, label]) if labels[:, label].any() else np.nan
            for label in range(labels.shape[1])
        ]
    )


def answered_sets(labels: np.ndarray, predicted: np.ndarray, names: Sequence[str], main: str) -> LabelSetScores:
    """Return the scores of predictions without probabilities, such as a baseline's: bool [n, labels] each, row by row."""
    by_label = {name: _of_label(labels[:, place], predicted[:, place]) for place, name in enumerate(names)}
    figures, rows, half = label_set_figures(labels, predicted), np.arange(len(labels)), np.full(len(names), DEFAULT)
    return LabelSetScores(
        len(labels), figures, by_label, rows, labels, predicted, predicted.astype(np.float64), half, list(names), main
    )


class LabelSetMetrics(TextMetrics):
    """Collects a probability of each label for each example.

    `labels` names them in the order of their ids. `thresholds` holds the probability from which a label is given, by
    its name; those it lacks are fitted to the very rows that are scored (`metrics.thresholds.fit_thresholds`), all
    `shared` or not, or for the label's precision in `precisions`. `main` names the figure that a report puts first.
    """

    def __init__(
        self,
        labels: Sequence[str],
        thresholds: Mapping[str, float],
        main: str,
        *,
        shared: bool,
        precisions: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__()
        self.labels, self.thresholds, self.main, self.shared = list(labels), dict(thresholds), main, shared
        self.precisions = dict(precisions or {})

    def scores(self) -> LabelSetScores:
        """See `Metrics.scores`.

        Figures: `loss` (mean binary cross entropy of a label, in nats), those of `label_set_figures`, and
        `average_precision_macro` over the labels that any row has. `per_class` adds each label's own and its threshold.
        """
        rows, labels, logits = self._in_order()
        losses = binary_cross_entropy_with_logits(logits, labels, reduction="none").double().mean(1).numpy()
        refuse_non_finite(losses)
        return self._scored(rows.numpy(), labels.numpy() > 0, logits.double().sigmoid().numpy(), float(losses.mean()))

    def _scored(self, rows: np.ndarray, labels: np.ndarray, probabilities: np.ndarray, loss: float) -> LabelSetScores:
        thresholds = self._thresholds(probabilities, labels)
        predicted = probabilities >= thresholds
        precisions = average_precisions(labels, probabilities)
        figures = {"loss": loss, **label_set_figures(labels, predicted)}
        figures["average_precision_macro"] = float(np.nanmean(precisions)) if labels.any() else 0.0
        per_class = {
            name: _of_label(labels[:, place], predicted[:, place])
            | {"average_precision": None if np.isnan(precisions[place]) else float(precisions[place])}
            | {"threshold": float(thresholds[place])}
            for place, name in enumerate(self.labels)
        }
        return LabelSetScores(
            n=len(rows),
            figures=figures,
            per_class=per_class,
            rows=rows,
            labels=labels,
            predicted=predicted,
            probabilities=probabilities,
            thresholds=thresholds,
            label_names=self.labels,
            main=self.main,
        )

    def _thresholds(self, probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
        if len(self.thresholds) == len(self.labels):
            return np.array([self.thresholds[name] for name in self.labels])
        fitted = fit_thresholds(probabilities, labels, shared=self.shared)
        for name, precision in self.precisions.items():
            place = self.labels.index(name)
            fitted[place] = threshold_for_precision(probabilities[:, place], labels[:, place], precision)
        return np.array([self.thresholds.get(name, found) for name, found in zip(self.labels, fitted, strict=True)])


def _of_label(labels: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    hits, given, support = int((labels & predicted).sum()), int(predicted.sum()), int(labels.sum())
    return {
        "precision": hits / max(given, 1),
        "recall": hits / max(support, 1),
        "f1": 2 * hits / max(given + support, 1),
        "support": support,
    }
