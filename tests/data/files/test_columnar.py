"""Arrow files, streams and Feather files: the same rows as parquet, or refused in one line."""

import pyarrow as pa
import pytest
from pyarrow import feather

from encoderlab.data import spool
from encoderlab.data.files.formats import OnMissing
from encoderlab.errors import DataError
from tests.data.files.written import error_of, load, train_of

TABLE = pa.table({"id": [1, 2], "text": ["x", "y"], "label": pa.array(["a", "b"]).dictionary_encode()})


def in_file(path):
    with pa.ipc.new_file(path, TABLE.schema) as writer:
        writer.write_table(TABLE)


def in_stream(path):  # as `datasets` keeps its tables
    with pa.ipc.new_stream(path, TABLE.schema) as writer:
        writer.write_table(TABLE)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("rows.arrow", in_file),
        ("rows.arrow", in_stream),
        ("rows.feather", lambda path: feather.write_feather(TABLE, path, compression="zstd")),
        (
            "rows.feather",
            lambda path: feather.write_feather(
                TABLE.drop_columns(["label"]).append_column("label", pa.array(["a", "b"])), path, version=1
            ),
        ),
    ],
)
def test_arrow_files_are_read(tmp_path, name, write):
    write(str(tmp_path / name))
    assert train_of(tmp_path / name) == [("x", "a"), ("y", "b")]
    assert (
        error_of(tmp_path / name, text="texts")
        == f"{name} has no column 'texts'. Allowed: id, text, label. Set dataset.text=text."
    )


@pytest.mark.parametrize("content", [b"", b"text,label\n", b"ARROW1\0\0", b"FEA1"])
def test_files_that_are_not_arrow_are_refused(tmp_path, content):
    (tmp_path / "rows.arrow").write_bytes(content)
    assert error_of(tmp_path / "rows.arrow").startswith("rows.arrow is not a readable Arrow file: ")


def test_a_file_that_decompresses_to_too_much_is_refused(tmp_path, monkeypatch):
    in_file(str(tmp_path / "rows.arrow"))
    monkeypatch.setattr("encoderlab.data.files.columnar.most_unpacked", lambda _: 10)
    with pytest.raises(DataError, match="unpacks to more than 10 bytes"):
        load(tmp_path / "rows.arrow")


def test_string_views_are_read_and_dropped_where_missing(tmp_path):  # as polars writes them
    texts, view = pa.array(["x", None, "y"]), pa.string_view()
    words = pa.array([["x"], None, ["y", "z"]], pa.list_(view))
    for column, found in ((texts.cast(view), ["x", "y"]), (words, [("x",), ("y", "z")])):
        table = pa.table({"text": column, "id": texts.cast(view)})
        with pa.ipc.new_file(str(tmp_path / "rows.arrow"), table.schema) as writer:
            writer.write_table(table)
        train = load(tmp_path / "rows.arrow", label=None, on_missing=OnMissing.drop).by_name["train"]
        assert [getattr(example, "words", None) or example.text for example in train] == found
        assert [row["id"] for row in train.take([1, 0]).carried.rows()] == ["y", "x"]


def test_texts_in_dictionaries_go_to_the_spool_as_strings(tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "IN_MEMORY", -1)
    texts = pa.chunked_array([pa.array([str(number) * 10**5]).dictionary_encode() for number in range(9)])
    table = pa.table({"text": texts, "label": pa.chunked_array([["a"], ["b"], ["a"]] * 3)})
    with pa.ipc.new_stream(str(tmp_path / "rows.arrow"), table.schema) as writer:
        writer.write_table(table)
    before = pa.total_allocated_bytes()
    train = load(tmp_path / "rows.arrow").by_name["train"]
    assert pa.total_allocated_bytes() - before < 10**5
    assert [example.text for example in train] == texts.to_pylist()
