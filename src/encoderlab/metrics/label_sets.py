"""Scores of multi-label classification: a set of labels for each example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.nn.functional import binary_cross_entropy_with_logits

from encoderlab.metrics.intervals import f1_macro, f1_of, middle
from encoderlab.metrics.scores import (
    WITHOUT_WARNING,
    PredictionScores,
    TextMetrics,
    per_class_of,
    refuse_non_finite,
    with_bounds,
)
from encoderlab.metrics.thresholds import DEFAULT, fit_thresholds, threshold_for_precision


@dataclass(frozen=True, kw_only=True)
class LabelSetScores(PredictionScores):
    """The scores of one split. `labels` and `predicted` are bool [n, labels], `probabilities` float64 of that shape.

    `thresholds` are the probabilities from which each label is predicted, [labels].
    """

    per_class: dict[str, dict[str, Any]]
    probabilities: np.ndarray
    thresholds: np.ndarray
    label_names: list[str]

    def kinds(self, *predicted: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        return [columns_of(self.labels, side) for side in predicted], np.ones(self.n, np.int64)

    def scores_of(self, totals: np.ndarray) -> dict[str, np.ndarray]:
        return scores_of_totals(totals)

    def parts_with_intervals(self, totals: np.ndarray) -> dict[str, Any]:
        f1 = f1_of(*np.split(totals[:, 2:], 2, axis=1))
        return {
            "per_class": {
                name: scores | {"f1_ci95": middle(values)}
                for (name, scores), values in zip(self.per_class.items(), f1.T, strict=True)
            }
        }

    def as_dict(self) -> dict[str, Any]:
        return {"n": self.n, **with_bounds(self.figures, self.intervals), "per_class": self.per_class}


def columns_of(labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return what each row adds to the totals that scores are computed from, [n, 2 + 2 labels]: 1, whether it is wholly
    right, and for each label hits and occurrences (as a label and as a prediction).
    """
    right = (labels == predicted).all(1)
    hits, occurrences = labels & predicted, labels.astype(np.int64) + predicted
    return np.concatenate([np.ones((len(labels), 1), np.int64), right[:, None], hits, occurrences], axis=1)


def scores_of_totals(totals: np.ndarray) -> dict[str, np.ndarray]:
    """Return `f1_micro`, `f1_macro` (over the labels that occur) and `subset_accuracy`, [splits] each, from totals of
    `columns_of`.
    """
    hits, occurrences = np.split(totals[:, 2:], 2, axis=1)
    return {
        "f1_micro": f1_of(hits.sum(1), occurrences.sum(1)),
        "f1_macro": f1_macro(hits, occurrences),
        "subset_accuracy": totals[:, 1] / np.maximum(totals[:, 0], 1),
    }


def label_set_figures(labels: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Return the scores of bool arrays [n, labels] by name."""
    totals = columns_of(labels, predicted).sum(0, keepdims=True)
    return {name: float(values[0]) for name, values in scores_of_totals(totals).items()}


def label_set_scores(labels: np.ndarray, predicted: np.ndarray, names: Sequence[str], main: str) -> LabelSetScores:
    """Return the scores of predictions without probabilities, such as a baseline's: bool [n, labels] each."""
    return LabelSetScores(
        n=len(labels),
        figures=label_set_figures(labels, predicted),
        per_class=_per_label(labels, predicted, names),
        rows=np.arange(len(labels)),
        labels=labels,
        predicted=predicted,
        probabilities=predicted.astype(np.float64),
        thresholds=np.full(len(names), DEFAULT),
        label_names=list(names),
        main=main,
    )


class LabelSetMetrics(TextMetrics):
    """Collects a probability of each label for each example.

    `labels` names them in the order of their ids. `thresholds` maps a label's name to the probability from which it is
    predicted. Those of other labels are fitted to the very rows that are scored (`metrics.thresholds.fit_thresholds`),
    or for the label's precision in `precisions`. `main` names the score that a report puts first.
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
        """Return `loss` (mean binary cross entropy of a label, in nats), the scores of `scores_of_totals`, and
        `average_precision_macro` over the labels that any row has. `per_class` adds each label's own and its threshold.
        """
        rows, targets, logits = self._in_order()
        losses = binary_cross_entropy_with_logits(logits, targets, reduction="none").double().mean(1).numpy()
        refuse_non_finite(losses)
        labels, probabilities = targets.numpy() > 0, logits.double().sigmoid().numpy()
        thresholds = self._thresholds(probabilities, labels)
        predicted = probabilities >= thresholds
        precisions = average_precisions(labels, probabilities)
        figures = {"loss": float(losses.mean()), **label_set_figures(labels, predicted)}
        figures["average_precision_macro"] = float(np.nanmean(precisions)) if labels.any() else 0.0
        per_class = {
            name: scores
            | {"average_precision": None if np.isnan(precision) else float(precision), "threshold": float(threshold)}
            for (name, scores), precision, threshold in zip(
                _per_label(labels, predicted, self.labels).items(), precisions, thresholds, strict=True
            )
        }
        return LabelSetScores(
            n=len(rows),
            figures=figures,
            per_class=per_class,
            rows=rows.numpy(),
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
        fitted = fit_thresholds(probabilities, labels)
        for name, precision in self.precisions.items():
            label = self.labels.index(name)
            fitted[label] = threshold_for_precision(probabilities[:, label], labels[:, label], precision)
        return np.array([self.thresholds.get(name, own) for name, own in zip(self.labels, fitted, strict=True)])


def average_precisions(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Return the average precision of each label, NaN if no row has it: [n, labels] each -> [labels]."""
    from sklearn.metrics import average_precision_score

    return np.array(
        [
            average_precision_score(own, chances) if own.any() else np.nan
            for own, chances in zip(labels.T, probabilities.T, strict=True)
        ]
    )


def _per_label(labels: np.ndarray, predicted: np.ndarray, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    from sklearn.metrics import precision_recall_fscore_support

    columns: Any = precision_recall_fscore_support(
        labels.astype(np.int64), predicted.astype(np.int64), average=None, zero_division=WITHOUT_WARNING
    )
    return per_class_of(names, columns)
