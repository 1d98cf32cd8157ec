"""Rows of csv, tsv, jsonl, parquet and txt files, as Arrow columns that remember their lines."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from encoderlab.data.files.formats import Quoting
from encoderlab.data.files.separated import SeparatedFile
from encoderlab.data.files.text_files import most_unpacked, numbered_lines, place, plain_lines
from encoderlab.data.sources.columns import Rows, Wanted, is_label, is_words, no_such_column
from encoderlab.errors import DataError

_ROWS_PER_CHUNK = 10_000
_ROWS_UNPACKED = 1024  # of a parquet file at a time: a few bytes of it may stand for any number of rows


class RowsOfFile:
    """Collects the rows of one file, chunk by chunk, and the line each begins on."""

    def __init__(self, path: Path, names: list[str]) -> None:
        self.path, self.names = path, names
        self.lines = array("q")
        self.pending: list[list[Any]] = []
        self.chunks: list[list[pa.Array]] = []

    def add(self, line: int, values: list[Any]) -> None:
        """One row, its values in the order of the names: strings, lists of strings, or None."""
        self.lines.append(line)
        self.pending.append(values)
        if len(self.pending) == _ROWS_PER_CHUNK:
            self._flush()

    def finish(self) -> Rows:
        """All rows. Raises DataError where there are none."""
        if self.pending:
            self._flush()
        if not self.lines:
            raise DataError(f"{self.path} has no rows", remedy="Name a file that has some")
        columns = {name: _chunked(list(chunks)) for name, chunks in zip(self.names, zip(*self.chunks, strict=True), strict=True)}
        path, lines = self.path, self.lines
        return Rows(columns, lambda row: place(path, lines[row]))

    def _flush(self) -> None:
        try:
            self.chunks.append([_array(list(column)) for column in zip(*self.pending, strict=True)])
        except UnicodeEncodeError as error:
            first = len(self.lines) - len(self.pending)
            line = next(self.lines[first + row] for row, values in enumerate(self.pending) if _has_surrogate(values))
            raise DataError(f"{place(self.path, line)} holds half a character (a lone surrogate, \\ud800 to \\udfff)") from error
        self.pending = []


def _array(values: list[Any]) -> pa.Array:
    """Strings, or lists of them; the type is said, for a chunk of empty lists shows none."""
    words = any(isinstance(value, list) for value in values)
    return pa.array(values, pa.list_(pa.string()) if words else pa.string())


def _chunked(chunks: list[pa.Array]) -> pa.ChunkedArray:
    kind = next((chunk.type for chunk in chunks if chunk.null_count < len(chunk)), pa.string())
    return pa.chunked_array([chunk if chunk.type == kind else pa.nulls(len(chunk), kind) for chunk in chunks], kind)


def _has_surrogate(values: list[Any]) -> bool:
    return any("\ud800" <= letter <= "\udfff" for value in values if value is not None for part in value for letter in part)


def read_separated(path: Path, wanted: Wanted, separator: str, quoting: Quoting) -> Rows:
    """The rows of a csv or tsv file; every cell is text, as it stands. Raises DataError where one cannot be trusted."""
    file = SeparatedFile(path, separator, quoting, wanted.quoting)
    for setting, name in wanted.settings().items():
        if name not in file.header:
            file.refuse_other_separator()
            raise no_such_column(f"The first line of {path}", wanted, setting, file.header)
    rows = RowsOfFile(path, list(wanted.settings()))
    places = [file.header.index(name) for name in wanted.settings().values()]
    for record in file.records(wanted.texts(), wanted.label):
        rows.add(record.line, [record.cells[place] for place in places])
    return rows.finish()


def read_jsonl(path: Path, wanted: Wanted) -> Rows:
    """The rows of a file with one JSON object per line. Raises DataError at a line that is none, or lacks a column."""
    names = wanted.settings()
    rows = RowsOfFile(path, list(names))
    shape: type | None = None
    for line, record in _objects(path):
        missing = next((setting for setting, name in names.items() if name not in record), None)
        if missing:
            raise no_such_column(place(path, line), wanted, missing, list(record))
        readers = [_label if is_label(setting) else _text for setting in names]
        values = [read(record[name], name, place(path, line)) for read, name in zip(readers, names.values(), strict=True)]
        shape = shape or type(values[0])
        alike = values if wanted.target == "label" else values[: len(wanted.texts())]  # labels come last
        if any(value is not None and type(value) is not shape for value in alike):
            raise DataError(f"{place(path, line)} mixes lists and single values", allowed="either everywhere")
        rows.add(line, values)
    return rows.finish()


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in numbered_lines(path, "\n"):
        if not line.strip(" \t\r\n"):  # JSON's white space; a form feed or the like is no blank line
            continue
        try:
            record = json.loads(line, object_pairs_hook=_without_repetition)
        except (ValueError, RecursionError) as error:
            reason = str(error).partition(": line 1 ")[0]  # a line of ours is all of its document
            raise DataError(f"{place(path, number)} is no JSON: {reason}", allowed="one object per line") from error
        if not isinstance(record, dict):
            raise DataError(f"{place(path, number)} holds no JSON object", allowed="one object per line")
        yield number, record


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return record


def _text(value: Any, name: str, where: str) -> str | list[str]:
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(word, str) for word in value)):
        return value
    raise DataError(f"{where} has {json.dumps(value)[:60]} in column {name!r}", allowed='a text ("" if empty), or a list of words')


def _label(value: Any, name: str, where: str) -> str | list[str | None] | None:
    if isinstance(value, list):
        return [None if one is None else _label_name(one, name, where) for one in value]
    return None if value is None else _label_name(value, name, where)


def _label_name(value: Any, name: str, where: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return json.dumps(value)
    raise DataError(f"{where} has {json.dumps(value)[:60]} in column {name!r}", allowed="a string, a number, true or false")


def read_parquet(path: Path, wanted: Wanted) -> Rows:
    """The rows of a parquet file. Raises DataError where it is none, or lacks a column."""
    names = wanted.settings()
    try:
        existing = pq.read_schema(path).names
        wrong = next((setting for setting, name in names.items() if existing.count(name) != 1), None)
        if wrong is not None:
            raise _no_one_column(path, wanted, wrong, existing)
        table = _unpacked(path, list(names.values()))
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise DataError(f"{path} is no readable parquet file: {error}") from error
    if not table.num_rows:
        raise DataError(f"{path} has no rows", remedy="Name a file that has some")
    columns = {setting: table.column(name) for setting, name in names.items()}
    return Rows(columns, lambda row: f"{path}, row {row + 1}")


def _unpacked(path: Path, names: list[str]) -> pa.Table:
    """The columns of a parquet file. Raises DataError where they become larger than `most_unpacked` allows."""
    file = pq.ParquetFile(path, page_checksum_verification=True)
    most, taken, batches = most_unpacked(path), 0, []
    for batch in file.iter_batches(_ROWS_UNPACKED, columns=names):
        batches.append(batch)
        taken += sum(map(_written_out, batch.columns))
        if taken > most:
            raise DataError(
                f"{path} unpacks to more than {most:,} bytes",
                allowed="50 times the file's own size and 64 MiB",
                remedy="If it is meant so, write it anew with compression='none' and use_dictionary=False",
            )
    schema = file.schema_arrow
    return pa.Table.from_batches(batches) if batches else schema.empty_table().select(names)


def _written_out(column: pa.Array) -> int:
    """How many bytes a column has, each row of a dictionary counted with the text that it stands for."""
    values = column.flatten() if is_words(column) else column
    if not pa.types.is_dictionary(values.type) or pa.types.is_primitive(values.type.value_type):
        return column.nbytes
    lengths = pc.binary_length(values.dictionary).take(values.indices)
    return pc.sum(lengths).as_py() or 0


def _no_one_column(path: Path, wanted: Wanted, setting: str, existing: list[str]) -> DataError:
    name = wanted.settings()[setting]
    if name in existing:
        return DataError(f"{path} has more than one column {name!r}", remedy="Give each column a name of its own")
    return no_such_column(str(path), wanted, setting, existing)


def read_txt(path: Path, wanted: Wanted) -> Rows:
    """A text per line, blank lines being empty texts. Raises DataError where more than texts is wanted."""
    wanted_columns = [setting for setting in wanted.settings() if setting != "text"]
    if wanted_columns:
        raise DataError(
            f"{path} holds one text per line and no columns, but dataset.{wanted_columns[0]} is set",
            remedy=f"Set dataset.{wanted_columns[0]}=null, or name a csv, tsv, jsonl or parquet file",
        )
    rows = RowsOfFile(path, ["text"])
    for number, line in plain_lines(path):
        rows.add(number, [line])
    return rows.finish()
