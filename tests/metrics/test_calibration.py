"""Calibration: the error is the paper's, and temperature scaling corrects overconfidence."""

import numpy as np
import pytest
from sklearn.metrics import log_loss

from encoderlab.metrics.calibration import at_temperature, calibration, fit_temperature


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
