"""Which rows to label next, from their vectors and the labels so far; `python -m benchmarks select` measures it.

Some rows are drawn at random: from these alone accuracy can be estimated without bias. The others depend on what is
known. Without labels they are typical: k-means divides the texts into as many clusters as rows are wanted, and the text
nearest to each centre is taken. With labels they are unsure: a classifier gives two labels almost the same probability;
k-means spreads them out, so that they do not ask the same thing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

UNSURE_PER_CHOSEN = 5  # rows with the smallest margins among which those to label are spread
CLUSTERED_ROWS = 20_000  # on which centres are fitted; more move them little
ITERATIONS = 20  # of k-means
STRENGTH = 10.0  # C of the logistic regression, for vectors of length 1
SELECTED = "selected"  # the column that says why a row was chosen
UNLABELLED = -1  # the class of a row without a label
_ROWS_AT_A_TIME = 8192

Probabilities = Callable[[np.ndarray], np.ndarray]  # of the rows with these indices, for each class


class Reason(Enum):
    """Why a row is to be labelled."""

    random = "random"  # drawn at random
    typical = "typical"  # nearest to the centre of a cluster
    unsure = "unsure"  # two labels are almost as probable
    again = "again"  # it has a label, which a model of the others contradicts


@dataclass(frozen=True, slots=True)
class Chosen:
    """The rows to label, in the order of the file, and the reason for each."""

    rows: np.ndarray
    reasons: list[Reason]


def choose_rows(
    vectors: np.ndarray,
    candidates: np.ndarray,
    n: int,
    *,
    random_share: float,
    seed: int,
    probabilities: Probabilities | None = None,
    unsure_per_chosen: int = UNSURE_PER_CHOSEN,
) -> Chosen:
    """Return `n` of the `candidates`, which are indices of rows without a label: all of them if they are not more.

    `vectors` has a row for each text, of length 1. Without `probabilities`, rows are chosen because they are typical.
    """
    generator = np.random.default_rng(seed)
    n = min(n, len(candidates))
    n_random = round(n * random_share)
    drawn = generator.choice(candidates, n_random, replace=False)

    others = np.setdiff1d(candidates, drawn)
    n_others = n - n_random
    reason = Reason.typical
    if probabilities is not None:
        reason = Reason.unsure
        most = unsure_per_chosen * n_others
        others = _least_sure(others, most, probabilities)
    spread = _spread(vectors, others, n_others, generator)

    reasons = dict.fromkeys(drawn.tolist(), Reason.random) | dict.fromkeys(spread.tolist(), reason)
    rows = sorted(reasons)
    return Chosen(np.array(rows, np.int64), [reasons[row] for row in rows])


def classifier_of(vectors: np.ndarray, labels: np.ndarray) -> Probabilities:
    """Return the probabilities of logistic regression, fitted to the rows with a label.

    `labels` has the class of each row, or UNLABELLED.
    """
    known = np.flatnonzero(labels != UNLABELLED)
    model = fitted(vectors[known], labels[known])
    return lambda rows: model.predict_proba(vectors[rows])


def fitted(vectors: np.ndarray, labels: np.ndarray) -> LogisticRegression:
    """Return logistic regression fitted to labelled vectors."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return LogisticRegression(C=STRENGTH, max_iter=1000, tol=1e-3).fit(vectors, labels)


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
