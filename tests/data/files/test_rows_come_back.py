"""Rows of any characters, written in every format, come back unchanged or are refused: never changed, never fewer."""

import csv
import io
import json
import re

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from encoderlab.data import spool
from encoderlab.data.files.files import FilesDataset
from encoderlab.errors import DataError

ANY = st.text(st.characters(), max_size=10)  # halves of characters and NUL among them
NASTY = st.text(st.sampled_from("ab\",;\n\r\t 01\0\u2028\x85\x0c\x0b\x1c\ufeff\ud800'\\"), max_size=8)
WORDS = st.sampled_from(["", " ", "NA", "None", "null", "nan", "1e5", "007", "-DOCSTART-", '""', "\r", '"'])
ROWS = st.lists(ANY | NASTY | WORDS, min_size=1, max_size=7)
FEW = settings(max_examples=60, deadline=None)


def read_back(path):
    """Return the texts as they are read, in memory and mapped from a file; or None if the file is refused in one line."""
    found = []
    for in_memory in (spool.IN_MEMORY, -1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spool, "IN_MEMORY", in_memory)
            try:
                splits = FilesDataset(path=str(path), label=None, validation_fraction=0).load(path.parent)
                found.append([example.text for example in splits.by_name["train"]])
            except DataError as refused:
                assert str(refused).isprintable()
                found.append(None)
    assert found[0] == found[1]
    return found[0]


def written(folder, name, text):
    path = folder / name
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


def separated(rows, separator, end, columns):
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=separator, lineterminator=end)
    writer.writerow(["text", "id"][:columns])
    writer.writerows([row, n][:columns] for n, row in enumerate(rows))
    return file.getvalue()


def is_plain(rows, but=""):
    return not any("\ud800" <= letter <= "\udfff" or letter == "\0" or letter in but for row in rows for letter in row)


@FEW
@given(
    rows=ROWS,
    separator=st.sampled_from([",", "\t"]),
    end=st.sampled_from(["\n", "\r\n"]),
    columns=st.sampled_from([1, 2]),
)
@example(rows=["", "\r"], separator=",", end="\n", columns=1)
@example(rows=['"a', "b", 'c"'], separator=",", end="\n", columns=1)
def test_tables_written_by_csv_writer(tmp_path_factory, rows, separator, end, columns):
    name = "rows.csv" if separator == "," else "rows.tsv"
    found = read_back(written(tmp_path_factory.mktemp("rows"), name, separated(rows, separator, end, columns)))
    assert found in (rows, None)
    assert found or not is_plain(rows, '"\r\n\t,') or (columns == 1 and "" in rows)


@FEW
@given(rows=ROWS)
def test_tables_written_by_pandas(tmp_path_factory, rows):
    if is_plain(rows):
        path = tmp_path_factory.mktemp("rows") / "rows.csv"
        pd.DataFrame({"text": rows, "id": range(len(rows))}).to_csv(path, index=False)
        found = read_back(path)
        assert found in (rows, None)
        assert found or not is_plain(rows, '"\r\n')


@FEW
@given(rows=st.lists(ANY | NASTY | WORDS, min_size=1, max_size=7))
def test_tables_in_which_quotes_are_plain_characters(tmp_path_factory, rows):
    """Many programs write tab-separated files this way: the cells joined by tabs, nothing quoted."""
    rows = [re.sub("[\t\r\n]", " ", row) for row in rows]
    lines = ["text\tid", *(f"{row}\t{n}" for n, row in enumerate(rows))]
    found = read_back(written(tmp_path_factory.mktemp("rows"), "rows.tsv", "\n".join(lines) + "\n"))
    assert found in (rows, None)
    assert found or not is_plain(rows) or any(row.startswith('"') for row in rows)


@FEW
@given(rows=ROWS, escaped=st.booleans())
def test_json_lines(tmp_path_factory, rows, escaped):
    lines = [json.dumps({"text": row}, ensure_ascii=escaped) for row in rows]
    found = read_back(written(tmp_path_factory.mktemp("rows"), "rows.jsonl", "\n".join(lines)))
    assert found in (rows, None)
    assert found or not is_plain(rows)


@FEW
@given(rows=ROWS, size=st.sampled_from([1, 2, 1000]))
def test_parquet(tmp_path_factory, rows, size):
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    stored = pa.array([row.encode("utf-8", "surrogatepass") for row in rows], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": stored}), path, row_group_size=size)
    found = read_back(path)
    assert found in (rows, None)
    assert found or any("\ud800" <= letter <= "\udfff" for row in rows for letter in row)


@FEW
@given(rows=ROWS, end=st.sampled_from(["\n", "\r\n", "\r"]), last=st.booleans())
@example(rows=["a\u2028b\x0cc", "", ""], end="\n", last=True)
@example(rows=["a", "b\rc"], end="\n", last=True)
def test_lines(tmp_path_factory, rows, end, last):
    """A line of a text file cannot contain a line end: the file is read as the lines Python sees, or it is refused."""
    text = end.join(rows) + end * last
    found = read_back(written(tmp_path_factory.mktemp("rows"), "rows.txt", text))
    if is_plain(rows, "\r\n\ufeff") and text:
        assert found == (rows if last or rows[-1] else rows[:-1])
    elif found is not None:
        marked = text.removeprefix("\ufeff")
        assert found == re.split("\r\n|\r|\n", marked)[: None if marked[-1] not in "\r\n" else -1]
