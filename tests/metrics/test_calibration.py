"""Calibration: the error is the paper's, temperature scaling corrects overconfidence, and thresholds have the best F1 of the
rows they are fitted on.
"""

import numpy as np
import pytest
from sklearn.metrics import f1_score, log_loss, precision_score, recall_score

from encoderlab.metrics.calibration import (
    LEAST_POSITIVES,
    at_temperature,
    best_threshold,
    calibration,
    fit_temperature,
    fit_thresholds,
)


def drawn(n, classes, sharpness, seed=0):
    """Draw labels from calibrated probabilities; return them with the probabilities raised to a power."""
    random = np.random.default_rng(seed)
    honest = random.dirichlet(np.ones(classes), n)
    labels = (honest.cumsum(1) > random.random((n, 1))).argmax(1)
    return at_temperature(honest, 1 / sharpness), labels


def test_the_error_is_the_weighted_mean_gap_between_confidence_and_accuracy():
    found = calibration(np.array([0.9, 0.92, 0.55, 0.6]), np.array([True, False, True, True]))
    assert [(one["n"], one["accuracy"]) for one in found["reliability"]] == [(1, 1.0), (1, 1.0), (2, 0.5)]
    assert found["ece"] == pytest.approx((2 * (0.91 - 0.5) + 0.45 + 0.4) / 4)


def test_an_overconfident_model_gets_the_temperature_that_corrects_it():
    probabilities, labels = drawn(20_000, 3, 2.5)
    temperature = fit_temperature(probabilities, labels)
    assert temperature == pytest.approx(2.5, rel=0.05)
    right, tempered = probabilities.argmax(-1) == labels, at_temperature(probabilities, temperature)
    before, after = (calibration(one.max(-1), right)["ece"] for one in (probabilities, tempered))
    assert after < before / 5
    assert log_loss(labels, tempered) < log_loss(labels, probabilities)


def test_correct_predictions_on_few_rows_do_not_become_certain():
    """45 rare rows of 1,500 leave 5 in validation; with none of 150 wrong, the temperature was 0.05."""
    probabilities, labels = np.tile([[0.9, 0.1], [0.2, 0.8]], (75, 1)), np.tile([0, 1], 75)
    temperature = fit_temperature(probabilities, labels)
    assert temperature < 1
    assert 0.98 < at_temperature(probabilities, temperature).max() < 0.999


def test_predictions_all_wrong_or_fully_confident_determine_no_temperature():
    sure = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert fit_temperature(np.tile([[0.9, 0.1], [0.2, 0.8]], (75, 1)), np.tile([1, 0], 75)) is None
    assert fit_temperature(sure, np.array([1, 0])) is None


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
