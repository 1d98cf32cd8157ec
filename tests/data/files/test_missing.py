"""Rows without a text or a label: refused, or dropped, counted and listed."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from encoderlab.data.files.formats import OnMissing
from tests.data.files.written import error_of, load, train_of, write

CSV = "text,label,id\nx,a,1\n,b,2\ny,,3\nz, ,4\n  ,,5\nw,b,6\n"
JSONL = """{"text": "x", "label": "a", "id": 1}
{"text": "", "label": "b", "id": 2}
{"text": "y", "id": 3}
{"text": "z", "label": null, "id": 4}
{"text": null, "label": "", "id": 5}
{"text": "w", "label": "b", "id": 6}
"""


@pytest.mark.parametrize(("name", "content", "first"), [("rows.csv", CSV, 2), ("rows.jsonl", JSONL, 1)])
def test_rows_without_text_or_label_are_dropped_counted_and_listed(tmp_path, capsys, name, content, first):
    file = write(tmp_path / name, content)
    assert "has no label" in error_of(file) or "has no column" in error_of(file)
    splits = load(file, on_missing=OnMissing.drop)
    train = splits.by_name["train"]
    assert [example.text for example in train] == ["x", "w"]
    assert [str(value) for value in train.carried[:]["id"]] == ["1", "6"]
    assert train.where(1).endswith(f"line {first + 5}")
    lines = [first + number for number in range(6)]
    assert capsys.readouterr().err.endswith(
        f"{name}: 4 of 6 rows were dropped: 2 without text (line {lines[1]}, line {lines[4]}); "
        f"3 without label (line {lines[2]}, line {lines[3]}, line {lines[4]})\n"
    )


def test_null_and_nan_are_dropped_from_typed_columns(tmp_path):
    table = pa.table({"text": ["x", None, "y", "z"], "label": [1.0, 2.0, float("nan"), 2.0]})
    pq.write_table(table, tmp_path / "rows.parquet")
    assert train_of(tmp_path / "rows.parquet", on_missing=OnMissing.drop) == [("x", "1"), ("z", "2")]
    words = pa.table({"text": [["a"], [], ["b", None], ["c"]], "label": [["X"], [], ["X", "Y"], ["Y"]]})
    pq.write_table(words, tmp_path / "words.parquet")
    train = load(tmp_path / "words.parquet", on_missing=OnMissing.drop).by_name["train"]
    assert [example.words for example in train] == [("a",), ("c",)]


def test_a_file_with_no_complete_row_is_refused(tmp_path):
    file = write(tmp_path / "rows.csv", "text,label\nx,\n,a\n")
    assert error_of(file, on_missing=OnMissing.drop).startswith("rows.csv has no row with both text and label.")


def test_without_labels_only_texts_can_be_missing(tmp_path):
    train = load(write(tmp_path / "rows.csv", CSV), on_missing=OnMissing.drop, label=None).by_name["train"]
    assert [example.text for example in train] == ["x", "y", "z", "w"]
