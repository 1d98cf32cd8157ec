"""Scores of regression: a number for each example."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from encoderlab.metrics.intervals import Score, lead_of_columns, middle, score_of_columns, totals_of_resamples
from encoderlab.metrics.scores import AnswerScores, TextMetrics, is_lower_better, refuse_non_finite, with_bounds

DIGITS = 6  # reported digits of a number, counted from the size of the standard deviation: float32 has no more


def rounded(numbers: np.ndarray, deviation: float) -> np.ndarray:
    """Return the numbers rounded to about a millionth of their standard deviation."""
    return np.round(numbers.astype(np.float64), DIGITS - math.floor(math.log10(deviation)))


@dataclass(frozen=True, slots=True)
class NumberScores(AnswerScores):
    """The figures of one split, and the numbers they were computed from.

    `labels` and `predicted` are float64 [n], in the user's units and in the order of `rows`, the examples' places in
    their split.
    """

    n: int
    figures: dict[str, float]
    rows: np.ndarray
    labels: np.ndarray
    predicted: np.ndarray
    main: str
    intervals: dict[str, list[float]] = field(default_factory=dict)

    def with_intervals(self, seed: int) -> NumberScores:
        """Return the same scores with 95% bootstrap intervals of all figures but the loss.

        Those of Spearman's correlation resample the ranks that the rows have in the whole split.
        """
        resampled = figures_of(
            totals_of_resamples(np.ones(self.n, np.int64), columns_of(self.labels, self.predicted), seed)
        )
        ranked = figures_of(
            totals_of_resamples(np.ones(self.n, np.int64), columns_of(*_ranks(self.labels, self.predicted)), seed)
        )
        resampled["spearman"] = ranked["pearson"]
        return replace(self, intervals={name: middle(values) for name, values in resampled.items()})

    def as_dict(self) -> dict[str, Any]:
        """See `SplitScores.as_dict`."""
        return {"n": self.n, **with_bounds(self.figures, self.intervals)}

    def lead_over(self, predicted: Any, seed: int) -> tuple[float, list[float]]:
        """See `AnswerScores.lead_over`."""
        others = np.asarray(predicted, np.float64)[self.rows]
        sides = [score_columns(self.labels, side, self.main) for side in (self.predicted, others)]
        score, sign = score_of_totals(self.main), -1.0 if is_lower_better(self.main) else 1.0
        return lead_of_columns(sides, lambda totals: sign * score(totals), seed)

    def score_on(self, places: np.ndarray, seed: int) -> tuple[float | None, list[float] | None]:
        """See `AnswerScores.score_on`."""
        columns = score_columns(self.labels[places], self.predicted[places], self.main)
        return score_of_columns(columns, score_of_totals(self.main), seed)


def number_figures(labels: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Return `pearson`, `spearman`, `mae` (mean absolute error) and `rmse` (root mean squared error) of numbers [n].

    A correlation is 0 if either side is constant, which leaves it undefined.
    """
    plain, ranked = (
        figures_of(columns_of(*pair).sum(0, keepdims=True)) for pair in ((labels, predicted), _ranks(labels, predicted))
    )
    found = {"pearson": plain["pearson"], "spearman": ranked["pearson"], "mae": plain["mae"], "rmse": plain["rmse"]}
    return {name: float(value[0]) for name, value in found.items()}


def score_columns(labels: np.ndarray, predicted: np.ndarray, figure: str) -> np.ndarray:
    """Return what each row adds to the totals of `figure`: [n, columns]."""
    return columns_of(*_ranks(labels, predicted)) if figure == "spearman" else columns_of(labels, predicted)


def score_of_totals(figure: str) -> Score:
    """Return the scores, [splits], from totals of `score_columns`, [splits, columns]."""
    name = "pearson" if figure == "spearman" else figure
    return lambda totals: figures_of(totals)[name]


def columns_of(labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return what each row adds to the sums that all figures are computed from: [n, 8]."""
    x, y = labels - labels.mean(), predicted - predicted.mean()
    error = predicted - labels
    return np.stack([np.ones(len(x)), x, y, x * x, y * y, x * y, np.abs(error), error**2], axis=1)


def figures_of(totals: np.ndarray) -> dict[str, np.ndarray]:
    """Return Pearson's correlation and the mean errors from sums of `columns_of`: [splits, 8] -> [splits] each."""
    n, x, y, xx, yy, xy, absolute, squared = totals.T
    covariance, spread_x, spread_y = n * xy - x * y, n * xx - x * x, n * yy - y * y
    is_constant = (spread_x <= 1e-12 * n * xx) | (spread_y <= 1e-12 * n * yy)  # but for rounding
    scale = np.sqrt(np.where(is_constant, 1.0, spread_x) * np.where(is_constant, 1.0, spread_y))
    pearson = np.where(is_constant, 0.0, covariance / scale)
    return {"pearson": np.clip(pearson, -1, 1), "mae": absolute / n, "rmse": np.sqrt(squared / n)}


def _ranks(labels: np.ndarray, predicted: np.ndarray) -> Sequence[np.ndarray]:
    from scipy.stats import rankdata

    return [rankdata(labels), rankdata(predicted)]


class RegressionMetrics(TextMetrics):
    """Collects a number for each example, and scores them in the user's units: a scaled number times `deviation`, plus
    `mean`.

    `main` names the figure that a report puts first.
    """

    def __init__(self, mean: float, deviation: float, main: str) -> None:
        super().__init__()
        self.mean, self.deviation, self.main = mean, deviation, main

    def scores(self) -> NumberScores:
        """See `Metrics.scores`. Figures: `loss` (mean squared error of the scaled numbers) and those of
        `number_figures`.
        """
        rows, labels, predicted = (column.numpy() for column in self._in_order())
        predicted = predicted[:, 0].astype(np.float64)
        losses = (predicted - labels) ** 2
        refuse_non_finite(losses)
        targets, predictions = (
            rounded(some.astype(np.float64) * self.deviation + self.mean, self.deviation)
            for some in (labels, predicted)
        )
        figures = {"loss": float(losses.mean()), **number_figures(targets, predictions)}
        return NumberScores(len(rows), figures, rows, targets, predictions, self.main)
