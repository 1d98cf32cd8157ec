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
@given(st.integers(0, 1000), st.integers(1, 40))
def test_an_interval_is_ordered_within_bounds_and_reproducible(seed, n):
    scores = scored(*drawn(n, 0.5, seed=seed))
    intervals = scores.with_intervals(seed).intervals
    assert intervals == scores.with_intervals(seed).intervals
    for name, (low, high) in intervals.items():
        assert (-1 if name == "matthews" else 0) <= low <= high <= 1


def test_the_lead_over_other_predictions_is_paired():
    labels, predicted = drawn(500, 0.7)
    other = predicted.copy()
    other[:25] = (labels[:25] + 1) % 3  # the same predictions but for 25 made wrong
    lead, (low, high) = scored(labels, predicted).lead_over(other, seed=0)
    assert lead == pytest.approx(np.mean(predicted == labels) - np.mean(other == labels))
    expected = by_scipy(lambda a, b, c: np.mean(a == b) - np.mean(a == c), labels, predicted, other)
    assert [low, high] == pytest.approx(expected, abs=0.005)
    assert low > 0
