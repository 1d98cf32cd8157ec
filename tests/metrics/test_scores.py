"""Scores by class, and logits that are not finite."""

import numpy as np
import pytest

from encoderlab.errors import TrainingError
from encoderlab.metrics.scores import figures_by_class, refuse_non_finite


def test_a_class_that_does_not_occur_is_listed_and_counts_for_nothing():
    found = figures_by_class(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), ["no", "yes", "never"])
    assert found["confusion"] == [[1, 1, 0], [0, 2, 0], [0, 0, 0]]
    assert found["per_class"]["never"] == {"precision": 0, "recall": 0, "f1": 0, "support": 0}
    assert found["per_class"]["yes"]["f1"] == pytest.approx(0.8)
    assert found["f1_macro"] == pytest.approx((2 / 3 + 0.8) / 2)


def test_macro_f1_weighs_classes_equally_and_weighted_f1_by_their_rows():
    found = figures_by_class(np.array([0] * 9 + [1]), np.zeros(10, dtype=int), ["many", "few"])
    f1 = found["per_class"]["many"]["f1"]
    assert (found["f1_macro"], found["f1_weighted"]) == (pytest.approx(f1 / 2), pytest.approx(0.9 * f1))


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite_are_counted_and_refused(broken):
    refuse_non_finite(np.array([0.5, 1e30]))
    with pytest.raises(TrainingError, match="1 of 2 scored positions"):
        refuse_non_finite(np.array([0.5, broken]))
