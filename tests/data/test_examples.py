"""Splits give the same examples by index, in order and in any selection, and know where each was read."""

import pyarrow as pa

from encoderlab.data.examples import Split, TextExample, WordsExample, are_texts, are_words

PAIRS = Split(pa.table({"text": ["a", "b", "c"], "text_pair": ["x", None, "z"], "label": [1, None, 0]}))
WORDS = Split(pa.table({"words": [["a", "b"], []], "labels": [[0, 1], []]}))


def test_indexing_and_iterating_give_the_same_examples():
    assert list(PAIRS) == [PAIRS[row] for row in range(len(PAIRS))]
    assert list(PAIRS) == [TextExample("a", "x", 1), TextExample("b", None, None), TextExample("c", "z", 0)]
    assert list(WORDS) == [WordsExample(("a", "b"), (0, 1)), WordsExample((), ())]


def test_a_selection_keeps_its_order_and_the_places_of_its_rows():
    lines = Split(PAIRS.table, lambda row: f"line {row + 2}")
    taken = lines.take([2, 0])
    assert [example.text for example in taken] == ["c", "a"]
    assert [taken.where(row) for row in range(2)] == ["line 4", "line 2"]
    assert [taken.take([1]).where(0), PAIRS.where(0)] == ["line 2", "row 1"]


def test_all_texts_come_in_order_with_the_two_of_a_pair_side_by_side():
    assert list(PAIRS.texts()) == ["a", "x", "b", "c", "z"]
    assert list(WORDS.texts()) == ["a b", ""]


def test_a_split_is_labelled_if_any_row_is():
    assert PAIRS.labelled and WORDS.labelled
    assert not PAIRS.take([1]).labelled
    assert not Split(pa.table({"text": ["a"]})).labelled


def test_texts_and_words_are_distinguished():
    assert are_texts(list(PAIRS)) and not are_words(list(PAIRS))
    assert are_words(list(WORDS)) and not are_texts([*PAIRS, *WORDS])
