"""A score against the number of training rows: the inverse power law that fits it, and what more rows would bring.

score(n) = a - b (n / N)^-c, where N is the largest number of rows that was tried, a the score that no number of rows
exceeds, and 0 <= b. It fits the learning curves of most classifiers (Viering and Loog, The shape of learning curves: a
review, IEEE TPAMI 45, 2023), but seldom the first part, near chance: so a score weighs in proportion to its number of
rows (compare Figueroa et al., Predicting sample size required for classification performance, BMC Medical Informatics
and Decision Making 12, 2012). For each c of a grid, a and b are a weighted least-squares problem that is solved
exactly; errors such as MAE are negated first, and then a is at most 0.

Its uncertainty comes from a parametric bootstrap: scores are drawn around the curve with their standard errors, which
are widened if the curve misses the points by more than those, and the curve is fitted to each draw. That does not cover
a curve of another shape, so nothing is predicted beyond ten times the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from encoderlab.metrics.intervals import middle

EXPONENTS = np.geomspace(0.05, 2.0, 200)
DRAWS = 500
FURTHEST = 10  # times the rows that were tried


@dataclass(frozen=True, slots=True)
class LearningCurve:
    """Fitted curves, the first to the scores themselves and the others to draws of them: `a`, `b` and `c` are float64
    [1 + draws].

    `largest` is N; `sign` is -1 if the least score is the best.
    """

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    largest: int
    sign: float

    def at(self, rows: float) -> float:
        """Return the score of the fitted curve with this many training rows."""
        return self.sign * float(self._all_at(rows)[0])

    def interval_at(self, rows: float) -> list[float]:
        """Return the 95% interval of the curve there."""
        return sorted(self.sign * bound for bound in middle(self._all_at(rows)[1:]))

    def gain(self, rows: float) -> tuple[float, list[float]]:
        """Return the improvement from the largest number of rows to `rows`, at least 0, and its 95% interval."""
        gains = self._all_at(rows) - self._all_at(self.largest)
        return float(gains[0]), middle(gains[1:])

    def rows_for(self, gain: float) -> int | None:
        """Return how many rows the curve needs for this gain over the largest number; None if more than ten times as
        many.
        """
        left, b, c = self.b[0] - gain, float(self.b[0]), float(self.c[0])
        times = (left / b) ** (-1 / c) if left > 0 else np.inf
        return round(times * self.largest) if times <= FURTHEST else None

    def _all_at(self, rows: float) -> np.ndarray:
        return self.a - self.b * (rows / self.largest) ** -self.c


def fit_learning_curve(
    rows: Sequence[int], scores: Sequence[float], errors: Sequence[float], *, lower_is_better: bool
) -> LearningCurve:
    """Fit the curve of runs with these numbers of training rows (at least three different); `errors` are standard
    errors.
    """
    sizes, sign = np.asarray(rows, np.float64), -1.0 if lower_is_better else 1.0
    ceiling = 0.0 if lower_is_better else 1.0
    share = sizes / sizes.max()
    observed, deviations = sign * np.asarray(scores, np.float64), np.asarray(errors, np.float64) / share**0.5
    first = _fitted(share, observed[None], deviations, ceiling)
    a, b, c = (one[0] for one in first)
    curve = a - b * share**-c
    missed = (((observed - curve) / deviations) ** 2).sum() / max(len(sizes) - 3, 1)
    noise = np.random.default_rng(0).standard_normal((DRAWS, len(sizes)))
    drawn = _fitted(share, curve + noise * deviations * max(missed, 1.0) ** 0.5, deviations, ceiling)
    joined = (np.concatenate([one, others]) for one, others in zip(first, drawn, strict=True))
    return LearningCurve(*joined, largest=int(sizes.max()), sign=sign)


def _fitted(
    share: np.ndarray, scores: np.ndarray, errors: np.ndarray, ceiling: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the best a, b and c for each row of `scores`, [draws, sizes] -> three of [draws]."""
    weights = errors**-2.0
    best = np.full(len(scores), np.inf)
    found = [np.zeros(len(scores)) for _ in range(3)]
    for c in EXPONENTS:
        for a, b in _lines(share**-c, scores, weights, ceiling):
            missed = ((scores - a[:, None] + b[:, None] * share**-c) ** 2 * weights).sum(1)
            better = (missed < best - 1e-12) & (a <= ceiling) & (b >= 0)
            best = np.where(better, missed, best)
            found = [np.where(better, new, old) for new, old in zip((a, b, np.full_like(a, c)), found, strict=True)]
    return found[0], found[1], found[2]


def _lines(
    x: np.ndarray, scores: np.ndarray, weights: np.ndarray, ceiling: float
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return candidates for the least squares of scores = a - b x with a <= ceiling and 0 <= b: inside, and on either
    edge.

    The problem is convex, so the best of those that keep the bounds is the solution. [draws] each.
    """
    total = weights.sum()
    mean_x, mean = (weights * x).sum() / total, (scores * weights).sum(1) / total
    slope = ((scores - mean[:, None]) * (x - mean_x) * weights).sum(1) / ((x - mean_x) ** 2 * weights).sum()
    flat = np.minimum(mean, ceiling)
    at_ceiling = np.maximum(((ceiling - scores) * x * weights).sum(1) / (x**2 * weights).sum(), 0)
    return [(mean - slope * mean_x, -slope), (flat, np.zeros_like(flat)), (np.full_like(flat, ceiling), at_ceiling)]
