"""95% intervals: of scores by the percentile bootstrap (Efron 1979), and of scores over the folds of a
cross-validation.

A bootstrap split draws n rows from the n of the split, with replacement, and scores them; the interval holds the
middle 95% of the scores. Most scores depend on a row only through what it adds to a few totals, such as the hits of
each class, so rows that add the same are of one kind. Drawing n rows is then one multinomial draw of how many there are
of each kind. The tokens of a sequence are not independent of one another, so whole sequences are drawn.

The interval covers the choice of the split's rows, not the training run: that takes several seeds.

The bootstrap fails at the borders: if every prediction is right, so is every bootstrap split. A proportion of 0 or 1
has Wilson's interval instead, other scores that no bootstrap split changes have none, and neither have scores of one
row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000
WILSON_Z = 1.959964  # the normal distribution holds 95% within this many standard deviations
_DRAWN_AT_ONCE = 4_000_000  # counts in memory at a time


def bootstrap_totals(columns: np.ndarray, counts: np.ndarray, seed: int) -> np.ndarray:
    """Return the totals of the split and of each bootstrap split, [1 + RESAMPLES, ...]. A row of a kind adds its part
    of `columns`, [kinds, ...], and `counts` says how many rows there are of each kind.

    The counts are multiplied as floats, for which there are fast kernels: whole numbers below 2^53 come out exactly.
    """
    flat = columns.reshape(len(columns), -1).astype(np.float64)
    totals = [counts[None].astype(np.float64) @ flat]
    n = int(counts.sum())
    random = np.random.default_rng(seed)
    chunk_size = max(_DRAWN_AT_ONCE // len(counts), 1)
    for start in range(0, RESAMPLES, chunk_size):
        n_splits = min(chunk_size, RESAMPLES - start)
        if n == len(counts):  # each row is a kind: counting drawn indices is ten times faster than the multinomial
            drawn = np.stack([np.bincount(random.integers(0, n, n), minlength=n) for _ in range(n_splits)])
        else:
            drawn = random.multinomial(n, counts / n, size=n_splits)
        totals.append(drawn.astype(np.float64) @ flat)
    return np.concatenate(totals).reshape(-1, *columns.shape[1:])


def middle(values: np.ndarray) -> list[float]:
    """Return [low, high] of the middle 95% of the values."""
    low, high = np.percentile(values, [2.5, 97.5])
    return [float(low), float(high)]


def middle_around(score: float, values: np.ndarray) -> list[float]:
    """Return [low, high] of the middle 95% of the values, corrected for bias: moved so that their median is `score`,
    within 0 to 1.

    A mean over classes is biased where classes are rare: a resample without a row of the hardest class scores better
    without it.
    """
    bias = float(np.median(values)) - score
    return [min(max(bound - bias, 0.0), 1.0) for bound in middle(values)]


def wilson(share: float, n: float) -> list[float]:
    """Return the 95% interval of a `share` of `n` independent observations by Wilson's score (1927), within 0 to 1.

    `n` need not be whole: that of an F1 is half the number of labels and predictions, which with no hit gives the bound
    of recall where all predictions that could be right were.
    """
    squared = WILSON_Z**2
    center = (share * n + squared / 2) / (n + squared)
    reach = WILSON_Z / (n + squared) * (n * share * (1 - share) + squared / 4) ** 0.5
    return [max(center - reach, 0.0), min(center + reach, 1.0)]


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of `n` scores; from two on, their `deviation` (n - 1 in the denominator), and the 95% t `interval`
    unless all are equal.
    """

    value: float
    n: int
    deviation: float | None
    interval: list[float] | None


def mean_of(scores: Sequence[float], test_to_train: float = 0.0) -> Mean:
    """Return the mean over seeds, or over folds with this ratio of test rows to training rows.

    The interval is Student's t. Training sets of a cross-validation share most of their rows, so the folds' scores are
    not independent, and Nadeau and Bengio (Inference for the generalization error, Machine Learning 52, 2003, section
    3) replace 1/k by 1/k + n_test / n_train: the corrected resampled t.
    """
    n = len(scores)
    values = np.asarray(scores, np.float64)
    mean = float(values.mean())
    if n < 2:
        return Mean(mean, n, None, None)
    deviation = variance(values) ** 0.5
    if deviation == 0:  # which says nothing about other rows
        return Mean(mean, n, 0.0, None)
    standard_error = deviation * (1 / n + test_to_train) ** 0.5
    return Mean(mean, n, deviation, t_interval(mean, standard_error, n - 1))


def variance(values: Sequence[float] | np.ndarray) -> float:
    """Return the variance with n - 1 in the denominator; exactly 0 if all values are equal, despite rounding."""
    return float(np.var(values, ddof=1)) if np.ptp(values) else 0.0


def t_interval(value: float, error: float, freedom: float) -> list[float]:
    """Return the 95% interval by Student's t around a value with this standard error."""
    from scipy.stats import t

    reach = float(t.ppf(0.975, freedom) * error)
    return [value - reach, value + reach]
