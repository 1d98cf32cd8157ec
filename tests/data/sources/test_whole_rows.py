"""Whole rows: files joined in their order with each row's place, incomplete rows dropped, and columns carried along."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.data import spool
from encoderlab.data.sources.columns import Rows, Wanted
from encoderlab.data.sources.whole_rows import joined, single_values, without_missing
from encoderlab.data.spool import Spool
from encoderlab.errors import DataError

CARRIED = {
    "numbers": pa.array([1, None]),
    "decimals": pa.array([decimal.Decimal("1.50"), None]),
    "truths": pa.array([True, False]),
    "times": pa.array([datetime.datetime(2024, 5, 1), None]),
    "texts": pa.array(["a", None]),
    "categories": pa.array(["b", "c"]).dictionary_encode(),
    "nothing": pa.nulls(2),
}


def rows(name, carried=None, **columns):
    made = {key: pa.chunked_array([values]) for key, values in columns.items()}
    return Rows(
        made,
        lambda row: f"{name}, line {row + 2}",
        {key: pa.chunked_array([one]) for key, one in (carried or {}).items()},
    )


@given(st.lists(st.lists(st.text(max_size=3)), min_size=1, max_size=5))
def test_files_are_joined_in_their_order_and_every_row_keeps_its_place(files):
    parts = [rows(f"{number}.csv", text=pa.array(texts, pa.string())) for number, texts in enumerate(files)]
    found = joined(parts)
    assert found.columns["text"].to_pylist() == [text for texts in files for text in texts]
    places = [f"{number}.csv, line {row + 2}" for number, texts in enumerate(files) for row in range(len(texts))]
    assert [found.where(row) for row in range(len(places))] == places


@given(st.lists(st.sampled_from(sorted(CARRIED)), min_size=2, max_size=4))
def test_carried_columns_of_any_types_are_joined_row_by_row(kinds):
    parts = [
        rows(f"{number}.csv", {"more": CARRIED[kind]}, text=pa.array(["a", "b"])) for number, kind in enumerate(kinds)
    ]
    column = joined(parts).carried["more"]
    assert len(column) == 2 * len(kinds)
    assert column.is_null().to_pylist() == [value is None for kind in kinds for value in CARRIED[kind].to_pylist()]


def test_a_file_without_a_carried_column_has_nulls_there():
    parts = [rows("a.csv", {"id": pa.array([7])}, text=pa.array(["a"])), rows("b.csv", text=pa.array(["b"]))]
    assert joined(parts).carried["id"].to_pylist() == [7, None]


def test_texts_and_lists_of_words_are_not_joined():
    parts = [rows("a.jsonl", text=pa.array(["a"])), rows("b.jsonl", text=pa.array([["b"]]))]
    with pytest.raises(DataError, match=r"a.jsonl, line 2 and the other files cannot be combined"):
        joined(parts)


def test_columns_of_single_values_are_carried_and_repeated_names_are_not():
    fields = [(name, column.type) for name, column in CARRIED.items()]
    fields += [
        ("list", pa.list_(pa.int64())),
        ("object", pa.struct([("a", pa.int8())])),
        ("twice", pa.int8()),
        ("twice", pa.int8()),
    ]
    schema = pa.schema(fields)
    assert single_values(schema, dict.fromkeys(schema.names)) == list(CARRIED)
    assert single_values(schema, ["truths"]) == ["truths"]


VALUES = {
    "text": st.sampled_from(["a", "", " \t", "\u3000", None, "b c"]),
    "label": st.sampled_from(["x", " ", None]),
}


@given(st.lists(st.tuples(VALUES["text"], VALUES["label"]), min_size=1))
def test_rows_that_lack_a_text_or_a_label_are_dropped_and_named(pairs):
    texts, labels = (pa.array([pair[side] for pair in pairs], pa.string()) for side in (0, 1))
    given_rows = rows("a.csv", {"id": pa.array(range(len(pairs)))}, text=texts, label=labels)
    found, missing = without_missing(given_rows, Wanted("review", None, "stars"), Spool(None))
    whole = [place for place, pair in enumerate(pairs) if all(value is not None and value.strip() for value in pair)]
    assert found.carried["id"].to_pylist() == whole and len(found.columns["text"]) == len(whole)
    assert [found.where(row) for row in range(len(whole))] == [f"a.csv, line {place + 2}" for place in whole]
    for side, setting in enumerate(("text", "label")):
        lacking = [place for place, pair in enumerate(pairs) if pair[side] is None or not pair[side].strip()]
        assert missing.get(setting, np.array([])).tolist() == lacking


def test_an_empty_list_or_one_with_a_null_is_missing_and_so_is_nan():
    words = rows("a.jsonl", text=pa.array([["a"], [], None, ["b", None]]))
    assert without_missing(words, Wanted("words", None, None), Spool(None))[1]["text"].tolist() == [1, 2, 3]
    numbers = rows("a.csv", text=pa.array(["a", "b", "c"]), label=pa.array([1.5, float("nan"), None]))
    assert without_missing(numbers, Wanted("text", None, "price", target="number"), Spool(None))[1][
        "label"
    ].tolist() == [1, 2]


def test_a_label_set_can_be_empty():
    sets = rows("a.csv", text=pa.array(["a", "b"]), label=pa.array(["", None]))
    assert without_missing(sets, Wanted("text", None, "tags", target="label_set"), Spool(None))[1] == {}


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_blank_texts_and_labels_of_any_type_are_missing(kind):
    texts, labels = pa.array(["a", " ", "b", None, "c"]), pa.array(["x", "x", "", "x", "y"])
    texts, labels = (
        one.dictionary_encode() if pa.types.is_dictionary(kind) else one.cast(kind) for one in (texts, labels)
    )
    found, missing = without_missing(
        rows("a.arrow", text=texts, label=labels), Wanted("text", None, "label"), Spool(None)
    )
    assert found.columns["text"].to_pylist() == ["a", "c"]
    assert {setting: places.tolist() for setting, places in missing.items()} == {"text": [1, 3], "label": [2]}


def test_the_rows_that_are_left_go_to_the_spool_too(tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "IN_MEMORY", -1)
    before = pa.total_allocated_bytes()
    file = Spool(tmp_path)
    for row in range(20):
        file.add(pa.record_batch([pa.array(["x" * 10**5, None if row % 2 else "y"])], ["text"]))
    texts = pa.Table.from_batches(file.finish()).column("text")
    found, _ = without_missing(Rows({"text": texts}, str), Wanted("text", None, None), file)
    assert [len(text) for text in found.columns["text"].to_pylist()] == [10**5, 1, 10**5] * 10
    assert pa.total_allocated_bytes() - before < 10**6
