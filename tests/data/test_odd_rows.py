"""Odd rows: each kind is found wherever it occurs and nowhere else; a duplicate names the row it repeats."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.data import survey as oddities
from encoderlab.data.examples import Split
from encoderlab.data.survey import odd_rows


def split(texts, labels=None, **columns):
    labels = labels if labels is not None else [0] * len(texts)
    types = {"text": pa.string(), "label": pa.int64(), **dict.fromkeys(columns, pa.string())}
    return Split(pa.table({"text": texts, "label": labels, **columns}, pa.schema(types)))


def found(texts, labels=None, **columns):
    return {
        oddity.kind: oddity.rows.tolist() for oddity in odd_rows({"train": split(texts, labels, **columns)})["train"]
    }


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("  \t", oddities.BLANK),
        ("a\x07bell", "control characters"),
        ("a\x85line", "control characters"),
        ("half \ufffd read", "characters that could not be decoded (U+FFFD)"),
        ("dÃ©jÃ  vu", "characters of a wrong encoding"),
        ("it isnâ€™t", "characters of a wrong encoding"),
        ("soft\u00adhyphen", "invisible characters"),
        ("\u202eback", "invisible characters"),
        ("a<br />b", "markup"),
        ("&#65533;t", "markup"),
        ("...", oddities.SYMBOLS),
    ],
)
def test_a_text_is_odd_in_one_way(text, kind):
    assert found(["one", "two", text]) == {kind: [2]}


@pytest.mark.parametrize(
    "text", ["déjà vu", "São Paulo", "1 < 2 & 3 > 2", "line\nbreak\tand tab", "👩‍🚀 in space", "می‌خواهم", "數"]
)
def test_ordinary_writing_is_not_odd(text):
    assert found(["one", "two", text]) == {}


def test_the_second_text_of_a_pair_is_inspected_too():
    assert found(["a", "b"], text_pair=["c", "<b>d</b>"]) == {"markup": [1]}


def test_rows_of_symbols_are_not_odd_if_all_the_data_are_symbols():
    assert found(["()", "(())", "x"]) == {}


def test_a_text_far_longer_than_the_others_is_odd():
    assert found(["a b c d e f"] * 1 + ["g h i j k l", "m n o p q r", "s " * 70]) == {oddities.LENGTH: [3]}
    assert found(["a", "b", "c", "d " * 49]) == {}


def test_a_missing_label_is_odd_only_if_other_rows_have_labels():
    assert found(["a", "b"], [0, None]) == {oddities.UNLABELLED: [1]}
    assert found(["a", "b"], [None, None]) == {}


def test_a_repeated_text_names_the_first_row_that_has_it():
    rows = {"train": split(["a", "b", "a", "a"], [0, 1, 0, 1]), "test": split(["b", "c", "a", "b"], [1, 1, 1, 0])}
    train, test = (odd_rows(rows)[name] for name in ("train", "test"))
    assert [(one.kind, one.rows.tolist(), one.like.tolist()) for one in train] == [
        (oddities.REPEATED, [2], [0]),
        (oddities.CONTRADICTED, [3], [0]),
    ]
    own, shared, otherwise = test
    assert (own.kind, own.rows.tolist(), own.like.tolist(), own.like_split) == (oddities.CONTRADICTED, [3], [0], None)
    assert (shared.kind, shared.rows.tolist(), shared.like.tolist(), shared.like_split) == (
        oddities.SHARED,
        [0, 2],
        [1, 0],
        "train",
    )
    assert (otherwise.kind, otherwise.rows.tolist(), otherwise.like.tolist()) == (oddities.SHARED_OTHERWISE, [3], [1])


def test_sequences_of_words_are_inspected_as_texts():
    table = pa.table({"words": [["a", "b"], ["x", "\x07"], ["a", "b"]], "labels": [[0, 1], [0, 0], [1, 1]]})
    kinds = {one.kind: one.rows.tolist() for one in odd_rows({"train": Split(table)})["train"]}
    assert kinds == {"control characters": [1], oddities.CONTRADICTED: [2]}


def test_an_empty_split_has_no_odd_rows():
    assert odd_rows({"train": split([], [])}) == {"train": []}


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c", "d"]), st.integers(0, 1)), min_size=1, max_size=30))
def test_all_rows_of_a_text_but_the_first_count_as_repeated(rows):
    texts, labels = [text for text, _ in rows], [label for _, label in rows]
    kinds = found(texts, labels)
    repeated = kinds.get(oddities.REPEATED, []) + kinds.get(oddities.CONTRADICTED, [])
    assert sorted(repeated) == [row for row, text in enumerate(texts) if text in texts[:row]]
    assert all(labels[row] != labels[texts.index(texts[row])] for row in kinds.get(oddities.CONTRADICTED, []))


def test_a_selected_row_keeps_its_original_place():
    whole = Split(split(["a", "b", "c", "d"]).rows, lambda row: f"file, line {row + 10}")
    assert whole.take([1, 3]).take(np.array([1])).where(0) == "file, line 13"
    assert split(["a", "b"]).take([1]).where(0) == "row 2"
