"""Settings compared on the same rows: means over seeds, paired differences with their intervals and tests, Holm's
correction.

A score varies for two reasons: which rows the split holds, and which seed a run was trained with. A bootstrap over the
rows covers the first (see `intervals`), several seeds the second. A difference says which of the two its interval
covers.

With one seed, the interval covers the rows (McNemar, or a paired bootstrap over rows). With several, the variances of
rows and seeds are added, with Satterthwaite's degrees of freedom; between runs that share no seed it is Welch's test.
Holm's correction applies to the p-values of many comparisons and not to the intervals. Runs that were scored on
different rows are not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from encoderlab.metrics.entities import ENTITY_SCORES, entity_counts, entity_labels
from encoderlab.metrics.intervals import RESAMPLES, f1_macro, f1_weighted, matthews, middle, resamples
from encoderlab.metrics.regression import number_columns, number_scores

SEPARATOR = "|"  # between the labels of a set, in predictions.csv
OF_NUMBERS = ("pearson", "spearman", "mae", "rmse")
OF_CLASSES = ("accuracy", "token_accuracy", "f1_macro", "f1_weighted", "f1", "matthews")
OF_SETS = ("f1_micro", "f1_macro", "subset_accuracy")
PAIRED = {*OF_CLASSES, *OF_SETS, *OF_NUMBERS, *ENTITY_SCORES}  # the figures that can be computed from answers alone
MCNEMAR, BOOTSTRAP = "McNemar's exact test", "paired bootstrap"
ROWS_AND_SEEDS, SEEDS_ALONE = "t test over rows and seeds", "Welch's t test over seeds"


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of some runs' scores; `deviation` (n - 1 in the denominator) and the 95% t `interval` from
    two runs on.
    """

    value: float
    n: int
    deviation: float | None
    interval: list[float] | None


@dataclass(frozen=True, slots=True)
class Answers:
    """The predictions of one run: class ids of shape [answers], and in `row` the row of the split that each belongs to,
    rising.

    Of sets of labels they are bool [rows, labels], of numbers float64 [rows]. `n_rows` counts also rows without an
    answer, as an empty sentence is. `of_words` tells that a row may have several. `positive` is the class that `f1` is
    about. `names` are those of the classes, where entities are scored.
    """

    labels: np.ndarray
    predicted: np.ndarray
    row: np.ndarray
    n_rows: int
    n_classes: int
    of_words: bool
    positive: int | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """By how much one setting's score exceeds another's, with a 95% interval and the p-value of the `test` for no
    difference.

    `varies` says what else might have come out: the rows, the seeds, or both. Interval and p-value are None if nothing
    is known of either.
    """

    value: float
    interval: list[float] | None
    p_value: float | None
    test: str | None
    varies: str | None


def mean_over_runs(scores: Sequence[float]) -> Mean:
    """Return mean, standard deviation and 95% interval over seeds by Student's t, which assumes normally distributed
    scores.
    """
    values = np.asarray(scores, dtype=float)
    value, n = float(values.mean()), len(values)
    if n < 2:
        return Mean(value, n, None, None)
    deviation = _variance(values) ** 0.5
    return Mean(value, n, deviation, _t_interval(value, deviation / np.sqrt(n), n - 1))


def paired_difference(first: Sequence[Answers], second: Sequence[Answers], figure: str, seed: int) -> Difference:
    """Return how far the runs of one setting are above those of another on the same rows, averaged over each setting's
    seeds.

    With one run on either side only the rows vary: McNemar's exact test (McNemar 1947; the exact form is a sign test on
    the rows that only one of both answers rightly) for single answers, else the bootstrap. With two or more on both,
    the variances over rows and seeds are added, and Student's t has the degrees of freedom of Satterthwaite (1946). A
    row that some seeds find harder than others counts in both variances, so that the interval is rather too wide than
    too narrow.
    """
    drawn, value = _bootstrap_of_difference(first, second, figure, seed)
    if len(first) > 1 and len(second) > 1:
        own = [[_figure(answers, figure) for answers in runs] for runs in (first, second)]
        return _with_seeds(value, own, float(drawn.var(ddof=1)), ROWS_AND_SEEDS, "rows and seeds")
    single = len(first) == len(second) == 1 and figure == "accuracy" and not first[0].of_words
    if single:
        return Difference(value, middle(drawn), _mcnemar(first[0], second[0]), MCNEMAR, "rows")
    # Without a difference, the bootstrap's values would spread around zero as they now spread around the value.
    p_value = (1 + int((np.abs(drawn - value) >= abs(value)).sum())) / (len(drawn) + 1)
    return Difference(value, middle(drawn), p_value, BOOTSTRAP, "rows")


