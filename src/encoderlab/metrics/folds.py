"""Scores of the folds of a cross-validation: mean, standard deviation, and an interval for training sets that overlap.

Any two training sets of k-fold cross-validation share most of their rows, so the scores of the folds are not
independent, and s / sqrt(k) is too small a standard error. Nadeau and Bengio (Inference for the generalization error,
Machine Learning 52, 2003, section 3) replace 1/k by 1/k + n_test / n_train: the corrected resampled t."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class OverFolds:
    """A figure over the folds: its mean, its standard deviation (k - 1 in the denominator) and the 95% interval of the
    mean.
    """

    mean: float
    deviation: float
    interval: list[float]


def over_folds(values: Sequence[float], test_to_train: float) -> OverFolds:
    """Return the figure over two folds or more; `test_to_train` is the ratio of test rows to training rows."""
    from scipy.stats import t

    scores = np.asarray(values, np.float64)
    deviation = float(scores.std(ddof=1))
    reach = float(t.ppf(0.975, len(scores) - 1)) * deviation * (1 / len(scores) + test_to_train) ** 0.5
    mean = float(scores.mean())
    return OverFolds(mean, deviation, [mean - reach, mean + reach])
