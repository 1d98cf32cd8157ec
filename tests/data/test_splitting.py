"""Rows held out from training: every row once, equal texts together, every label on both sides."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.data.examples import Split
from encoderlab.data.splits import hold_out, uneven_parts
from encoderlab.errors import DataError

ROWS = st.lists(st.tuples(st.text("abcdef", max_size=3), st.integers(0, 3)), min_size=12, max_size=80)


def split_of(texts, labels, pairs=None):
    pair = {} if pairs is None else {"text_pair": pairs}
    return Split(pa.table({"text": texts, **pair, "label": labels}))


def rows_of(split):
    return [(example.text, example.label) for example in split]


@settings(max_examples=80, deadline=None)
@given(rows=ROWS, seed=st.integers(0, 5))
def test_every_row_is_on_one_side_and_equal_texts_on_the_same(rows, seed):
    split = split_of([text for text, _ in rows], [label for _, label in rows])
    try:
        parts = hold_out(split, {"validation": 0.2, "test": 0.2}, seed)
    except DataError:
        assert len({text for text, _ in rows}) < 12  # too few different texts for three parts of each label
        return
    assert list(parts) == ["train", "validation", "test"]
    assert sorted(row for part in parts.values() for row in rows_of(part)) == sorted(rows)
    texts = [{text for text, _ in rows_of(part)} for part in parts.values()]
    assert not (texts[0] & texts[1] or texts[0] & texts[2] or texts[1] & texts[2])
    labels = [{label for _, label in rows_of(part)} for part in parts.values()]
    assert labels[1] | labels[2] <= labels[0]


def test_the_fraction_holds_for_each_label_and_rows_keep_their_order():
    labels = [0] * 600 + [1] * 300 + [2] * 100
    parts = hold_out(split_of([f"{n:04}" for n in range(1000)], labels), {"validation": 0.1, "test": 0.2}, 0)
    counts = {
        name: [[label for _, label in rows_of(part)].count(id) for id in range(3)] for name, part in parts.items()
    }
    assert counts == {"train": [420, 210, 70], "validation": [60, 30, 10], "test": [120, 60, 20]}
    assert all(rows_of(part) == sorted(rows_of(part)) for part in parts.values())


def test_a_rare_label_is_on_both_sides_with_two_texts_and_in_training_with_one():
    labels = [0] * 96 + [1, 1, 2, 2]
    texts = [f"t{n}" for n in range(96)] + ["rare", "other", "same", "same"]
    parts = hold_out(split_of(texts, labels), {"validation": 0.1}, 0)
    assert {label for _, label in rows_of(parts["train"])} == {0, 1, 2}
    assert {label for _, label in rows_of(parts["validation"])} == {0, 1}


@pytest.mark.parametrize("fraction", [0.1, 0.25])
def test_many_rare_labels_do_not_exceed_the_fraction(fraction):
    """400 rows with 271 labels: a row of each rare label would hold out a quarter of the rows instead of a tenth."""
    labels = [n % 271 for n in range(400)]
    parts = hold_out(split_of([f"t{n}" for n in range(400)], labels), {"validation": fraction}, 0)
    assert abs(len(parts["validation"]) - 400 * fraction) <= 1
    assert {label for _, label in rows_of(parts["validation"])} <= {label for _, label in rows_of(parts["train"])}


@given(
    authors=st.lists(st.sampled_from(["ann", "bob", "cem", "dan", "eva", "", None]), min_size=30, max_size=60),
    seed=st.integers(0, 3),
)
@settings(max_examples=40, deadline=None)
def test_rows_of_a_group_stay_on_one_side_with_those_of_the_same_text(authors, seed):
    texts = [f"t{n // 2 if n < 4 else n}" for n in range(len(authors))]
    split = split_of(texts, [n % 2 for n in range(len(authors))])
    try:
        parts = hold_out(split, {"validation": 0.2}, seed, authors)
    except DataError as refused:
        assert "(dataset.group) are too few to take validation rows from" in str(refused)
        return
    rows = {(example.text, example.label): author for example, author in zip(split, authors, strict=True)}
    sides = [{rows[row] for row in rows_of(part)} - {None, ""} for part in parts.values()]
    assert not sides[0] & sides[1]
    assert not {text for text, _ in rows_of(parts["train"])} & {text for text, _ in rows_of(parts["validation"])}


def test_a_single_group_of_all_rows_is_refused():
    with pytest.raises(DataError, match=r"20 rows with 1 group \(dataset.group\) are too few to take test rows from"):
        hold_out(split_of([f"t{n}" for n in range(20)], [n % 3 for n in range(20)]), {"test": 0.2}, 0, ["ann"] * 20)


def test_a_text_repeated_very_often_stays_in_training():
    texts = ["again"] * 50 + [f"t{n}" for n in range(50)]
    parts = [hold_out(split_of(texts, [n % 2 for n in range(100)]), {"validation": 0.1}, seed) for seed in range(10)]
    held_out = [[text for text, _ in rows_of(part["validation"])] for part in parts]
    assert all(8 <= len(texts) <= 12 and "again" not in texts for texts in held_out)


def test_pairs_are_equal_only_if_both_texts_are():
    texts, pairs = ["a", "ab", "a", "a"] * 10, ["bc", "c", "bc", "x"] * 10
    parts = hold_out(split_of(texts, [None] * 40, pairs), {"validation": 0.3}, 0)
    sides = {(one.text, one.text_pair): name for name, part in parts.items() for one in part}
    assert len(sides) == 3
    assert all(
        len({name for name, part in parts.items() if pair in [(o.text, o.text_pair) for o in part]}) == 1
        for pair in sides
    )


def test_only_the_seed_decides():
    split = split_of([f"t{n}" for n in range(50)], [n % 2 for n in range(50)])
    drawn = [rows_of(hold_out(split, {"validation": 0.2}, seed)["validation"]) for seed in (3, 3, 4)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_sentences_are_held_out_whole_and_equal_ones_together():
    words = [["a", "b"], ["ab"], ["c"], ["a", "b"]] * 5
    split = Split(pa.table({"words": words, "labels": [[0] * len(one) for one in words]}))
    parts = hold_out(split, {"validation": 0.3}, 0)
    sides = [{one.words for one in part} for part in parts.values()]
    assert len(sides[0]) + len(sides[1]) == 3 and not sides[0] & sides[1]


def test_too_few_distinct_texts_are_refused():
    with pytest.raises(DataError) as caught:
        hold_out(split_of(["same"] * 9, [0] * 9), {"test": 0.5}, 0)
    assert str(caught.value) == (
        "9 rows with 1 different text are too few to take test rows from. "
        "Add rows, or use a separate file of test rows: dataset.train=FILE dataset.test=FILE."
    )


def test_labels_with_a_text_each_are_named_as_the_reason():
    """As if dataset.label named a column of ids."""
    with pytest.raises(DataError) as caught:
        hold_out(split_of([f"t{n}" for n in range(40)], list(range(40))), {"validation": 0.1}, 0)
    assert str(caught.value) == (
        "Each of the 40 labels has only one text, which stays in training, so no validation rows can be taken. Check dataset.label, "
        "add rows, or use a separate file of validation rows: dataset.train=FILE dataset.validation=FILE."
    )


@pytest.mark.parametrize(
    ("texts", "warned"),
    [
        ([f"t{n}" for n in range(40)], []),
        (
            ["a", "b", "c", "d"] * 10,
            ["validation has 10 of 40 rows (25%, not 10%), because rows with the same text stay together"],
        ),
    ],
)
def test_a_part_far_from_its_fraction_is_named(texts, warned):
    fractions = {"validation": 0.1}
    parts = hold_out(split_of(texts, [0, 1] * 20), fractions, 0)
    found = uneven_parts(parts, fractions, grouped=False)
    assert len(found) == len(warned) and all(line.startswith(start) for line, start in zip(found, warned, strict=True))
