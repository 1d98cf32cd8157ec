"""How unlike the training texts a text is, from the vector that a classifier's head reads of it.

It is the Mahalanobis distance to the nearest class (Lee et al. 2018, "A Simple Unified Framework for Detecting
Out-of-Distribution Samples"): from the mean of its training rows, in the covariance that all classes share, which is
shrunk as there may be few rows (Ledoit and Wolf 2004).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

STEPS = 1000  # between the quantiles that are kept
FOLDS = 5
LEAST_VARIANCE = 1e-6  # of the mean square of the features: rows that are all alike have none


@dataclass(frozen=True, slots=True)
class Novelty:
    """What is kept of the training rows: `whitening` [width, width] makes their covariance within a class the identity,
    and `means` [classes, width] are those of the whitened vectors.

    `held_out` are the quantiles of the novelty of rows like them that were not trained on: [STEPS + 1], ascending.
    """

    whitening: np.ndarray
    means: np.ndarray
    held_out: np.ndarray

    def of(self, vectors: np.ndarray) -> np.ndarray:
        """Return the novelty of texts with these vectors, [texts]: their squared distance to the nearest class."""
        return _distances(vectors, self.whitening, self.means)

    def threshold(self, share: float) -> float:
        """Return the novelty that only this `share` of the held-out rows exceed."""
        return float(np.interp(1 - share, np.linspace(0, 1, len(self.held_out)), self.held_out))


def fit_novelty(vectors: np.ndarray, classes: np.ndarray, held_out: np.ndarray | None = None) -> Novelty:
    """Return the novelty by training rows with these vectors and classes, and the vectors of `held_out` rows.

    Without these, each fifth of the training rows is held out from the others in turn.
    """
    whitening, means = _fitted(vectors, classes)
    if held_out is not None:
        novelty = _distances(held_out, whitening, means)
    else:
        novelty = np.empty(len(vectors), np.float32)
        fold_of_row = np.arange(len(vectors)) % FOLDS
        for fold in range(FOLDS):
            others = fold_of_row != fold
            novelty[~others] = _distances(vectors[~others], *_fitted(vectors[others], classes[others]))
    quantiles = np.quantile(novelty, np.linspace(0, 1, STEPS + 1))
    return Novelty(whitening, means, quantiles.astype(np.float32))


def _fitted(vectors: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the `whitening` and the `means` of a Novelty."""
    from sklearn.covariance import LedoitWolf

    known, ids = np.unique(classes, return_inverse=True)
    means = np.stack([vectors[ids == place].mean(0, dtype=np.float64) for place in range(len(known))])
    within = vectors - means[ids]
    covariance = LedoitWolf(assume_centered=True).fit(within).covariance_
    variances, directions = np.linalg.eigh(covariance)
    least = LEAST_VARIANCE * max(float(np.square(vectors).mean()), LEAST_VARIANCE)
    whitening = directions / np.sqrt(np.maximum(variances, least))
    return whitening.astype(np.float32), (means @ whitening).astype(np.float32)


def _distances(vectors: np.ndarray, whitening: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return the squared distance of each vector to the nearest class, [rows]."""
    whitened = vectors @ whitening
    squares = (whitened**2).sum(1)[:, None] - 2 * whitened @ means.T + (means**2).sum(1)
    return squares.min(1)
