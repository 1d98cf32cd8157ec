"""Columns of texts and labels; anything else is refused with its row and column."""

import pyarrow as pa
import pytest

from encoderlab.data.sources.columns import Rows, Wanted, checked, listed, no_such_column, split_into_words
from encoderlab.errors import DataError


def rows(**columns):
    return Rows({name: pa.chunked_array([values]) for name, values in columns.items()}, lambda row: f"line {row + 2}")


def check(wanted=None, **columns):
    wanted = wanted or Wanted(
        "review", "reply" if "text_pair" in columns else None, "stars" if "label" in columns else None
    )
    found = checked(rows(**columns), wanted)
    return {name: column.to_pylist() for name, column in found.columns.items()}


@pytest.mark.parametrize(
    ("labels", "read"),
    [
        (pa.array([1, 2]), ["1", "2"]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([0.5, float("nan")]), ["0.5", None]),
        (pa.array(["a", "b"]).dictionary_encode(), ["a", "b"]),
        (pa.array([None, None]), [None, None]),
    ],
)
def test_labels_are_strings_as_they_are_written(labels, read):
    assert check(text=pa.array(["x", "y"]), label=labels) == {"text": ["x", "y"], "label": read}


def test_every_string_type_is_read_as_text():
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        assert check(text=pa.array(["x", "y"], kind)) == {"text": ["x", "y"]}
    assert check(text=pa.array(["x", "x"]).dictionary_encode()) == {"text": ["x", "x"]}


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"text": pa.array([1, 2])}, "review.*dataset.text="),
        ({"text": pa.array(["x", None])}, "line 3.*review"),
        ({"text": pa.array([["a"], ["b", None]])}, "line 3.*review"),
        ({"text": pa.array(["x"]), "label": pa.array([["a"]])}, "'stars' holds lists of labels.*Use task=multilabel"),
        (
            {"text": pa.array([["a", "b"], ["c"]]), "label": pa.array([["X", "Y"], ["X", "Y"]])},
            "line 3 has 1 words and 2 labels",
        ),
        ({"text": pa.array(["x"]), "label": pa.array([{"a": 1}])}, "stars"),
        (
            {
                "text": pa.Array.from_buffers(
                    pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]
                )
            },
            "line 2.*UTF-8",
        ),
    ],
)
def test_values_that_are_neither_text_nor_label_are_refused_with_row_and_column(columns, words):
    with pytest.raises(DataError, match=words):
        check(**columns)


def test_a_missing_column_suggests_the_closest_name():
    wanted = Wanted("reveiw", None, "stars", "{}")
    error = str(no_such_column("file.csv", wanted, "text", ["review", "stars"]))
    assert "'reveiw'" in error and "text=review" in error and "review, stars" in error


def test_long_lists_of_names_are_shortened_and_the_rest_counted():
    assert listed(["a", "b"]) == "a, b"
    assert listed(map(str, range(25)), most=3) == "0, 1, 2 and 22 more"


def test_texts_are_split_at_white_space():
    assert split_into_words(rows(text=pa.array([" a\tb ", ""]))).columns["text"].to_pylist() == [["a", "b"], []]
