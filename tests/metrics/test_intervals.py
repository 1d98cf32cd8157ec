"""Intervals: those that resampling examples one by one would give, without resampling."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.metrics.texts import classification_scores


def drawn(n, share_right, n_classes=3, seed=0):
    random = np.random.default_rng(seed)
    labels = random.choice(n_classes, n, p=np.arange(1, n_classes + 1) / np.arange(1, n_classes + 1).sum())
    return labels, np.where(random.random(n) < share_right, labels, random.integers(0, n_classes, n))


def scored(labels, predicted, n_classes=3):
    return classification_scores(labels, predicted, [str(name) for name in range(n_classes)], "accuracy", 1)


def by_scipy(score, *columns):
    interval = scipy.stats.bootstrap(
        columns,
        score,
        paired=True,
        vectorized=False,
        method="percentile",
        n_resamples=3000,
        rng=np.random.default_rng(5),
    ).confidence_interval
    return [interval.low, interval.high]


def f1_macro(labels, predicted):
    """Scikit-learn's is too slow for thousands of draws."""
    hits = [np.sum((labels == c) & (predicted == c)) for c in range(3)]
    return np.mean([2 * hits[c] / (np.sum(labels == c) + np.sum(predicted == c)) for c in range(3)])


def test_intervals_match_scipys_bootstrap_over_rows():
    labels, predicted = drawn(300, 0.7)
    intervals = scored(labels, predicted).with_intervals(seed=1).intervals
    assert intervals["accuracy"] == pytest.approx(by_scipy(lambda a, b: np.mean(a == b), labels, predicted), abs=0.01)
    assert intervals["f1_macro"] == pytest.approx(by_scipy(f1_macro, labels, predicted), abs=0.01)
    labels, predicted = drawn(300, 0.7, n_classes=2)
    interval = scored(labels, predicted, 2).with_intervals(seed=1).intervals["matthews"]
    assert interval == pytest.approx(by_scipy(lambda a, b: np.corrcoef(a, b)[0, 1], labels, predicted), abs=0.02)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 40))
def test_an_interval_is_ordered_within_bounds_and_reproducible(seed, n):
    scores = scored(*drawn(n, 0.5, seed=seed))
    intervals = scores.with_intervals(seed).intervals
    assert intervals == scores.with_intervals(seed).intervals
    for name, bounds in intervals.items():
        if bounds is not None:  # a correlation that no row can change
            low, high = bounds
            assert (-1 if name in ("matthews", "cohen_kappa") else 0) <= low < high <= 1


def test_one_row_has_no_interval():
    scores = scored(np.array([1]), np.array([1])).with_intervals(seed=0)
    assert set(scores.intervals.values()) == {None} and scores.per_class["1"]["f1_ci95"] is None
    assert scores.lead_over(np.array([0]), seed=0) == (1.0, None)


def test_all_right_leaves_open_what_wilsons_interval_says():
    labels = np.arange(20) % 2
    scores = scored(labels, labels, 2).with_intervals(seed=0)
    expected = scipy.stats.binomtest(20, 20).proportion_ci(method="wilson")
    for name in ("accuracy", "f1_macro", "f1_weighted"):
        assert scores.intervals[name] == pytest.approx([expected.low, 1.0], abs=1e-6), name
    assert scores.intervals["matthews"] is None, "a bootstrap without width is no interval"


def test_a_class_of_six_rows_that_is_never_predicted_may_still_be_found_in_others():
    labels = np.repeat([0, 1], [94, 6])
    low, high = scored(labels, np.zeros(100, int), 2).with_intervals(seed=0).per_class["1"]["f1_ci95"]
    recall = scipy.stats.binomtest(0, 6).proportion_ci(method="wilson").high
    assert low == 0 and high == pytest.approx(2 * recall / (1 + recall), abs=1e-6), "F1 of that recall without mistakes"


def test_macro_f1_of_rare_classes_is_less_certain_than_accuracy():
    labels = np.repeat([0, 1, 2], [90, 6, 4])
    intervals = scored(labels, labels).with_intervals(seed=0).intervals
    assert intervals["f1_macro"][0] < intervals["accuracy"][0] < 1


def test_the_lead_over_other_predictions_is_paired():
    labels, predicted = drawn(500, 0.7)
    other = predicted.copy()
    other[:25] = (labels[:25] + 1) % 3  # the same predictions but for 25 made wrong
    lead, (low, high) = scored(labels, predicted).lead_over(other, seed=0)
    assert lead == pytest.approx(np.mean(predicted == labels) - np.mean(other == labels))
    expected = by_scipy(lambda a, b, c: np.mean(a == b) - np.mean(a == c), labels, predicted, other)
    assert [low, high] == pytest.approx(expected, abs=0.005)
    assert low > 0
