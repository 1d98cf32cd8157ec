"""Thresholds of labels: the probability from which a label is given, chosen for the best F1 on held-out rows."""

from __future__ import annotations

import numpy as np

DEFAULT = 0.5  # where there are no rows to fit on
LEAST_POSITIVES = 10  # of a label with fewer, its own F1 says too little: it gets the threshold of all labels together


def fit_thresholds(probabilities: np.ndarray, labels: np.ndarray, *, shared: bool) -> np.ndarray:
    """A threshold for each label, [labels], from the `probabilities` and the 0 or 1 of each label, both [rows, labels].

    One that is `shared` has the best micro F1. Otherwise each label with at least LEAST_POSITIVES rows has the threshold of its own
    best F1, and the others have the shared one (SCutFBR.1's idea: Yang 2001, "A Study of Thresholding Strategies for Text
    Categorization", section 2.3).
    """
    together = best_threshold(probabilities.ravel(), labels.ravel())
    found = np.full(labels.shape[1], together)
    if not shared:
        for label in np.flatnonzero(labels.sum(0) >= LEAST_POSITIVES):
            found[label] = best_threshold(probabilities[:, label], labels[:, label])
    return found


def best_threshold(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The threshold with the best F1, midway between the two probabilities that it parts; DEFAULT where no row has the label."""
    positives = int(labels.sum())
    if not positives:
        return DEFAULT
    order = np.argsort(-probabilities, kind="stable")
    ranked = probabilities[order].astype(np.float64)
    f1 = 2 * np.cumsum(labels[order]) / (np.arange(1, len(order) + 1) + positives)
    following = np.append(ranked[1:], 0.0)
    f1[ranked == following] = -1.0  # equal probabilities cannot be parted
    best = int(f1.argmax())
    return float((ranked[best] + following[best]) / 2)
