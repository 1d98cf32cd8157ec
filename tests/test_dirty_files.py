"""Dirty files: each is read row by row as it stands, or refused in one line with its name; never another number of rows."""

import codecs
import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from encoderlab import compose
from encoderlab.errors import DataError

AB = [("x", "a"), ("y", "b")]
REFUSED = None


def parquet(**columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def jsonl(*rows):
    return "".join(f"{json.dumps(row)}\n" for row in rows)


HALF = gzip.compress(b"text,label\n" + b"x,a\ny,b\n" * 99)[:-12]
CASES = {
    # how bytes become characters
    "byte-order mark": ("csv", codecs.BOM_UTF8 + b"text,label\nx,a\ny,b\n", AB),
    "UTF-16": ("csv", "text,label\nx,a\ny,b\n".encode("utf-16"), AB),
    "Latin-1": ("csv", b"text,label\ncaf\xe9,a\ny,b\n", [("caf\xe9", "a"), ("y", "b")]),
    "UTF-8 with a broken line": ("csv", b"text,label\n\xc3\xa9,a\n\xe9,b\n\xc3\xa9,a\n", REFUSED),
    "a NUL byte": ("csv", b"text,label\nx,a\ny\0,b\n", REFUSED),
    "a line separator of Unicode": ("csv", "text,label\nx\u2028y\x85,a\nz,b\n", [("x\u2028y\x85", "a"), ("z", "b")]),
    # rows and cells
    "carriage returns and line feeds": ("csv", "text,label\r\nx,a\r\ny,b\r\n", AB),
    "no line end at the end": ("csv", "text,label\nx,a\ny,b", AB),
    "blank lines": ("csv", "text,label\n\nx,a\n\n\ny,b\n\n", AB),
    "semicolons": ("csv", "text;label\nx, y;a\nz;b\n", [("x, y", "a"), ("z", "b")]),
    "tabs, quoted as pandas does": ("tsv", 'text\tlabel\n"x ""q"" y"\ta\ny\tb\n', [('x "q" y', "a"), ("y", "b")]),
    "a cell too few": ("csv", "text,label\nx,a\ny\n", REFUSED),
    "a cell too many in every row": ("csv", "text,label\n1,x,a\n2,y,b\n", REFUSED),
    "no such column": ("csv", "number,label\n1,a\n2,b\n", REFUSED),
    "a header alone": ("csv", "text,label\n", REFUSED),
    "nothing": ("csv", "", REFUSED),
    # quotes
    "line ends in quotes": ("csv", 'text,label\n"x\nz, w\n",a\ny,b\n', [("x\nz, w\n", "a"), ("y", "b")]),
    "two stray quotes": ("csv", 'text,label\n"hello,p\nfine,n\nbad,n\ngood",p\nx,n\n', REFUSED),
    "an unclosed quote": ("csv", 'text,label\nx,a\n"y,b\nz,a\n', REFUSED),
    "quotes inside cells": ("csv", 'text,label\n5" disk,a\nsay x,b\n', [('5" disk', "a"), ("say x", "b")]),
    # values
    "words for nothing": ("csv", "text,label\nNA,None\nnull,nan\n", [("NA", "None"), ("null", "nan")]),
    "numbers with zeros": ("csv", "text,label\n007,a\n1.50,b\n", [("007", "a"), ("1.50", "b")]),
    "an empty text": ("csv", "text,label\n,a\nw,b\n", [("", "a"), ("w", "b")]),
    "a missing label": ("csv", "text,label\nx,a\nz,\ny,b\n", AB),
    "one class": ("csv", "text,label\nx,a\ny,a\n", REFUSED),
    # other formats
    "JSON lines": ("jsonl", jsonl({"text": "x", "label": "a"}, {"label": "b", "text": "y"}), AB),
    "null for a text": ("jsonl", jsonl({"text": None, "label": "a"}, {"text": "y", "label": "b"}), REFUSED),
    "a column that a row lacks": ("jsonl", jsonl({"text": "x", "label": "a"}, {"txt": "y", "label": "b"}), REFUSED),
    "no JSON": ("jsonl", '{"text": "x", "label": "a"}\n{"text\n', REFUSED),
    "gzip": ("csv.gz", gzip.compress(b"text,label\nx,a\ny,b\n"), AB),
    "gzip cut off": ("csv.gz", HALF, REFUSED),
    "parquet": ("parquet", parquet(text=["x", "y"], label=["a", "b"]), AB),
    "parquet cut off": ("parquet", parquet(text=["x", "y"], label=["a", "b"])[:-20], REFUSED),
    "parquet without a label": ("parquet", parquet(text=["x", "z", "y"], label=["a", None, "b"]), AB),
    "CoNLL": ("conll", "EU B\nrejects O\n\nx O\n", [(("EU", "rejects"), ("B", "O")), (("x",), ("O",))]),
    "CoNLL with a word alone": ("conll", "EU B\nrejects\n", REFUSED),
}


@pytest.mark.parametrize("name", CASES)
def test_a_dirty_file_is_read_verbatim_or_refused_in_one_line(name, tmp_path):
    extension, content, verdict = CASES[name]
    path = tmp_path / f"rows.{extension}"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    task = "tagging" if extension == "conll" else "classification"
    settings = ("dataset=files", f"dataset.path={path}", "dataset.validation_fraction=0")
    try:
        splits = compose(f"task={task}", *settings).dataset.load(tmp_path)
        read = [
            (getattr(row, "words", None) or row.text, labels(row, splits.labels)) for row in splits.by_name["train"]
        ]
    except DataError as refused:
        assert verdict is REFUSED, f"refused: {refused}"
        assert (
            refused.exit_code == 3 and str(refused).isprintable() and path.name in str(refused) or name == "one class"
        )
    else:
        assert read == verdict


def labels(row, names):
    """Return the label of a row, or of each of its words, by name."""
    return tuple(names[label] for label in row.labels) if hasattr(row, "words") else names[row.label]
