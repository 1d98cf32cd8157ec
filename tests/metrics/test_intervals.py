"""Intervals: those that resampling examples one by one would give, without resampling."""

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.metrics.intervals import bootstrap, difference, kinds_of_confusion


def answers_of(n, share_right, n_classes=3, seed=0):
    random = np.random.default_rng(seed)
    labels = random.choice(n_classes, n, p=np.arange(1, n_classes + 1) / np.arange(1, n_classes + 1).sum())
    return labels, np.where(random.random(n) < share_right, labels, random.integers(0, n_classes, n))


def by_scipy(score, *columns):
    found = scipy.stats.bootstrap(
        columns,
        score,
        paired=True,
        vectorized=False,
        method="percentile",
        n_resamples=3000,
        rng=np.random.default_rng(5),
    )
    return [found.confidence_interval.low, found.confidence_interval.high]


def test_intervals_of_a_confusion_matrix_match_scipys_bootstrap_over_rows():
    labels, predicted = answers_of(300, 0.7)
    found = bootstrap(kinds_of_confusion(sklearn.metrics.confusion_matrix(labels, predicted)), seed=1)
    assert found["accuracy"] == pytest.approx(by_scipy(lambda a, b: np.mean(a == b), labels, predicted), abs=0.01)
    # scikit-learn's own F1 is too slow for thousands of draws of rows; this is the same figure from the counts.
    assert found["f1_macro"] == pytest.approx(by_scipy(f1_macro, labels, predicted), abs=0.01)


def f1_macro(labels, predicted):
    f1 = [
        2 * np.sum((labels == c) & (predicted == c)) / (np.sum(labels == c) + np.sum(predicted == c)) for c in range(3)
    ]
    return np.mean(f1)


def test_the_f1_of_a_resample_equals_scikit_learns():
    labels, predicted = answers_of(50, 0.6)
    assert f1_macro(labels, predicted) == pytest.approx(sklearn.metrics.f1_score(labels, predicted, average="macro"))
    # One kind only: each resample is the split itself.
    found = bootstrap(kinds_of_confusion(np.array([[0, 5, 0], [0, 0, 0], [0, 0, 0]])), seed=0)
    names = ("accuracy", "token_accuracy", "f1_macro", "f1_weighted", "matthews")
    assert found == dict.fromkeys(names, [0, 0])


def test_the_interval_of_matthews_correlation_matches_a_bootstrap_over_rows():
    labels, predicted = answers_of(300, 0.7, n_classes=2)
    found = bootstrap(kinds_of_confusion(sklearn.metrics.confusion_matrix(labels, predicted)), seed=1)
    assert found["matthews"] == pytest.approx(
        by_scipy(lambda a, b: np.corrcoef(a, b)[0, 1], labels, predicted), abs=0.02
    )


def test_a_million_rows_take_no_more_work_than_a_hundred():
    low, high = bootstrap(kinds_of_confusion(np.array([[400_000, 100_000], [100_000, 400_000]])), seed=0)["accuracy"]
    assert (low, high) == (pytest.approx(0.8, abs=0.001), pytest.approx(0.8, abs=0.001))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 40))
def test_an_interval_is_ordered_within_bounds_and_reproducible(seed, n):
    labels, predicted = answers_of(n, 0.5, seed=seed)
    kinds = kinds_of_confusion(sklearn.metrics.confusion_matrix(labels, predicted, labels=range(3)))
    found = bootstrap(kinds, seed)
    assert found == bootstrap(kinds, seed)
    for name, (low, high) in found.items():
        assert (-1 if name == "matthews" else 0) <= low <= high <= 1


def test_the_difference_of_two_methods_is_paired():
    labels, predicted = answers_of(500, 0.7)
    other = predicted.copy()
    other[:25] = labels[:25] + 1  # the same answers but for 25 made wrong
    lead, (low, high) = difference(labels, predicted, other, seed=0)
    assert lead == pytest.approx(np.mean(predicted == labels) - np.mean(other == labels))
    expected = by_scipy(lambda a, b, c: np.mean(a == b) - np.mean(a == c), labels, predicted, other)
    assert [low, high] == pytest.approx(expected, abs=0.005)
    assert low > 0
    assert difference(labels, predicted, predicted, seed=0) == (0.0, [0.0, 0.0])
