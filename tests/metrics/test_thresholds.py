"""Thresholds: the best F1 of the rows they are fitted on, and none for labels with too few rows to tell."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from encoderlab.metrics.thresholds import LEAST_POSITIVES, best_threshold, fit_thresholds


def test_no_other_threshold_has_a_better_f1():
    random = np.random.default_rng(0)
    labels = random.random(200) < 0.3
    probabilities = np.clip(0.3 * labels + random.random(200) * 0.7, 0, 1).round(2)  # with ties
    found = best_threshold(probabilities, labels)
    every = [f1_score(labels, probabilities >= cut) for cut in np.unique(probabilities)]
    assert f1_score(labels, probabilities >= found) == pytest.approx(max(every))


def test_a_label_that_no_row_has_gets_a_half():
    assert best_threshold(np.array([0.1, 0.9]), np.array([False, False])) == 0.5


def test_a_rare_label_gets_the_threshold_of_all_labels_together():
    random = np.random.default_rng(1)
    labels = np.zeros((400, 2), bool)
    labels[:200, 0], labels[: LEAST_POSITIVES - 1, 1] = True, True
    probabilities = np.clip(0.4 * labels + 0.6 * random.random((400, 2)), 0, 1)
    own = fit_thresholds(probabilities, labels, shared=False)
    shared = fit_thresholds(probabilities, labels, shared=True)
    assert own[1] == shared[0] == shared[1] == best_threshold(probabilities.ravel(), labels.ravel())
    assert own[0] == best_threshold(probabilities[:, 0], labels[:, 0])
