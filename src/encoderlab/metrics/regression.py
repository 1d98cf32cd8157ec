"""Scores of regression: a number for each example."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from encoderlab.metrics.scores import PredictionScores, TextMetrics, refuse_non_finite, with_bounds

DIGITS = 6  # reported digits of a number, counted from the size of the standard deviation: float32 has no more


def rounded(numbers: np.ndarray, deviation: float) -> np.ndarray:
    """Return the numbers rounded to about a millionth of their standard deviation."""
    return np.round(numbers.astype(np.float64), DIGITS - math.floor(math.log10(deviation)))


@dataclass(frozen=True, kw_only=True)
class NumberScores(PredictionScores):
    """The scores of one split. `labels` and `predicted` are float64 [n], in the user's units.

    The intervals of Spearman's correlation resample the ranks that the rows have in the whole split.
    """

    def kinds(self, *predicted: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        return [number_columns(self.labels, np.asarray(side, np.float64)) for side in predicted], np.ones(self.n, int)

    def scores_of(self, totals: np.ndarray) -> dict[str, np.ndarray]:
        return number_scores(totals)

    def as_dict(self) -> dict[str, Any]:
        return {"n": self.n, **with_bounds(self.figures, self.intervals)}


def number_figures(labels: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Return the scores of numbers [n] by name: see `number_scores`."""
    totals = number_columns(labels, predicted).sum(0, keepdims=True)
    return {name: float(values[0]) for name, values in number_scores(totals).items()}


def number_columns(labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return what each row adds to the sums that scores are computed from: [n, 13]."""
    from scipy.stats import rankdata

    error = predicted - labels
    moments = [_moments(labels, predicted), _moments(rankdata(labels), rankdata(predicted))]
    return np.concatenate([np.ones((len(labels), 1)), *moments, np.abs(error)[:, None], error[:, None] ** 2], axis=1)


def number_scores(totals: np.ndarray) -> dict[str, np.ndarray]:
    """Return `pearson`, `spearman`, `mae` (mean absolute error) and `rmse` (root mean squared error), [splits] each,
    from totals of `number_columns`.

    A correlation is 0 if either side is constant, which leaves it undefined.
    """
    n = totals[:, 0]
    return {
        "pearson": _correlation(n, totals[:, 1:6]),
        "spearman": _correlation(n, totals[:, 6:11]),
        "mae": totals[:, 11] / n,
        "rmse": np.sqrt(totals[:, 12] / n),
    }


def _moments(labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    x, y = labels - labels.mean(), predicted - predicted.mean()
    return np.stack([x, y, x * x, y * y, x * y], axis=1)


def _correlation(n: np.ndarray, moments: np.ndarray) -> np.ndarray:
    x, y, xx, yy, xy = moments.T
    covariance, spread_x, spread_y = n * xy - x * y, n * xx - x * x, n * yy - y * y
    is_constant = (spread_x <= 1e-12 * n * xx) | (spread_y <= 1e-12 * n * yy)  # but for rounding
    scale = np.sqrt(np.where(is_constant, 1.0, spread_x) * np.where(is_constant, 1.0, spread_y))
    return np.clip(np.where(is_constant, 0.0, covariance / scale), -1, 1)


class RegressionMetrics(TextMetrics):
    """Collects a number for each example, and scores them in the user's units: a scaled number times `deviation`, plus
    `mean`.

    `main` names the score that a report puts first.
    """

    def __init__(self, mean: float, deviation: float, main: str) -> None:
        super().__init__()
        self.mean, self.deviation, self.main = mean, deviation, main

    def scores(self) -> NumberScores:
        """Return `loss` (mean squared error of the scaled numbers) and the scores of `number_scores`."""
        rows, targets, outputs = (column.numpy() for column in self._in_order())
        outputs = outputs[:, 0].astype(np.float64)
        losses = (outputs - targets) ** 2
        refuse_non_finite(losses)
        labels, predicted = (
            rounded(scaled.astype(np.float64) * self.deviation + self.mean, self.deviation)
            for scaled in (targets, outputs)
        )
        figures = {"loss": float(losses.mean()), **number_figures(labels, predicted)}
        return NumberScores(n=len(rows), figures=figures, rows=rows, labels=labels, predicted=predicted, main=self.main)
