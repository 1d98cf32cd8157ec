"""Folds and fractions of the training rows: every row is tested once, equal texts together, every label on both sides."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.data.examples import Split
from encoderlab.data.splits import Fold, assign_folds, divide, nested_share
from encoderlab.errors import DataError, SettingError

ROWS = st.lists(st.tuples(st.text("abcdef", max_size=3), st.integers(0, 2)), min_size=12, max_size=80)
NAMES = ["bad", "fine", "good"]


def split_of(texts, labels):
    return Split(pa.table({"text": texts, "label": labels}))


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, seed=st.integers(0, 5), folds=st.integers(2, 5))
def test_every_row_is_in_one_fold_with_its_duplicates_and_every_label_outside_each_fold(rows, seed, folds):
    texts, labels = (list(column) for column in zip(*rows, strict=True))
    try:
        found = assign_folds(split_of(texts, labels), folds, seed, NAMES)
    except DataError as refused:
        assert f"folds={folds} is too many" in str(refused) or "into one of" in str(refused)
        return
    assert len(found) == len(rows) and set(found.tolist()) <= set(range(1, folds + 1))
    assert all(
        len({fold for fold, other in zip(found, texts, strict=True) if other == text}) == 1 for text in set(texts)
    )
    for label in set(labels):
        assert len({fold for fold, other in zip(found, labels, strict=True) if other == label}) > 1


@given(sizes=st.lists(st.integers(7, 40), min_size=2, max_size=3), folds=st.integers(2, 7))
@settings(max_examples=40, deadline=None)
def test_distinct_texts_are_spread_evenly_over_folds_in_total_and_by_label(sizes, folds):
    labels = [label for label, size in enumerate(sizes) for _ in range(size)]
    found = assign_folds(split_of([f"t{row}" for row in range(len(labels))], labels), folds, 0, NAMES)
    for label, size in enumerate(sizes):
        counts = np.bincount(found[np.array(labels) == label], minlength=folds + 1)[1:]
        assert counts.sum() == size and np.ptp(counts) <= 1
    assert np.ptp(np.bincount(found, minlength=folds + 1)[1:]) <= 1


def test_a_group_stays_in_one_fold():
    authors = [f"author {row % 12}" for row in range(96)]
    found = assign_folds(
        split_of([f"t{row}" for row in range(96)], [row % 3 for row in range(96)]), 4, 0, NAMES, authors
    )
    assert len(set(zip(authors, found.tolist(), strict=True))) == 12


def test_more_folds_than_a_label_has_rows_are_refused_with_the_possible_number():
    split = split_of([f"t{row}" for row in range(40)], [0] * 20 + [1] * 17 + [2] * 3)
    with pytest.raises(
        DataError,
        match=r"folds=5 is too many: training has only 3 rows with different texts of the label 'good'.*Set folds=3, add rows, or merge rare",
    ):
        assign_folds(split, 5, 0, NAMES)
    with pytest.raises(DataError, match=r"training has only 1 row of the label 'good'.*Add rows, or merge rare labels"):
        assign_folds(split_of([f"t{row}" for row in range(40)], [0] * 20 + [1] * 19 + [2]), 2, 0, NAMES)


def test_fewer_groups_than_folds_are_refused():
    split = split_of([f"t{row}" for row in range(40)], [row % 2 for row in range(40)])
    with pytest.raises(
        DataError, match=r"folds=5 is too many: training has only 3 groups \(dataset.group\).*Set folds=3"
    ):
        assign_folds(split, 5, 0, NAMES, [row % 3 for row in range(40)])


def test_a_fold_is_the_test_split_and_the_rest_training_in_order_with_places():
    split = split_of([f"t{row}" for row in range(30)], [row % 2 for row in range(30)])
    found = assign_folds(split, 3, 0, NAMES)
    parts, folded = divide(split, Fold.parse("2/3"), found)
    assert [example.text for example in parts["test"]] == [f"t{row}" for row in np.flatnonzero(found == 2)]
    assert sorted(example.text for part in parts.values() for example in part) == sorted(
        example.text for example in split
    )
    assert parts["test"].where(0) == split.where(int(np.flatnonzero(found == 2)[0])) and folded.rows is split


@pytest.mark.parametrize("text", ["0/5", "6/5", "1/1", "2", "a/b", "-1/5", ""])
def test_an_impossible_fold_is_refused(text):
    with pytest.raises(SettingError, match=r"dataset.fold is .*as 2/5"):
        Fold.parse(text)


@settings(max_examples=40, deadline=None)
@given(
    labels=st.lists(st.integers(0, 2), min_size=2, max_size=60),
    seed=st.integers(0, 3),
    shares=st.tuples(*[st.floats(0.01, 1)] * 2),
)
def test_a_smaller_fraction_is_part_of_a_larger_one_and_labels_keep_their_proportions(labels, seed, shares):
    split = split_of([f"t{row}" for row in range(len(labels))], labels)
    small, large = ([example.text for example in nested_share(split, share, seed)] for share in sorted(shares))
    assert set(small) <= set(large) and len(small) == max(round(min(shares) * len(labels)), 1)
    half = [example.label for example in nested_share(split, 0.5, seed)]
    assert all(abs(half.count(label) - labels.count(label) / 2) <= 2 for label in set(labels))
