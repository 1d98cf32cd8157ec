"""Documents in files.

In .txt files, a single file or a folder of them: a paragraph per line, blank lines between documents. In shards of any
format, read one document at a time.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from encoderlab.data.documents import paragraphs
from encoderlab.data.files.columnar import parquet_rows
from encoderlab.data.files.delimiters import delimiter_of
from encoderlab.data.files.encodings import AUTO, encoding_of, with_encodings
from encoderlab.data.files.formats import BINARY, Dialect, Format, format_of
from encoderlab.data.files.separated import SeparatedFile
from encoderlab.data.files.tables import json_objects
from encoderlab.data.files.text_files import place, plain_lines
from encoderlab.data.grouping import grouped
from encoderlab.data.sources.columns import Rows, Wanted, no_such_column
from encoderlab.data.spool import Spool
from encoderlab.errors import DataError, SettingError

_SPLITS = ("train", "validation", "test")
_CHARACTERS_PER_BATCH = 4_000_000
_TEXTS = pa.large_string()  # offsets of 64 bits, so that documents may have any length


def split_folders(path: Path) -> dict[str, Path]:
    """Return each split's folder: those named train, validation and test inside `path`, or `path` itself as the
    training split.

    Raises DataError if there is anything else next to a folder named train.
    """
    if not (path / "train").is_dir():
        return {"train": path}
    stranger = next((entry for entry in _visible(path) if entry.name not in _SPLITS), None)
    if stranger is not None:
        raise DataError(
            f"{stranger} is next to the training split", allowed=", ".join(_SPLITS), remedy="Move it elsewhere"
        )
    return {name: path / name for name in _SPLITS if (path / name).exists()}


def text_files(folder: Path) -> list[Path]:
    """Return all .txt files (.txt.gz, .txt.zst) under `folder`, at any depth, by name; DataError if there are none, or
    others.
    """
    files = [path for entry in _visible(folder) for path in (text_files(entry) if entry.is_dir() else [entry])]
    wrong = next((file for file in files if not file.name.endswith((".txt", ".txt.gz", ".txt.zst"))), None)
    if wrong is not None:
        raise DataError(
            f"{wrong} is not a .txt file", allowed="a folder of .txt files", remedy="Rename it or remove it"
        )
    if not files:
        raise DataError(f"{folder} has no .txt files", remedy="Choose a folder with some, or remove it")
    return files


def read_document_files(path: Path, files: list[Path], spool: Spool, encoding: str = AUTO) -> Rows:
    """Return the documents of `files`, one per row, with each paragraph on its own line; `path` is what the user calls
    them.

    `encoding` is auto or that of all files. Raises DataError if there are none, or a file cannot be read.
    """
    lines, first_rows = array("q"), []

    def documents() -> Iterator[str]:
        for file, found in with_encodings(files, encoding):
            first_rows.append(len(lines))
            for line, text in _documents(file, found):
                lines.append(line)
                yield text

    for batch in grouped(documents(), len, _CHARACTERS_PER_BATCH):
        spool.add(pa.record_batch([pa.array(batch, _TEXTS)], ["text"]))
    column = pa.chunked_array([batch.column(0) for batch in spool.finish()], _TEXTS)
    if not len(column):
        raise DataError(f"{path} has no documents", allowed="a paragraph per line, a blank line between documents")
    return Rows({"text": column}, lambda row: place(files[bisect_right(first_rows, row) - 1], lines[row]))


def _documents(file: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """Yield each document of a file, with the line it begins on."""
    begin, paragraphs = 0, []
    for number, line in plain_lines(file, encoding):
        if stripped := line.strip():
            begin = begin if paragraphs else number
            paragraphs.append(stripped)
        elif paragraphs:
            yield begin, "\n".join(paragraphs)
            paragraphs = []
    if paragraphs:
        yield begin, "\n".join(paragraphs)


def shard_documents(path: Path, wanted: Wanted, chosen: Format, dialect: Dialect) -> Iterator[list[str]]:
    """Yield the documents of a file, each as the list of its paragraphs; in a table, each row is one.

    Raises DataError if the file is missing or damaged, SettingError if its format cannot be read one row at a time.
    """
    found = format_of(path, chosen)
    if found not in BINARY:
        dialect = replace(dialect, encoding=encoding_of(path, dialect.encoding))
    if found is Format.txt:
        yield from (text.split("\n") for _, text in _documents(path, dialect.encoding))
        return
    for where, row in _table_rows(path, found, wanted, dialect):
        yield [paragraph for name in wanted.texts() for paragraph in _paragraphs(row, name, where, wanted)]


def _table_rows(path: Path, found: Format, wanted: Wanted, dialect: Dialect) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each row of a table, with its name for messages."""
    if found is Format.jsonl:
        yield from ((place(path, line), record) for line, record in json_objects(path, dialect.encoding))
    elif found is Format.parquet:
        yield from ((f"{path}, row {row}", texts) for row, texts in enumerate(parquet_rows(path, wanted), start=1))
    elif found in (Format.csv, Format.tsv):
        usual = "," if found is Format.csv else "\t"
        separator = delimiter_of(path, dialect.encoding, dialect.delimiter, usual, wanted.settings().values())
        file = SeparatedFile(path, separator, dialect.quoting, wanted.named("quoting"), dialect.encoding)
        for record in file.records(wanted.texts(), None):
            yield place(path, record.line), dict(zip(file.header, record.cells, strict=True))
    else:
        raise SettingError(
            f"{path} can only be read as a whole, but dataset.streaming=true reads one document at a time",
            allowed="txt, jsonl, csv, tsv or parquet",
            remedy="Convert it, or set dataset.streaming=false",
        )


def _paragraphs(row: Mapping[str, Any], name: str, where: str, wanted: Wanted) -> list[str]:
    if name not in row:
        setting = next(setting for setting, column in wanted.settings().items() if column == name)
        raise no_such_column(where, wanted, setting, list(row))
    text = row[name]
    if not isinstance(text, str):
        raise DataError(f"{where} has no text in column {name!r}", allowed="a text in each row")
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise DataError(f"{where} contains a lone surrogate (\\ud800 to \\udfff)")
    return paragraphs(text)


def _visible(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
