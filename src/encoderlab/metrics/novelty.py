"""How unlike the training texts a text is, and whether two samples of texts come from one source: both by vectors.

A text's novelty is the Mahalanobis distance to the nearest class (Lee et al. 2018, "A Simple Unified Framework for
Detecting Out-of-Distribution Samples"): from the mean of its training rows, in the covariance that all classes share,
which is shrunk as there may be few rows (Ledoit and Wolf 2004).

Two samples are compared by a classifier two-sample test (Lopez-Paz and Oquab 2017, "Revisiting Classifier Two-Sample
Tests"). A linear classifier learns to tell the samples apart, and is scored on rows that it has not learned from. If
they come from one source, it cannot do better than it does when the rows are dealt to the samples at random, and such
deals also say how good it may get by chance: the permutation test never raises more false alarms than it states. The
classifier is ridge regression, whose predictions for all deals are one matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NOVELTY_FILE = "novelty.safetensors"  # where a model folder and an exported one keep a Novelty
STEPS = 1000  # between the quantiles that are kept
FOLDS = 5
LEAST_VARIANCE = 1e-6  # of the mean square of the features: rows that are all alike have none
PERMUTATIONS = 199
RIDGE = 1.0  # in mean variances of a feature; from 1 to 100, as many foreign texts are found, with 0.1 fewer


@dataclass(frozen=True, slots=True)
class Novelty:
    """What is kept of the training rows: `whitening` [width, width] makes their covariance within a class the identity,
    and `means` [classes, width] are those of the whitened vectors.

    `held_out` are the quantiles of the novelty of rows like them that were not trained on: [STEPS + 1], ascending.
    """

    whitening: np.ndarray
    means: np.ndarray
    held_out: np.ndarray

    def measure(self, vectors: np.ndarray) -> np.ndarray:
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


@dataclass(frozen=True, slots=True)
class TwoSampleTest:
    """The area under the ROC curve of the classifier, 0.5 by chance, and how often a random deal has a larger one."""

    auc: float
    p_value: float


def two_sample_test(first: np.ndarray, second: np.ndarray, seed: int = 0) -> TwoSampleTest:
    """Return whether a linear classifier can tell the rows of both samples apart: [rows, features] each."""
    vectors = np.concatenate([first, second]).astype(np.float32)
    vectors -= vectors.mean(0)
    is_second = np.arange(len(vectors)) >= len(first)
    random = np.random.default_rng(seed)
    deals = np.stack([is_second, *(random.permutation(is_second) for _ in range(PERMUTATIONS))], axis=1)

    # Every deal is learned from the same folds.
    fold_of_row = random.permutation(len(vectors)) % FOLDS
    scores = np.empty(deals.shape, np.float32)
    for fold in range(FOLDS):
        tested = fold_of_row == fold
        scores[tested] = _ridge_scores(vectors[~tested], deals[~tested], vectors[tested])
    areas = _areas(scores, deals)
    return TwoSampleTest(float(areas[0]), float((areas[1:] >= areas[0]).sum() + 1) / (PERMUTATIONS + 1))


def _ridge_scores(learned: np.ndarray, deals: np.ndarray, tested: np.ndarray) -> np.ndarray:
    """Return the scores of the tested rows by ridge regression on the learned ones, for each deal: [rows, deals]."""
    targets = deals.astype(np.float32) - deals.mean(0, dtype=np.float32)
    gram = learned.T @ learned
    strength = RIDGE * np.trace(gram) / len(gram)
    weights = np.linalg.solve(gram + strength * np.eye(len(gram), dtype=np.float32), learned.T @ targets)
    return tested @ weights


def _areas(scores: np.ndarray, deals: np.ndarray) -> np.ndarray:
    """Return the area under the ROC curve of each column of scores, which should be higher where the deal is True."""
    from scipy.stats import rankdata

    n_true = deals.sum(0)
    n_false = len(deals) - n_true
    ranks = np.where(deals, rankdata(scores, axis=0), 0).sum(0)
    return (ranks - n_true * (n_true + 1) / 2) / (n_true * n_false)
