"""Rows held out, folds and shares: every row once, equal texts and groups together, every label in training."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.data.built_in import BracketsDataset
from encoderlab.data.examples import Split
from encoderlab.data.splits import assign_folds, held_out_parts, nested_share
from encoderlab.errors import DataError

ROWS = st.lists(st.tuples(st.text("abcdef", max_size=3), st.integers(0, 2)), min_size=12, max_size=80)
NAMES = ["bad", "fine", "good"]
SIZES = {"train_rows": 60, "validation_rows": 10, "test_rows": 12, "pairs": 6}


def split_of(texts, labels, **columns):
    return Split(pa.table({"text": texts, "label": labels, **columns}))


def numbered(labels):
    return split_of([f"t{row}" for row in range(len(labels))], labels)


def rows_of(split):
    return [(example.text, example.label) for example in split]


def hold_out(split, fractions, seed, kept_together=None):
    """Return the training rows and those held out from them, by the name of their part."""
    part = held_out_parts(split, fractions, seed, kept_together)
    names = ["train", *fractions]
    return {name: split.take(np.flatnonzero(part == number)) for number, name in enumerate(names)}


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, seed=st.integers(0, 5))
def test_every_row_is_on_one_side_and_equal_texts_on_the_same(rows, seed):
    split = split_of(*map(list, zip(*rows, strict=True)))
    try:
        parts = hold_out(split, {"validation": 0.2, "test": 0.2}, seed)
    except DataError:
        assert len({text for text, _ in rows}) < 12  # too few different texts for three parts of each label
        return
    assert sorted(row for part in parts.values() for row in rows_of(part)) == sorted(rows)
    texts = [{text for text, _ in rows_of(part)} for part in parts.values()]
    assert not (texts[0] & texts[1] or texts[0] & texts[2] or texts[1] & texts[2])
    labels = [{label for _, label in rows_of(part)} for part in parts.values()]
    assert labels[1] | labels[2] <= labels[0]


def test_the_fraction_holds_for_each_label_and_rows_keep_their_order():
    labels = [0] * 600 + [1] * 300 + [2] * 100
    parts = hold_out(split_of([f"{n:04}" for n in range(1000)], labels), {"validation": 0.1, "test": 0.2}, 0)
    counts = {
        name: [[label for _, label in rows_of(part)].count(one) for one in range(3)] for name, part in parts.items()
    }
    assert counts == {"train": [420, 210, 70], "validation": [60, 30, 10], "test": [120, 60, 20]}
    assert all(rows_of(part) == sorted(rows_of(part)) for part in parts.values())


def test_many_rare_labels_do_not_exceed_the_fraction():
    parts = hold_out(numbered([n % 271 for n in range(400)]), {"validation": 0.1}, 0)
    assert abs(len(parts["validation"]) - 40) <= 1
    assert {label for _, label in rows_of(parts["validation"])} <= {label for _, label in rows_of(parts["train"])}


@given(
    authors=st.lists(st.sampled_from(["ann", "bob", "cem", "dan", "eva", "", None]), min_size=30, max_size=60),
    seed=st.integers(0, 3),
)
@settings(max_examples=30, deadline=None)
def test_rows_of_a_group_stay_on_one_side_with_those_of_the_same_text(authors, seed):
    split = split_of([f"t{n // 2 if n < 4 else n}" for n in range(len(authors))], [n % 2 for n in range(len(authors))])
    try:
        parts = hold_out(split, {"validation": 0.2}, seed, authors)
    except DataError:
        return
    by_row = {(example.text, example.label): author for example, author in zip(split, authors, strict=True)}
    sides = [{by_row[row] for row in rows_of(part)} - {None, ""} for part in parts.values()]
    assert not sides[0] & sides[1]
    assert not {text for text, _ in rows_of(parts["train"])} & {text for text, _ in rows_of(parts["validation"])}


def test_only_the_seed_decides():
    drawn = [
        rows_of(hold_out(numbered([n % 2 for n in range(50)]), {"validation": 0.2}, seed)["validation"])
        for seed in (3, 3, 4)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    ("texts", "labels", "groups"),
    [
        (["same"] * 9, [0] * 9, None),
        ([f"t{n}" for n in range(40)], [*range(40)], None),  # as if dataset.label named a column of ids
        ([f"t{n}" for n in range(20)], [n % 3 for n in range(20)], ["ann"] * 20),
    ],
)
def test_rows_that_cannot_be_held_out_are_refused(texts, labels, groups):
    with pytest.raises(DataError, match="test"):
        hold_out(split_of(texts, labels), {"test": 0.2}, 0, groups)


@settings(max_examples=50, deadline=None)
@given(rows=ROWS, seed=st.integers(0, 5), folds=st.integers(2, 5))
def test_every_row_is_in_one_fold_with_its_duplicates_and_every_label_outside_each_fold(rows, seed, folds):
    texts, labels = (list(column) for column in zip(*rows, strict=True))
    try:
        assigned = assign_folds(split_of(texts, labels), folds, seed, NAMES)
    except DataError as refused:
        assert f"folds={folds}" in str(refused)
        return
    assert len(assigned) == len(rows) and set(assigned.tolist()) <= set(range(1, folds + 1))
    assert len(set(zip(texts, assigned.tolist(), strict=True))) == len(set(texts))
    for label in set(labels):
        assert len({fold for fold, other in zip(assigned, labels, strict=True) if other == label}) > 1


@given(sizes=st.lists(st.integers(7, 40), min_size=2, max_size=3), folds=st.integers(2, 7))
@settings(max_examples=30, deadline=None)
def test_distinct_texts_are_spread_evenly_over_folds_in_total_and_by_label(sizes, folds):
    labels = [label for label, size in enumerate(sizes) for _ in range(size)]
    assigned = assign_folds(numbered(labels), folds, 0, NAMES)
    for label, size in enumerate(sizes):
        counts = np.bincount(assigned[np.array(labels) == label], minlength=folds + 1)[1:]
        assert counts.sum() == size and np.ptp(counts) <= 1
    assert np.ptp(np.bincount(assigned, minlength=folds + 1)[1:]) <= 1


@settings(max_examples=30, deadline=None)
@given(
    labels=st.lists(st.integers(0, 2), min_size=2, max_size=60),
    seed=st.integers(0, 3),
    shares=st.tuples(*[st.floats(0.01, 1)] * 2),
)
def test_a_smaller_share_is_part_of_a_larger_one_and_labels_keep_their_proportions(labels, seed, shares):
    small, large = (
        [example.text for example in nested_share(numbered(labels), share, seed)] for share in sorted(shares)
    )
    assert set(small) <= set(large) and len(small) == max(round(min(shares) * len(labels)), 1)
    half = [example.label for example in nested_share(numbered(labels), 0.5, seed)]
    assert all(abs(half.count(label) - labels.count(label) / 2) <= 2 for label in set(labels))


def test_the_folds_of_a_dataset_test_every_training_row_once_and_ignore_its_test_split(tmp_path):
    def texts_of(splits, name):
        return [example.text for example in splits.by_name[name]]

    whole = BracketsDataset(**SIZES).load(tmp_path)
    folds = [BracketsDataset(**SIZES, fold=f"{number}/3").load(tmp_path) for number in (1, 2, 3)]
    assert sorted(text for fold in folds for text in texts_of(fold, "test")) == sorted(texts_of(whole, "train"))
    for number, fold in enumerate(folds, start=1):
        assert texts_of(fold, "validation") == texts_of(whole, "validation")
        assert sorted(texts_of(fold, "train") + texts_of(fold, "test")) == sorted(texts_of(whole, "train"))
        rows = np.flatnonzero(fold.folded.folds == number).tolist()
        assert [fold.folded.whole[row].text for row in rows] == texts_of(fold, "test")
    limited = BracketsDataset(**SIZES, limit=30, fold="1/3").load(tmp_path)
    assert [len(limited.by_name[name]) for name in ("train", "test")] == [20, 10]
