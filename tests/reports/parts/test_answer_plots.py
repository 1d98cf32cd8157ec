"""Plots of predictions: whose precision and recall are drawn, and with which threshold."""

from dataclasses import replace

import numpy as np

from encoderlab.metrics.classification import answered_classes
from encoderlab.metrics.label_sets import answered_sets
from encoderlab.reports.parts.answer_plots import MOST_CURVES, precision_recall_curves, precision_recall_figure


def two_classes(labels, threshold=None):
    labels = np.array(labels)
    scores = answered_classes(labels, labels, ["fraud", "ham"], "accuracy", 0)
    chances = np.linspace(0.9, 0.1, len(labels))
    return replace(scores, probabilities=np.stack([chances, 1 - chances], axis=1), threshold=threshold)


def test_with_two_classes_the_positive_one_is_drawn_with_its_threshold():
    (curve,) = precision_recall_curves(two_classes([0, 1, 1], threshold=0.7))
    assert (curve.name, curve.threshold) == ("fraud", 0.7)
    assert curve.has_label.tolist() == [True, False, False] and curve.chances.tolist() == [0.9, 0.5, 0.1]
    assert precision_recall_curves(two_classes([0, 1, 1]))[0].threshold == 0.5


def test_predictions_without_a_curve_have_no_plot():
    assert precision_recall_curves(two_classes([1, 1, 1])) == []
    assert precision_recall_curves(answered_classes(np.arange(3), np.arange(3), ["a", "b", "c"], "accuracy", 1)) == []


def test_for_label_sets_the_most_frequent_labels_are_drawn():
    marks = np.random.default_rng(0).random((50, 9)) < np.linspace(0.1, 0.9, 9)
    curves = precision_recall_curves(answered_sets(marks, marks, list("abcdefghi"), "f1_micro"))
    assert len(curves) == MOST_CURVES and set("hig") <= {curve.name for curve in curves}


def test_a_label_with_formula_characters_is_drawn_literally():
    (curve,) = precision_recall_curves(two_classes([0, 1, 0, 1]))
    canvas = precision_recall_figure([replace(curve, name="$a_{$ more")], 6.0)
    canvas.draw_without_rendering()
