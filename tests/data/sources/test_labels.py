"""Labels get their ids in an order that a reader expects, and indistinguishable labels are refused."""

import pyarrow as pa
import pytest

from encoderlab.data.sources.columns import Rows
from encoderlab.data.sources.labels import (
    as_split,
    mapped_labels,
    name_labels,
    refuse_labels_alike,
    refuse_missing_labels,
)
from encoderlab.errors import DataError, SettingError


def rows(*labels, **columns):
    values = {
        "text": pa.array([f"text {row}" for row in range(len(labels))]),
        "label": pa.array(labels, pa.string()),
        **columns,
    }
    return Rows({name: pa.chunked_array([column]) for name, column in values.items()}, lambda row: f"line {row + 2}")


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (("b", "a"), ["a", "b"]),
        (("10", "9", "-1"), ["-1", "9", "10"]),
        (("10", "9", "x"), ["10", "9", "x"]),
        (("b", None, "a"), ["a", "b"]),
    ],
)
def test_numeric_labels_are_ordered_as_numbers_and_others_as_strings(labels, names):
    assert name_labels(rows(*labels), None).names == names


def test_label_names_order_labels_or_name_numbers():
    assert name_labels(rows("a", "b"), ["b", "a", "c"]).names == ["b", "a", "c"]
    named = name_labels(rows("1", "0"), ["no", "yes"])
    assert (named.names, named.values) == (["no", "yes"], ["0", "1"])
    of_source = name_labels(rows("0", "1"), ["yes", "no"], class_names=["no", "yes"])
    assert (of_source.names, of_source.values) == (["yes", "no"], ["1", "0"])


@pytest.mark.parametrize(
    ("labels", "given", "error"),
    [
        (("a", "a"), None, DataError),
        ((None,), None, DataError),
        (("0", "5"), ["no", "yes"], DataError),
        (("a", "b"), ["c", "d"], SettingError),
    ],
)
def test_labels_that_do_not_match_the_names_are_refused(labels, given, error):
    with pytest.raises(error):
        name_labels(rows(*labels), given)


def test_a_label_unknown_to_training_is_refused_with_its_line():
    labels = name_labels(rows("a", "b"), None)
    assert [example.label for example in as_split(rows("b", None, "a"), labels)] == [1, None, 0]
    assert [example.label for example in as_split(rows("b"), None)] == [None]
    with pytest.raises(DataError, match="line 3 has the label 'c'"):
        as_split(rows("a", "c"), labels)


@pytest.mark.parametrize("other", [" 1", "01", "1.0", "+1"])
def test_two_spellings_of_one_label_are_refused_with_both_lines(other):
    with pytest.raises(DataError, match="line 2 .*'1'.*line 3 "):
        refuse_labels_alike([rows("1", other)])
    refuse_labels_alike([rows("1", "10", "-1"), rows("one", "One")])


@pytest.mark.parametrize("label", [None, "", " \t"])
def test_an_empty_label_is_refused_with_its_line(label):
    with pytest.raises(DataError, match="line 3.*'stars'"):
        refuse_missing_labels(rows("a", label), "stars")
    refuse_missing_labels(rows("a", "b"), "stars")


def test_a_row_has_each_label_once_after_labels_are_merged():
    labels = pa.chunked_array([pa.array([["joy", "Joy"], [], None, ["anger", "joy"]], pa.list_(pa.string()))])
    text = pa.chunked_array([pa.array(["a", "b", "c", "d"])])
    merged = mapped_labels(Rows({"text": text, "label": labels}, str), {"joy": "joy", "Joy": "joy", "anger": "anger"})
    assert merged.columns["label"].to_pylist() == [["joy"], [], None, ["anger", "joy"]]
