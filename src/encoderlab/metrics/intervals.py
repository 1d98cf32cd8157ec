"""95% intervals: of scores by the percentile bootstrap (Efron 1979), and of scores over the folds of a
cross-validation.

A bootstrap split draws n examples from the n of the split, with replacement, and scores them; the interval holds the
middle 95% of the scores. Most scores depend on an example only through what it adds to a few totals, such as the hits
of each class, so examples that add the same are of one kind. Drawing n examples is then one multinomial draw of how
many there are of each kind. The tokens of a sequence are not independent of one another, so whole sequences are drawn.

The interval covers the choice of the split's rows, not the training run: that takes several seeds. If every prediction
is right, so is every bootstrap split, and the interval has no width; with n examples, an error rate of up to 3 / n is
then still plausible (the rule of three).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000
_DRAWN_AT_ONCE = 4_000_000  # counts in memory at a time


def totals_of_resamples(columns: np.ndarray, seed: int, counts: np.ndarray | None = None) -> np.ndarray:
    """Return the totals of each bootstrap split, [RESAMPLES, columns]; an example of a kind adds its row of `columns`,
    [kinds, columns]. `counts` says how many examples there are of each kind (None: one).

    The counts are multiplied as floats, for which there are fast kernels: whole numbers below 2^53 come out exactly.
    """
    counts = np.ones(len(columns), np.int64) if counts is None else counts
    of_each = columns.astype(np.float64)
    return np.concatenate([drawn.astype(np.float64) @ of_each for drawn in resamples(counts, seed)])


def resamples(counts: np.ndarray, seed: int) -> Iterator[np.ndarray]:
    """Yield how many examples of each kind each bootstrap split holds, in chunks of [chunk, kinds]."""
    random, n = np.random.default_rng(seed), int(counts.sum())
    size = max(_DRAWN_AT_ONCE // len(counts), 1)
    for start in range(0, RESAMPLES, size):
        chunk = min(size, RESAMPLES - start)
        if n == len(counts):  # each example is a kind: counting drawn indices is ten times faster than the multinomial
            yield np.stack([np.bincount(random.integers(0, n, n), minlength=n) for _ in range(chunk)])
        else:
            yield random.multinomial(n, counts / n, size=chunk)


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


def interval_of_mean(values: np.ndarray) -> list[float]:
    """Return the 95% interval of the mean of real numbers, [n], by the normal approximation: 1.96 standard errors to
    each side.
    """
    reach = 1.96 * float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else float("inf")
    return [float(values.mean()) - reach, float(values.mean()) + reach]


def interval_of_share(hits: np.ndarray, n_targets: np.ndarray, seed: int) -> list[float]:
    """Return the 95% interval of the share of `hits` among `n_targets`, which each row has: [n]. Rows without a target
    do not count.
    """
    rows = np.stack([hits, n_targets], axis=1)[n_targets > 0]
    kinds, counts = np.unique(rows, axis=0, return_counts=True)
    totals = totals_of_resamples(kinds, seed, counts)
    return middle(totals[:, 0] / totals[:, 1])


def f1_of(hits: np.ndarray, occurrences: np.ndarray) -> np.ndarray:
    """Return F1 = 2 hits / (labels + predictions); 0 for what never occurs."""
    return 2 * hits / np.maximum(occurrences, 1)


def f1_macro(hits: np.ndarray, occurrences: np.ndarray) -> np.ndarray:
    """Return F1 averaged over the classes that occur: [splits, classes] -> [splits]."""
    return f1_of(hits, occurrences).sum(1) / np.maximum((occurrences > 0).sum(1), 1)


def f1_weighted(hits: np.ndarray, labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return F1 averaged over the classes by how often each is the label: [splits, classes] -> [splits]."""
    return (labels * f1_of(hits, labels + predicted)).sum(1) / np.maximum(labels.sum(1), 1)


def matthews(hits: np.ndarray, labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return the Matthews correlation of labels and predictions, for two or more classes (Gorodkin 2004, R_K), from
    counts by class.

    [splits, classes] -> [splits], from -1 to 1; 0 if all labels or all predictions are of one class, when it is
    undefined.
    """
    hits, labels, predicted = (counts.astype(np.float64) for counts in (hits, labels, predicted))
    n = labels.sum(1)
    covariance = hits.sum(1) * n - (labels * predicted).sum(1)
    spread = (n**2 - (labels**2).sum(1)) * (n**2 - (predicted**2).sum(1))
    return np.where(spread > 0, covariance / np.sqrt(np.where(spread > 0, spread, 1.0)), 0.0)


@dataclass(frozen=True, slots=True)
class OverFolds:
    """A score over the folds: its mean, its standard deviation (k - 1 in the denominator) and the 95% interval of the
    mean.
    """

    mean: float
    deviation: float
    interval: list[float]


def over_folds(values: Sequence[float], test_to_train: float) -> OverFolds:
    """Return the score over two folds or more; `test_to_train` is the ratio of test rows to training rows.

    Any two training sets share most of their rows, so the folds' scores are not independent, and s / sqrt(k) is too
    small a standard error. Nadeau and Bengio (Inference for the generalization error, Machine Learning 52, 2003,
    section 3) replace 1/k by 1/k + n_test / n_train: the corrected resampled t.
    """
    from scipy.stats import t

    scores = np.asarray(values, np.float64)
    mean, deviation = float(scores.mean()), float(scores.std(ddof=1))
    reach = float(t.ppf(0.975, len(scores) - 1)) * deviation * (1 / len(scores) + test_to_train) ** 0.5
    return OverFolds(mean, deviation, [mean - reach, mean + reach])
