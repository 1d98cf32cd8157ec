"""What the labels so far say: how accurate a linear model is on them, and which ones look wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from encoderlab.metrics.intervals import wilson
from encoderlab.runs.selection import fitted

FOLDS = 10
FOLDS_OF_MANY = 5
MANY_LABELS = 1_000  # rows with a label, from which on fewer folds do
FEW_LABELS = 10  # rows: accuracy on fewer means nothing
FEW_RANDOM = 10  # rows drawn at random
MANY_TO_CONTRADICT = 50  # rows with a label, from which on a model may contradict one
# Probability of another label. With 5% of the labels of five sets wrong, 99 of the 141 rows that it finds among 100 or
# 300 labels are wrong ones (of 303); with 0.8 it finds 133, and 150 right ones. Of 150 classes it finds none.
CONTRADICTING = 0.9
NEIGHBOURS = 5
_AGREEING = 4  # of the neighbours, with each other and against the row


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
    n_folds = FOLDS if len(labels) < MANY_LABELS else FOLDS_OF_MANY
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
