"""Baselines for label sets: a regression for each label, with thresholds fitted like a model's."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.baselines import label_sets
from encoderlab.baselines.label_sets import cannot_fit, for_label_sets, marks_of
from encoderlab.data.examples import Split

WORDS = ("rain", "goal", "vote")


def split(sets):
    texts = [" ".join(["the", *(WORDS[label] for label in labels), f"n{row}"]) for row, labels in enumerate(sets)]
    return Split(pa.table({"text": texts, "label": pa.array(sets, pa.list_(pa.int64()))}))


SETS = [[0], [1], [0, 1], [], [2], [1, 2]] * 6


def test_each_label_is_learned_from_its_words():
    found = for_label_sets(split(SETS), split(SETS[:6]), None, 3)["tfidf_logreg"]
    assert found.figures["subset_accuracy"] == 1.0 and found.figures["seconds"] >= 0
    assert {label: names[0] for label, names in found.top_features.items()} == dict(enumerate(WORDS))


def test_the_majority_is_always_the_most_frequent_label():
    found = for_label_sets(split([[2], [2], [0]]), split([[0], [2, 1]]), None, 3)["majority"]
    assert found.predicted.tolist() == [[False, False, True]] * 2


def test_labels_that_all_or_no_rows_have_are_predicted_as_such():
    found = for_label_sets(split([[0], [0, 1]] * 5), split([[0], [0, 1]]), None, 3)["tfidf_logreg"]
    assert found.predicted[:, 0].all() and not found.predicted[:, 2].any()


def test_thresholds_come_from_held_out_rows():
    rare = [[0] if row % 8 == 0 else [] for row in range(64)]
    without, with_held_out = (
        for_label_sets(split(rare), split(rare), held, 1)["tfidf_logreg"] for held in (None, split(rare))
    )
    assert with_held_out.figures["f1_micro"] >= without.figures["f1_micro"]


def test_too_many_cells_and_texts_without_words_are_skipped_with_a_reason(monkeypatch):
    monkeypatch.setattr(label_sets, "MOST_CELLS", 5)
    assert cannot_fit(split(SETS), 3).startswith(
        "the linear baseline is fitted on at most 5 rows times labels, but training has 108"
    )
    found = for_label_sets(split(SETS), split(SETS), None, 3)
    assert found["tfidf_logreg"].skipped and found["majority"].figures["f1_micro"] > 0
    assert cannot_fit(split([[0]]), 3) == ""


@given(st.lists(st.sets(st.integers(0, 4)), min_size=1))
def test_indicators_mark_the_labels_of_each_row(sets):
    marks = marks_of(split_of(sets), 5)
    assert [set(np.flatnonzero(row)) for row in marks] == sets


def split_of(sets):
    return Split(
        pa.table({"text": ["a"] * len(sets), "label": pa.array([sorted(one) for one in sets], pa.list_(pa.int64()))})
    )


def test_rows_without_labels_have_no_indicators():
    assert not marks_of(Split(pa.table({"text": ["a"], "label": pa.array([None], pa.list_(pa.int64()))})), 2).any()


@pytest.mark.parametrize("seed", [0, 1])
def test_fitting_twice_gives_the_same(seed):
    draw = np.random.default_rng(seed)
    sets = [np.flatnonzero(draw.random(3) < 0.5).tolist() for _ in range(40)]
    first, second = (
        for_label_sets(split(sets), split(sets), split(sets), 3)["tfidf_logreg"].predicted for _ in range(2)
    )
    assert np.array_equal(first, second)
