"""Scores of label sets: the figures equal scikit-learn's, and thresholds are as given or fitted for the best F1."""

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, average_precision_score, f1_score

from encoderlab.batch import Batch, Prediction
from encoderlab.metrics.texts import LabelSetMetrics

NAMES = ["a", "b", "c"]


def batch_of(rows, labels):
    ids = torch.ones(len(rows), 2, dtype=torch.long)
    empty = torch.empty(0, dtype=torch.long)
    return Batch(
        ids, ids, None, torch.tensor(rows), empty, torch.tensor(labels, dtype=torch.float32), None, 2 * len(rows)
    )


@pytest.fixture(scope="module")
def drawn():
    random = np.random.default_rng(0)
    labels = random.random((300, 3)) < [0.5, 0.2, 0.1]
    return labels, labels * 2.0 + random.normal(size=(300, 3)) - 1


def scores_of(labels, logits, thresholds=None, main_score="f1_micro"):
    names = NAMES if labels.shape[1] == len(NAMES) else [f"label {place}" for place in range(labels.shape[1])]
    metrics = LabelSetMetrics(names, dict.fromkeys(names, 0.5) if thresholds is None else thresholds, main_score)
    order = np.random.default_rng(1).permutation(len(labels))
    for some in np.array_split(order, 4):
        batch = batch_of(some.tolist(), labels[some])
        metrics.keep(
            metrics.columns(Prediction(sequence_logits=torch.tensor(logits[some], dtype=torch.float32)), batch)
        )
    return metrics.scores()


def test_the_figures_equal_scikit_learns(drawn):
    labels, logits = drawn
    scores = scores_of(labels, logits)
    predicted = logits >= 0
    assert scores.values["f1_micro"] == pytest.approx(f1_score(labels, predicted, average="micro"))
    assert scores.values["f1_macro"] == pytest.approx(f1_score(labels, predicted, average="macro"))
    assert scores.values["subset_accuracy"] == pytest.approx(accuracy_score(labels, predicted))
    precision = average_precision_score(labels, logits, average="macro")
    assert scores.values["average_precision_macro"] == pytest.approx(precision)
    by_label = f1_score(labels, predicted, average=None)
    assert [one["f1"] for one in scores.per_class.values()] == pytest.approx(by_label.tolist())


def test_a_macro_average_lies_in_its_interval_if_labels_with_one_row_are_never_found():
    labels = np.eye(40, dtype=bool)[np.repeat([*range(30), 30], [1] * 30 + [70])]
    logits = np.where(labels & (np.arange(40) == 30), 2.0, -2.0)
    scores = scores_of(labels, logits).with_intervals(seed=0)
    low, high = scores.intervals["f1_macro"]
    assert 0 <= low <= scores.values["f1_macro"] <= high <= 1


def test_fitted_thresholds_beat_one_half_on_their_own_rows(drawn):
    labels, logits = drawn
    logits = logits - 1.5  # a model that is too cautious
    plain, fitted = scores_of(labels, logits), scores_of(labels, logits, thresholds={})
    assert fitted.values["f1_micro"] > plain.values["f1_micro"] + 0.05
    assert len(set(fitted.thresholds.tolist())) == 3


def test_a_given_threshold_is_kept_and_the_others_are_fitted(drawn):
    scores = scores_of(*drawn, thresholds={"b": 0.9})
    assert scores.thresholds[1] == 0.9 and scores.thresholds[0] != 0.5


def test_a_label_that_no_row_has_does_not_count():
    labels = np.array([[True, False, False], [False, False, False]])
    scores = scores_of(labels, np.array([[2.0, -2, -2], [-2.0, -2, -2]]))
    assert scores.values["f1_macro"] == 1 and scores.values["average_precision_macro"] == 1
    assert scores.per_class["c"]["average_precision"] is None
