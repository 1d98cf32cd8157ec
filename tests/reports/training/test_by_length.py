"""Scores by length: every row is in one bin, and each bin has a score with an interval."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.metrics import Scores
from encoderlab.metrics.tagging import answered_words
from encoderlab.reports.training.by_length import MOST_BINS, scores_by_length


def of_texts(right):
    labels = np.zeros(len(right), dtype=int)
    return Scores(
        len(right), {}, {}, [], np.arange(len(right)), labels, (~np.array(right)).astype(int), np.eye(2), ["a", "b"]
    )


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=200))
def test_the_bins_contain_every_row_once_and_do_not_overlap(rows):
    lengths, right = np.array([length for length, _ in rows]), np.array([one for _, one in rows])
    bins = scores_by_length(lengths, of_texts(right), 0)
    assert 1 <= len(bins) <= MOST_BINS
    assert sum(one["n"] for one in bins) == len(rows)
    assert all(before["high"] < after["low"] for before, after in zip(bins, bins[1:], strict=False))
    assert sum(one["score"] * one["n"] for one in bins) == pytest.approx(right.sum())
    for one in bins:
        inside = right[(lengths >= one["low"]) & (lengths <= one["high"])]
        assert one["score"] == pytest.approx(inside.mean())
        assert 0 <= one["ci95"][0] <= one["score"] <= one["ci95"][1] <= 1
        assert one["ci95"][1] > one["ci95"][0]  # also where all answers are right


def test_words_are_counted_in_sentences_and_a_bin_without_words_has_no_score():
    labels = [np.array([], dtype=int), *[np.array([0, 1, 1])] * 10]
    predicted = [labels[0], *[np.array([0, 1, 0])] * 10]
    scores = answered_words(labels, predicted, ["a", "b"], "token_accuracy")
    found = scores_by_length(np.array([0] + [3] * 10), scores, 0)
    assert [(one["low"], one["high"], one["n"]) for one in found] == [(0, 3, 11)]
    assert found[0]["score"] == pytest.approx(2 / 3)
    assert found[0]["ci95"] == pytest.approx([2 / 3, 2 / 3])
    assert scores.score_on(np.array([0]), 0) == (None, None)
