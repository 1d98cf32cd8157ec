"""What is chosen on held-out rows after a model is fitted, and what a report says about it."""

from dataclasses import replace

import numpy as np
import pytest

from encoderlab.metrics.classification import classification_scores
from encoderlab.runs.score import threshold_notes
from encoderlab.tasks.config import ClassificationConfig, RegressionConfig


def scored(precision):
    """Return validation scores of 10 rows, 5 of them predicted as fraud, some of those correctly."""
    right = round(5 * precision)
    labels = np.array([1] * right + [0] * (10 - right))
    scores = classification_scores(labels, np.array([1] * 5 + [0] * 5), ["ham", "fraud"], "accuracy", 1)
    return {"validation": replace(scores, threshold=0.75)}


@pytest.mark.parametrize(
    ("threshold", "precision", "notes"),
    [
        ("f1", 0.6, ["The threshold of 'fraud', 0.750, was fitted on validation (task.threshold=f1)"]),
        (
            "precision:0.8",
            0.8,
            ["The threshold of 'fraud', 0.750, was fitted on validation (task.threshold=precision:0.8)"],
        ),
        (0.3, 0.6, []),
        (None, 0.6, []),
    ],
)
def test_a_report_says_how_a_threshold_was_chosen(threshold, precision, notes):
    assert threshold_notes(ClassificationConfig(name="t", threshold=threshold), scored(precision)) == notes
    assert threshold_notes(RegressionConfig(name="t"), scored(precision)) == []


def test_a_precision_that_no_threshold_reaches_is_reported():
    _, missed = threshold_notes(ClassificationConfig(name="t", threshold="precision:0.9"), scored(0.6))
    assert missed == "No threshold gives 'fraud' a precision of 0.9 on validation: the best has 0.600"


def test_without_validation_there_is_nothing_to_choose_on():
    (note,) = threshold_notes(ClassificationConfig(name="t", threshold="f1"), {})
    assert note == "There is no validation split to fit task.threshold=f1 on, so it is 0.5"
