"""Which rows to label next, from their vectors and the labels so far, and what these say.

Some rows are drawn at random: from these alone accuracy can be estimated without bias. The others depend on what is
known. Without labels they are typical: k-means divides the texts into as many clusters as rows are wanted, and the text
nearest to each centre is taken. With labels they are unsure: a classifier gives two labels almost the same probability;
k-means spreads them out, so that they do not ask the same thing twice. `python -m benchmarks select` measures it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from encoderlab.data.selected import FEW_RANDOM, Reason
from encoderlab.linear.vectors import logistic_regression
from encoderlab.metrics.intervals import wilson

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

UNSURE_PER_CHOSEN = 5  # rows with the smallest margins among which those to label are spread
CLUSTERED_ROWS = 20_000  # on which centres are fitted; more move them little
ITERATIONS = 20  # of k-means
UNLABELLED = -1  # the class of a row without a label
_ROWS_AT_A_TIME = 8192
FOLDS = 10
FOLDS_OF_MANY = 5
MANY_LABELLED = 1_000  # rows with a label, from which on fewer folds do
FEW_LABELS = 10  # rows: accuracy on fewer means nothing
MANY_TO_CONTRADICT = 50  # rows with a label, from which on a model may contradict one
# Probability of another label. With 5% of the labels of five sets wrong, 99 of the 141 rows that it finds among 100 or
# 300 labels are wrong ones (of 303); with 0.8 it finds 133, and 150 right ones. Of 150 classes it finds none.
CONTRADICTING = 0.9
NEIGHBOURS = 5
_AGREEING = 4  # of the neighbours, with each other and against the row

Probabilities = Callable[[np.ndarray], np.ndarray]  # of the rows with these indices, for each class


@dataclass(frozen=True, slots=True)
class Chosen:
    """The rows to label, in the order of the file, and the reason for each; and the rows that would be next."""

    rows: np.ndarray
    reasons: list[Reason]
    reserve: dict[int, Reason] = field(default_factory=dict)


def choose_rows(
    vectors: np.ndarray,
    candidates: np.ndarray,
    n: int,
    *,
    random_share: float,
    seed: int,
    probabilities: Probabilities | None = None,
    unsure_per_chosen: int = UNSURE_PER_CHOSEN,
    n_reserve: int = 0,
) -> Chosen:
    """Return `n` of the `candidates`, which are indices of rows without a label: all of them if they are not more.

    Up to `n_reserve` others would be next by what is known now, the same share of them drawn at random.

    `vectors` has a row for each text, of length 1. Without `probabilities`, rows are chosen because they are typical.
    """
    generator = np.random.default_rng(seed)
    n = min(n, len(candidates))
    n_random = round(n * random_share)
    drawn = generator.choice(candidates, n_random, replace=False)

    others = np.setdiff1d(candidates, drawn)
    n_others = n - n_random
    reason = Reason.typical
    ranked = others
    most = len(others)
    if probabilities is not None:
        reason = Reason.unsure
        most = unsure_per_chosen * n_others
        ranked = _least_sure(others, most + n_reserve, probabilities)
    spread = _spread(vectors, ranked[:most], n_others, generator)
    reasons = dict.fromkeys(drawn.tolist(), Reason.random) | dict.fromkeys(spread.tolist(), reason)

    # Those that are next: drawn at random, and typical or unsure ones, in any order.
    left = np.setdiff1d(others, spread)
    at_random = generator.choice(left, min(round(n_reserve * random_share), len(left)), replace=False)
    ranked = ranked[~np.isin(ranked, [*spread, *at_random])]
    n_further = min(n_reserve - len(at_random), len(ranked))
    further = ranked[:n_further] if probabilities is not None else _spread(vectors, ranked, n_further, generator)
    next_ones = dict.fromkeys(at_random.tolist(), Reason.random) | dict.fromkeys(further.tolist(), reason)
    reserve = {row: next_ones[row] for row in generator.permutation([*next_ones]).tolist()}

    rows = sorted(reasons)
    return Chosen(np.array(rows, np.int64), [reasons[row] for row in rows], reserve)


def classifier_of(vectors: np.ndarray, labels: np.ndarray) -> Probabilities:
    """Return the probabilities of logistic regression, fitted to the rows with a label.

    `labels` has the class of each row, or UNLABELLED.
    """
    known = np.flatnonzero(labels != UNLABELLED)
    model = fitted(vectors[known], labels[known])
    return lambda rows: model.predict_proba(vectors[rows])


def fitted(vectors: np.ndarray, labels: np.ndarray) -> LogisticRegression:
    """Return logistic regression fitted to labelled vectors."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return logistic_regression(vectors, labels)


def _least_sure(rows: np.ndarray, most: int, probabilities: Probabilities) -> np.ndarray:
    """Return those of the rows whose two most probable classes differ least in probability, at most `most`."""
    margins = [np.zeros(0)]
    for some in _in_parts(rows):
        best_two = np.partition(probabilities(some), -2, axis=1)[:, -2:]
        margins.append(best_two[:, 1] - best_two[:, 0])
    order = np.argsort(np.concatenate(margins), kind="stable")
    return rows[order[:most]]