def difference_over_seeds(first: Sequence[float], second: Sequence[float]) -> Difference:
    """Return how far one setting's mean score is above another's if answers cannot be paired: Welch's t test (Welch
    1947).
    """
    value = float(np.mean(first) - np.mean(second))
    if min(len(first), len(second)) < 2:
        return Difference(value, None, None, None, None)
    return _with_seeds(value, [first, second], 0.0, SEEDS_ALONE, "seeds")


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values corrected for multiple tests (Holm 1979): the chance of any false discovery stays below the
    level.
    """
    order = np.argsort(p_values, kind="stable")
    corrected, least = np.empty(len(p_values)), 0.0
    for rank, place in enumerate(order):
        least = max(least, min((len(p_values) - rank) * p_values[place], 1.0))
        corrected[place] = least
    return corrected.tolist()


def _with_seeds(value: float, scores: Sequence[Sequence[float]], of_rows: float, test: str, varies: str) -> Difference:
    """Return the t interval and test of a difference of means, `of_rows` being the variance that the choice of rows
    adds.
    """
    from scipy import stats

    shares = [_variance(values) / len(values) for values in scores]
    variance = of_rows + sum(shares)
    if variance == 0:
        return Difference(value, [value, value], None if value else 1.0, test, varies)
    lost = sum(share**2 / (len(values) - 1) for share, values in zip(shares, scores, strict=True))
    freedom = variance**2 / lost if lost else np.inf
    error = np.sqrt(variance)
    return Difference(
        value, _t_interval(value, error, freedom), float(2 * stats.t.sf(abs(value) / error, freedom)), test, varies
    )


def _variance(values: Sequence[float] | np.ndarray) -> float:
    """Return the variance with n - 1 in the denominator; exactly 0 if all values are equal, despite rounding."""
    return float(np.var(values, ddof=1)) if np.ptp(values) else 0.0


def _t_interval(value: float, error: float, freedom: float) -> list[float]:
    from scipy import stats

    reach = float(stats.t.ppf(0.975, freedom) * error)
    return [value - reach, value + reach]


def _mcnemar(first: Answers, second: Answers) -> float:
    from scipy import stats

    lead = (first.predicted == first.labels).astype(int) - (second.predicted == second.labels)
    decided = int(np.abs(lead).sum())
    return float(stats.binomtest(int((lead > 0).sum()), decided, 0.5).pvalue) if decided else 1.0


def _bootstrap_of_difference(
    first: Sequence[Answers], second: Sequence[Answers], figure: str, seed: int
) -> tuple[np.ndarray, float]:
    """Return the difference in RESAMPLES bootstrap splits, each row drawn with all its answers, and in the split
    itself.
    """
    score = _score_of(figure)
    columns = [_columns(answers, figure) for answers in (*first, *second)]
    width = columns[0].shape[1]
    kinds, counts = np.unique(np.concatenate(columns, axis=1), axis=0, return_counts=True)

    def difference(totals: np.ndarray) -> np.ndarray:
        scores = [score(totals[:, start : start + width]) for start in range(0, totals.shape[1], width)]
        return np.mean(scores[: len(first)], axis=0) - np.mean(scores[len(first) :], axis=0)

    weights = kinds.astype(np.float64)  # multiplied many times faster than integers, and exact below 2^53
    drawn = np.concatenate([difference(some.astype(np.float64) @ weights) for some in resamples(counts, seed)])
    assert len(drawn) == RESAMPLES
    return drawn, float(difference(counts[None].astype(np.float64) @ weights)[0])


def _figure(answers: Answers, figure: str) -> float:
    return float(_score_of(figure)(_columns(answers, figure).sum(0, keepdims=True).astype(np.float64))[0])


def _columns(answers: Answers, figure: str) -> np.ndarray:
    """Return what each row adds to the totals that a figure is computed from: [rows, columns]."""
    if figure in OF_NUMBERS:
        return number_columns(answers.labels, answers.predicted)
    if answers.labels.ndim == 2:
        return _columns_of_sets(answers.labels, answers.predicted, figure)
    if figure in ENTITY_SCORES:
        return _columns_of_entities(answers)
    right = answers.predicted == answers.labels
    n_targets = np.bincount(answers.row, minlength=answers.n_rows)
    hits = np.bincount(answers.row[right], minlength=answers.n_rows)
    if figure == "token_accuracy":
        return np.stack([hits, n_targets], axis=1)
    if figure == "accuracy":
        return np.stack([(hits == n_targets) & (n_targets > 0), n_targets > 0], axis=1).astype(np.int64)

    def per_class(ids: np.ndarray, row: np.ndarray) -> np.ndarray:
        places = row * answers.n_classes + ids
        return np.bincount(places, minlength=answers.n_rows * answers.n_classes).reshape(
            answers.n_rows, answers.n_classes
        )

    hits, labels, predicted = (
        per_class(ids, row)
        for ids, row in (
            (answers.labels[right], answers.row[right]),
            (answers.labels, answers.row),
            (answers.predicted, answers.row),
        )
    )
    if figure == "f1":
        return np.stack([hits[:, answers.positive], (labels + predicted)[:, answers.positive]], axis=1)
    return np.concatenate([hits, *([labels + predicted] if figure == "f1_macro" else [labels, predicted])], axis=1)


def _columns_of_entities(answers: Answers) -> np.ndarray:
    """Return the entities of each row that are rightly predicted, predicted, and in truth: [rows, 3]."""
    labels = entity_labels(answers.names)
    assert labels is not None, "only BIO and BIOES labels have entities"
    starts = np.searchsorted(answers.row, np.arange(1, answers.n_rows))
    return entity_counts(labels, np.split(answers.labels, starts), np.split(answers.predicted, starts)).sum(2)


def _columns_of_sets(labels: np.ndarray, predicted: np.ndarray, figure: str) -> np.ndarray:
    """Return the same for sets of labels, bool [rows, labels] each."""
    if figure == "subset_accuracy":
        right = (labels == predicted).all(1).astype(np.int64)
        return np.stack([right, np.ones_like(right)], axis=1)
    hits, occurrences = (labels & predicted).astype(np.int64), labels.astype(np.int64) + predicted
    if figure == "f1_micro":
        return np.stack([2 * hits.sum(1), occurrences.sum(1)], axis=1)
    return np.concatenate([hits, occurrences], axis=1)


def _score_of(figure: str) -> Callable[[np.ndarray], np.ndarray]:
    """Return the scores, [splits], of totals, [splits, columns]."""
    if figure == "f1_macro":
        return lambda totals: f1_macro(*np.split(totals, 2, axis=1))
    if figure == "f1":
        return lambda totals: 2 * totals[:, 0] / np.maximum(totals[:, 1], 1)
    if figure in ("f1_weighted", "matthews"):
        score = f1_weighted if figure == "f1_weighted" else matthews
        return lambda totals: score(*np.split(totals, 3, axis=1))
    if figure in OF_NUMBERS:
        return lambda totals: number_scores(totals)[figure]
    if figure in ENTITY_SCORES:
        return ENTITY_SCORES[figure]
    assert figure in ("accuracy", "token_accuracy", "f1_micro", "subset_accuracy"), (
        f"{figure} cannot be computed from answers"
    )
    return lambda totals: totals[:, 0] / np.maximum(totals[:, 1], 1)
