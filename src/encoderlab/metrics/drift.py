"""Whether two samples of vectors come from one source: a classifier two-sample test (Lopez-Paz and Oquab 2017,
"Revisiting Classifier Two-Sample Tests").

A linear classifier learns to tell the samples apart, and is scored on rows that it has not learned from. If they come
from one source, it cannot do better than it does when the rows are dealt to the samples at random, and such deals also
say how good it may get by chance: the permutation test never raises more false alarms than it states. The classifier is
ridge regression, whose predictions for all deals are one matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FOLDS = 5
PERMUTATIONS = 199
RIDGE = 1.0  # in mean variances of a feature; from 1 to 100, as many foreign texts are found, with 0.1 fewer


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
