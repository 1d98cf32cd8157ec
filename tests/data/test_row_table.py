"""Rows of an Arrow table: any selection reads like the same selection from a list."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.data.row_table import RowTable

CHUNKS = st.lists(st.lists(st.none() | st.integers(0, 9), max_size=4), min_size=1, max_size=4)


def table_of(chunks):
    return pa.table({"n": pa.chunked_array(chunks, pa.int64())})


@given(CHUNKS, st.data())
def test_a_selection_of_a_selection_reads_like_that_of_a_list(chunks, data):
    values, rows = [value for chunk in chunks for value in chunk], RowTable(table_of(chunks))
    for _ in range(data.draw(st.integers(0, 2))):
        places = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=9)) if values else []
        values, rows = [values[place] for place in places], rows.select(places)
    start = data.draw(st.integers(0, len(values)))
    assert len(rows) == len(values)
    assert rows[start : start + 3] == {"n": values[start : start + 3]}
    assert rows.arrow(start, start + 3)["n"].to_pylist() == values[start : start + 3]
    assert rows.any_known("n") == any(value is not None for value in values)


def test_texts_and_lists_of_several_chunks_keep_their_types():
    table = pa.table({"text": pa.chunked_array([["a"], ["b", "c"]]), "labels": pa.chunked_array([[[0]], [[], [1, 2]]])})
    chosen = RowTable(table).select([2, 0])
    assert chosen[0:2] == {"text": ["c", "a"], "labels": [[1, 2], [0]]}
    assert chosen.arrow(0, 2).schema == chosen.schema == table.schema


def test_a_split_accepts_negative_indices_and_refuses_those_out_of_range():
    from encoderlab.data.examples import Split

    split = Split(pa.table({"text": ["a", "b"], "label": [0, 1]}))
    assert split[-1].text == "b"
    with pytest.raises(IndexError):
        split[2]
