"""Figures over folds: the interval is the paper's, and wider than one for independent runs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.metrics.folds import over_folds

SCORES = st.lists(st.floats(0, 1), min_size=2, max_size=10)


def test_the_interval_is_the_corrected_resampled_t_interval():
    """By hand: mean 0.8, s = 0.1, (1/3 + 1/2) s^2 = 0.008333, t(2) = 4.302653."""
    found = over_folds([0.7, 0.8, 0.9], 0.5)
    assert (found.mean, found.deviation) == (pytest.approx(0.8), pytest.approx(0.1))
    assert found.interval == pytest.approx([0.8 - 4.302653 * 0.0912871, 0.8 + 4.302653 * 0.0912871], abs=1e-6)


@given(SCORES, st.floats(0.01, 1))
def test_it_is_symmetric_around_the_mean_and_wider_than_for_independent_runs(scores, share):
    low, high = (found := over_folds(scores, share)).interval
    independent = over_folds(scores, 0.0).interval
    assert low <= independent[0] <= found.mean + 1e-12 and independent[1] <= high + 1e-12
    assert high - found.mean == pytest.approx(found.mean - low)
    assert over_folds([0.5] * 4, share).interval == [0.5, 0.5]
    assert np.isfinite(found.interval).all()
