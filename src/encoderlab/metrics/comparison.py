"""Settings compared on the same rows: means over seeds, paired differences with their intervals and tests, Holm's
correction.

A score varies for two reasons: which rows the split holds, and which seed a run was trained with. A bootstrap over the
rows covers the first (see `intervals`), several seeds the second, and a difference says which of the two its interval
covers. Holm's correction applies to p-values and not to intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from encoderlab.metrics.intervals import bootstrap_totals, middle, t_interval, variance
from encoderlab.metrics.scores import ClassScores, PredictionScores, score_range

SEPARATOR = "|"  # between the labels of a set, where a cell holds them
BOOTSTRAP = "paired bootstrap"
ROWS_AND_SEEDS = "t test over rows and seeds"
SEEDS_ALONE = "Welch's t test over seeds"
MCNEMAR = "exact McNemar test"
FEW_DIFFERING = 25  # rows that only one of two models gets right: with fewer, resampling them says too little
WHOLLY_RIGHT = ("accuracy", "subset_accuracy")  # the scores that count rows that are wholly right


@dataclass(frozen=True, slots=True)
class Difference:
    """By how much one setting's score exceeds another's, with a 95% interval and the p-value of the `test` for no
    difference.

    `varies` says what else might have come out: the rows, the seeds, or both. Interval and p-value are None if nothing
    is known of either. Of two runs on classes, `won` and `lost` count the rows that only the first or only the second
    one gets wholly right, and `mcnemar_p` is the p-value of McNemar's exact test on these (1947).
    """

    value: float
    interval: list[float] | None
    p_value: float | None
    test: str | None
    varies: str | None
    won: int | None = None
    lost: int | None = None
    mcnemar_p: float | None = None
    bootstrap_p: float | None = None


def paired_difference(
    first: Sequence[PredictionScores], second: Sequence[PredictionScores], name: str, seed: int
) -> Difference:
    """Return how far the score `name` of one setting's runs is above another's on the same rows, averaged over each
    setting's seeds.

    With one run on either side only the rows vary: by the bootstrap, in which a row is drawn with all its predictions.
    Where two runs differ in few rows, its p-value is too low, and that of an accuracy is McNemar's.
    With two or more on both, the variances over rows and seeds are added, and Student's t has the degrees of freedom of
    Satterthwaite (1946). A row that some seeds find harder than others counts in both variances, so that the interval
    is rather too wide than too narrow.
    """
    run, *others = (*first, *second)
    columns, counts = run.kinds(*(other.predicted for other in others))
    totals = bootstrap_totals(columns, counts, seed)
    scores = run.scores_of(totals)[name]
    first_scores = scores[:, : len(first)]
    second_scores = scores[:, len(first) :]
    lead = first_scores.mean(1) - second_scores.mean(1)
    value = float(lead[0])
    drawn = lead[1:]
    if len(first) > 1 and len(second) > 1:
        by_seed = [first_scores[0].tolist(), second_scores[0].tolist()]
        difference = _with_seeds(value, by_seed, float(drawn.var(ddof=1)), ROWS_AND_SEEDS, "rows and seeds")
        return _possible(difference, name)
    # Without a difference, the bootstrap's values would spread around zero as they now spread around the value.
    p_value = (1 + int((np.abs(drawn - value) >= abs(value)).sum())) / (len(drawn) + 1)
    difference = Difference(value, middle(drawn), p_value, BOOTSTRAP, "rows", bootstrap_p=p_value)
    if len(others) > 1 or not isinstance(run, ClassScores):
        return difference
    return _with_mcnemar(difference, columns[..., 1], counts, name)


def _with_mcnemar(difference: Difference, right: np.ndarray, counts: np.ndarray, name: str) -> Difference:
    """Return the difference with McNemar's exact test; `right`, [kinds, 2], says which of two runs gets a row wholly
    right, and `counts`, [kinds], how many rows are of a kind.
    """
    from scipy.stats import binomtest

    won = int(counts[(right[:, 0] == 1) & (right[:, 1] == 0)].sum())
    lost = int(counts[(right[:, 0] == 0) & (right[:, 1] == 1)].sum())
    mcnemar_p = float(binomtest(won, won + lost).pvalue) if won + lost else 1.0
    difference = replace(difference, won=won, lost=lost, mcnemar_p=mcnemar_p)
    if name not in WHOLLY_RIGHT or won + lost > FEW_DIFFERING:
        return difference
    return replace(difference, p_value=mcnemar_p, test=MCNEMAR)


def difference_over_seeds(first: Sequence[float], second: Sequence[float], name: str) -> Difference:
    """Return how far one setting's mean score `name` is above another's if predictions cannot be paired: Welch's t
    test.
    """
    value = float(np.mean(first) - np.mean(second))
    if min(len(first), len(second)) < 2:
        return Difference(value, None, None, None, None)
    return _possible(_with_seeds(value, [first, second], 0.0, SEEDS_ALONE, "seeds"), name)


def _possible(difference: Difference, name: str) -> Difference:
    """Return the difference with an interval that ends where the score does: Student's t knows no range."""
    low, high = score_range(name)
    if difference.interval is None:
        return difference
    return replace(difference, interval=[min(max(bound, low - high), high - low) for bound in difference.interval])


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values corrected for multiple tests (Holm 1979)."""
    order = np.argsort(p_values, kind="stable")
    rising = np.array(p_values, np.float64)[order]
    n_remaining = np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    corrected[order] = np.maximum.accumulate(np.minimum(n_remaining * rising, 1))
    return corrected.tolist()


def _with_seeds(
    value: float, scores: Sequence[Sequence[float]], row_variance: float, test: str, varies: str
) -> Difference:
    """Return the t interval and test of a difference of means; `row_variance` is the variance over rows."""
    from scipy import stats

    seed_variances = [variance(values) / len(values) for values in scores]  # the variance of each mean
    total = row_variance + sum(seed_variances)
    if total == 0:
        p_value = None if value else 1.0
        return Difference(value, [value, value], p_value, test, varies)
    # Satterthwaite's degrees of freedom
    divisor = sum(part**2 / (len(values) - 1) for part, values in zip(seed_variances, scores, strict=True))
    freedom = total**2 / divisor if divisor else np.inf
    standard_error = np.sqrt(total)
    p_value = float(2 * stats.t.sf(abs(value) / standard_error, freedom))
    return Difference(value, t_interval(value, standard_error, freedom), p_value, test, varies)
