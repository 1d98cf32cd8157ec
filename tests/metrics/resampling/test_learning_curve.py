"""A curve fitted to scores by number of rows: it recovers a power law, never falls, and admits when the scores say
nothing.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.metrics.resampling.learning_curve import fit_learning_curve

SIZES = [100, 200, 400, 800, 1600]


def power_law(a, b, c):
    return [a - b * (rows / SIZES[-1]) ** -c for rows in SIZES]


@pytest.mark.parametrize("c", [0.2, 0.5, 1.0])
def test_it_recovers_a_power_law(c):
    curve = fit_learning_curve(SIZES, power_law(0.9, 0.05, c), [0.002] * 5, lower_is_better=False)
    assert curve.at(3200) == pytest.approx(0.9 - 0.05 * 2**-c, abs=2e-3)
    gain, (low, high) = curve.gain(3200)
    assert low <= gain <= high and gain == pytest.approx(0.05 * (1 - 2**-c), abs=2e-3)
    assert curve.rows_for(gain) == pytest.approx(3200, rel=0.01)
    assert curve.rows_for(0.2) is None  # beyond what any number of rows would reach


def test_error_measures_fall_towards_zero():
    errors = [0.2 + 0.3 * (rows / SIZES[-1]) ** -0.5 for rows in SIZES]
    curve = fit_learning_curve(SIZES, errors, [0.002] * 5, lower_is_better=True)
    assert curve.at(3200) == pytest.approx(0.2 + 0.3 * 2**-0.5, abs=5e-3) and curve.gain(3200)[0] > 0
    assert 0 <= curve.interval_at(16000)[0] <= curve.at(16000) <= curve.interval_at(16000)[1]


def test_scores_that_do_not_rise_promise_nothing():
    curve = fit_learning_curve(SIZES, [0.8] * 5, [0.002] * 5, lower_is_better=False)
    assert curve.gain(3200) == (0.0, pytest.approx([0, 0.003], abs=0.003)) and curve.rows_for(0.01) is None


def test_noise_widens_the_interval():
    scores = power_law(0.9, 0.05, 0.5)
    narrow, wide = (
        fit_learning_curve(SIZES, scores, [error] * 5, lower_is_better=False).gain(3200)[1] for error in (0.002, 0.03)
    )
    assert np.ptp(wide) > 2 * np.ptp(narrow)


@settings(max_examples=12, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=5, max_size=5), st.floats(0.001, 0.05))
def test_the_curve_rises_stays_below_one_and_gains_are_never_negative(scores, error):
    curve = fit_learning_curve(SIZES, scores, [error] * 5, lower_is_better=False)
    values = [curve.at(rows) for rows in (*SIZES, 3200, 16000)]
    assert (np.diff(values) >= -1e-9).all() and values[-1] <= 1 + 1e-9
    gain, (low, high) = curve.gain(3200)
    assert gain >= 0 and 0 <= low <= high