def _spread(vectors: np.ndarray, rows: np.ndarray, n: int, generator: np.random.Generator) -> np.ndarray:
    """Return `n` of the rows that are far from each other: the nearest one to each of `n` centres of k-means."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    if n == 0 or n >= len(rows):
        return rows[:n]
    sample = rows
    if len(rows) > CLUSTERED_ROWS:
        sample = generator.choice(rows, max(CLUSTERED_ROWS, n), replace=False)
    seed = int(generator.integers(2**31))
    with threadpool_limits(1):
        clusters = KMeans(n, init="k-means++", max_iter=ITERATIONS, random_state=seed)  # started once
        centres = clusters.fit(vectors[np.sort(sample)])
        nearest = _nearest_to_centres(vectors, rows, centres.cluster_centers_)

    # A centre without a text of its own leaves a place, which any other row takes.
    n_missing = n - len(nearest)
    further = generator.choice(np.setdiff1d(rows, nearest), n_missing, replace=False)
    return np.concatenate([nearest, further])


def _nearest_to_centres(vectors: np.ndarray, rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return for each centre the nearest of the rows to which no other centre is nearer, if it has any."""
    nearest = np.full(len(centres), -1)
    shortest = np.full(len(centres), np.inf)
    half_norms = (centres**2).sum(1) / 2
    for some in _in_parts(rows):
        distances = half_norms - vectors[some] @ centres.T  # half the squared ones, but for the rows' own lengths of 1
        own_centre = distances.argmin(1)
        distance = distances[np.arange(len(some)), own_centre]
        for centre in np.unique(own_centre):
            members = np.flatnonzero(own_centre == centre)
            best = members[distance[members].argmin()]
            if distance[best] < shortest[centre]:
                shortest[centre] = distance[best]
                nearest[centre] = some[best]
    return nearest[nearest >= 0]


def _in_parts(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the rows, some at a time, so that memory does not grow with them."""
    for start in range(0, len(rows), _ROWS_AT_A_TIME):
        yield rows[start : start + _ROWS_AT_A_TIME]


# What the labels so far say


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The accuracy of logistic regression by cross-validation, with its 95% interval.

    It is that of `n` rows: those that were drawn at random (`unbiased`), if there are enough of them, otherwise all.
    `of_half` is the accuracy on the same rows when only half of the other labels are learned from.
    """

    value: float
    interval: list[float]
    n: int
    unbiased: bool
    of_half: float


def accuracy_so_far(vectors: np.ndarray, labels: np.ndarray, drawn_at_random: np.ndarray, seed: int) -> Accuracy | None:
    """Return the accuracy on rows with these vectors and labels; None if they are too few, or of one class only."""
    if len(labels) < FEW_LABELS or len(np.unique(labels)) < 2:
        return None
    unbiased = int(drawn_at_random.sum()) >= FEW_RANDOM
    scored = drawn_at_random if unbiased else np.ones(len(labels), bool)
    order = np.random.default_rng(seed).permutation(len(labels))
    n_folds = FOLDS if len(labels) < MANY_LABELLED else FOLDS_OF_MANY
    right = np.zeros(len(labels), bool)
    right_by_half = np.zeros(len(labels), bool)
    for fold in range(n_folds):
        tested = order[fold::n_folds]
        learned = np.setdiff1d(order, tested)
        half = order[np.isin(order, learned)][: len(learned) // 2]
        right[tested] = _predicted(vectors, labels, learned, tested) == labels[tested]
        right_by_half[tested] = _predicted(vectors, labels, half, tested) == labels[tested]
    value = float(right[scored].mean())
    n = int(scored.sum())
    return Accuracy(value, wilson(value, n), n, unbiased, float(right_by_half[scored].mean()))


def contradicted(vectors: np.ndarray, labels: np.ndarray, seed: int) -> np.ndarray:
    """Return the rows whose label a linear model of the other rows finds very improbable, the most improbable first."""
    if len(labels) < MANY_TO_CONTRADICT or len(np.unique(labels)) < 2:
        return np.zeros(0, np.int64)
    order = np.random.default_rng(seed).permutation(len(labels))
    own = np.ones(len(labels))  # the probability of each row's label
    best = np.zeros(len(labels))  # of the most probable other one
    for fold in range(FOLDS_OF_MANY):
        tested = order[fold::FOLDS_OF_MANY]
        learned = np.setdiff1d(order, tested)
        if len(np.unique(labels[learned])) < 2:
            continue
        model = fitted(vectors[learned], labels[learned])
        probabilities = model.predict_proba(vectors[tested])
        is_own = model.classes_ == labels[tested][:, None]
        own[tested] = np.where(is_own, probabilities, 0).sum(1)
        best[tested] = np.where(is_own, 0, probabilities).max(1)
        own[tested[~is_own.any(1)]] = 1  # a label that no other row has is no mistake
    rows = np.flatnonzero(best >= CONTRADICTING)
    return rows[np.argsort(own[rows], kind="stable")]


def _predicted(vectors: np.ndarray, labels: np.ndarray, learned: np.ndarray, tested: np.ndarray) -> np.ndarray:
    """Return the classes that logistic regression predicts for the tested rows."""
    known = np.unique(labels[learned])
    if len(known) == 1:
        return np.full(len(tested), known[0])
    return np.asarray(fitted(vectors[learned], labels[learned]).predict(vectors[tested]))


def unlike_neighbours(vectors: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return which rows have another label than nearly all of the labelled rows that are nearest to them."""
    from sklearn.neighbors import NearestNeighbors

    if len(labels) <= NEIGHBOURS:
        return np.zeros(len(labels), bool)
    nearest = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(vectors).kneighbors(return_distance=False)
    around = np.sort(labels[nearest], axis=1)
    # Sorted, all but one of the neighbours agree if those at either end do.
    commonest = around[:, NEIGHBOURS // 2]
    agree = (around == commonest[:, None]).sum(1) >= _AGREEING
    return agree & (commonest != labels) & (labels[nearest] != labels[:, None]).all(1)
