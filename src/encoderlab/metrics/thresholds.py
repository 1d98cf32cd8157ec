"""Thresholds of labels: the probability from which a label is predicted, fitted on held-out rows for F1 or for a
precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

DEFAULT = 0.5  # if there are no rows to fit it on
LEAST_POSITIVES = 10  # with fewer, a label's own F1 says too little, and it gets the threshold of all labels together


def fit_thresholds(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return a threshold for each label, [labels], from the `probabilities` and the 0 or 1 of each label, both [rows,
    labels].

    Each label with at least LEAST_POSITIVES rows has the threshold of its own best F1, and the others have the one of
    the best micro F1 (SCutFBR.1's idea: Yang 2001, "A Study of Thresholding Strategies for Text Categorization",
    section 2.3).
    """
    fitted = np.full(labels.shape[1], best_threshold(probabilities.ravel(), labels.ravel()))
    for label in np.flatnonzero(labels.sum(0) >= LEAST_POSITIVES):
        fitted[label] = best_threshold(probabilities[:, label], labels[:, label])
    return fitted


def best_threshold(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Return the threshold with the best F1, midway between the two probabilities it separates; DEFAULT if no row has
    the label.
    """
    if not labels.any():
        return DEFAULT
    found, given, between = _cuts(probabilities, labels)
    return float(between[(2 * found / (given + labels.sum())).argmax()])


def threshold_for_precision(probabilities: np.ndarray, labels: np.ndarray, precision: float) -> float:
    """Return the lowest threshold with this precision, which has the highest recall; the most precise one if none has
    it.

    It is midway between the two probabilities that it separates. DEFAULT if no row has the label.
    """
    if not labels.any():
        return DEFAULT
    found, given, between = _cuts(probabilities, labels)
    precise = np.flatnonzero(found / given >= precision)
    return float(between[precise[-1] if len(precise) else (found / given).argmax()])


def _cuts(probabilities: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for every threshold between two different probabilities, descending: how many rows with the label
    are above it, how many rows in all, and the threshold itself; [thresholds] each.
    """
    order = np.argsort(-probabilities, kind="stable")
    ranked = probabilities[order].astype(np.float64)
    following = np.append(ranked[1:], 0.0)
    parted = np.flatnonzero((ranked != following) | (np.arange(len(ranked)) == len(ranked) - 1))
    return np.cumsum(labels[order])[parted], parted + 1, (ranked[parted] + following[parted]) / 2


@dataclass(frozen=True, slots=True)
class ThresholdRule:
    """How the threshold of one label is found: it is `known`, or chosen for a `precision`, or else for the best F1."""

    known: float | None = None
    precision: float | None = None

    def on(self, probabilities: np.ndarray, labels: np.ndarray) -> float:
        """Return the threshold by this rule on rows with the `probabilities` and the 0 or 1 of the label,
        [rows] each.
        """
        if self.known is not None:
            return self.known
        if self.precision is None:
            return best_threshold(probabilities, labels)
        return threshold_for_precision(probabilities, labels, self.precision)
