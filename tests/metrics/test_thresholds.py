"""Thresholds: the best F1 of the rows they are fitted on, and none for labels with too few rows to tell."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_score, recall_score

from encoderlab.metrics.calibration import LEAST_POSITIVES, best_threshold, fit_thresholds


def test_no_other_threshold_has_a_better_f1():
    random = np.random.default_rng(0)
    labels = random.random(200) < 0.3
    probabilities = np.clip(0.3 * labels + random.random(200) * 0.7, 0, 1).round(2)  # with ties
    found = best_threshold(probabilities, labels)
    every = [f1_score(labels, probabilities >= cut) for cut in np.unique(probabilities)]
    assert f1_score(labels, probabilities >= found) == pytest.approx(max(every))


@pytest.mark.parametrize("wanted", [0.5, 0.75, 0.9])
def test_a_requested_precision_is_reached_with_the_highest_possible_recall(wanted):
    random = np.random.default_rng(0)
    labels = random.random(200) < 0.3
    probabilities = np.clip(0.4 * labels + random.random(200) * 0.6, 0, 1).round(2)  # with ties
    found = probabilities >= best_threshold(probabilities, labels, wanted)
    assert precision_score(labels, found) >= wanted
    others = [probabilities >= cut for cut in np.unique(probabilities)]
    reached = [recall_score(labels, other) for other in others if precision_score(labels, other) >= wanted]
    assert recall_score(labels, found) == max(reached)


def test_the_most_precise_threshold_is_used_if_none_is_precise_enough():
    probabilities, labels = np.array([0.9, 0.8, 0.7, 0.2]), np.array([False, True, True, False])
    assert best_threshold(probabilities, labels, 0.9) == pytest.approx(0.45)  # two of three are right


def test_a_label_that_no_row_has_gets_a_half():
    assert best_threshold(np.array([0.1, 0.9]), np.array([False, False])) == 0.5
    assert best_threshold(np.array([0.1, 0.9]), np.array([False, False]), 0.9) == 0.5


def test_a_rare_label_gets_the_threshold_of_all_labels_together():
    random = np.random.default_rng(1)
    labels = np.zeros((400, 2), bool)
    labels[:200, 0], labels[: LEAST_POSITIVES - 1, 1] = True, True
    probabilities = np.clip(0.4 * labels + 0.6 * random.random((400, 2)), 0, 1)
    own = fit_thresholds(probabilities, labels)
    assert own[1] == best_threshold(probabilities.ravel(), labels.ravel())
    assert own[0] == best_threshold(probabilities[:, 0], labels[:, 0])
