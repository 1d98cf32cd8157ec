"""Rows of csv, tsv, jsonl and txt files, as Arrow columns that remember their line numbers."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from encoderlab.data.files.delimiters import NAMED, delimiter_of
from encoderlab.data.files.formats import Dialect
from encoderlab.data.files.separated import SeparatedFile
from encoderlab.data.files.text_files import numbered_lines, place, plain_lines
from encoderlab.data.sources.columns import Rows, Wanted, is_label, no_such_column, several_labels
from encoderlab.data.spool import Spool
from encoderlab.errors import DataError

_ROWS_PER_CHUNK = 10_000
_CHARACTERS_PER_CHUNK = 16_000_000  # of strings; Arrow's string arrays end at 2 GiB
_IN_LINES = "Convert the list, with jq -c '.[]' or pandas' to_json(orient='records', lines=True)"


class RowsOfFile:
    """Collects the rows of one file, chunk by chunk in `spool`, and the line each begins on."""

    def __init__(self, path: Path, spool: Spool, names: list[str], carried: Sequence[str] = ()) -> None:
        self.path, self.names, self.carried = path, names, list(carried)
        self.lines = array("q")
        self.pending: list[list[Any]] = []
        self.n_characters = 0  # of those
        self.spool = spool

    def add(self, line: int, values: list[Any]) -> None:
        """Add a row: values in the order of the names (strings, lists of strings, or None), then the carried ones, of
        any kind.
        """
        self.lines.append(line)
        self.pending.append(values)
        self.n_characters += sum(len(value) for value in values if isinstance(value, str))
        if len(self.pending) == _ROWS_PER_CHUNK or self.n_characters > _CHARACTERS_PER_CHUNK:
            self._flush()

    def finish(self) -> Rows:
        """Return all rows. Raises DataError if there are none."""
        if self.pending:
            self._flush()
        if not self.lines:
            raise DataError(f"{self.path} has no rows", remedy="Choose a file with rows")
        columns = [list(chunks) for chunks in zip(*(batch.columns for batch in self.spool.finish()), strict=True)]
        wanted = {name: _chunked(chunks) for name, chunks in zip(self.names, columns, strict=False)}
        carried = {
            name: _of_one_type(chunks) for name, chunks in zip(self.carried, columns[len(self.names) :], strict=True)
        }
        path, lines = self.path, self.lines
        return Rows(wanted, lambda row: place(path, lines[row]), carried)

    def _flush(self) -> None:
        try:
            columns = [list(column) for column in zip(*self.pending, strict=True)]
            n_names = len(self.names)
            arrays = [*map(_array, columns[:n_names]), *map(_carried_array, columns[n_names:])]
            self.spool.add(pa.record_batch(arrays, [*self.names, *self.carried]))
        except UnicodeEncodeError as error:
            first = len(self.lines) - len(self.pending)
            line = next(self.lines[first + row] for row, values in enumerate(self.pending) if _has_surrogate(values))
            raise DataError(
                f"{place(self.path, line)} holds half a character (a lone surrogate, \\ud800 to \\udfff)"
            ) from error
        self.pending, self.n_characters = [], 0


def _array(values: list[Any]) -> pa.Array:
    """Return strings, or lists of them, as an array. The type is explicit because a chunk of empty lists shows none."""
    words = any(isinstance(value, list) for value in values)
    return pa.array(values, pa.list_(pa.string()) if words else pa.string())


def _carried_array(values: list[Any]) -> pa.Array:
    """Return values as they are, or as texts (as JSON if they are not texts) if their types differ or are not single
    values.
    """
    try:
        array = pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        array = None
    if array is None or pa.types.is_nested(array.type):
        return pa.array([_written(value) for value in values], pa.string())
    return array


def _written(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _of_one_type(chunks: list[pa.Array]) -> pa.ChunkedArray:
    kinds = {chunk.type for chunk in chunks if not pa.types.is_null(chunk.type)}
    kind = kinds.pop() if len(kinds) == 1 else pa.string()
    return pa.chunked_array([chunk.cast(kind) for chunk in chunks], kind)


def _chunked(chunks: list[pa.Array]) -> pa.ChunkedArray:
    kind = next((chunk.type for chunk in chunks if chunk.null_count < len(chunk)), pa.string())
    return pa.chunked_array([chunk if chunk.type == kind else pa.nulls(len(chunk), kind) for chunk in chunks], kind)


def _has_surrogate(values: list[Any]) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in json.dumps(values, ensure_ascii=False))


def read_separated(path: Path, wanted: Wanted, usual: str, dialect: Dialect, spool: Spool) -> Rows:
    """Return the rows of a csv or tsv file; every cell is text, unchanged. Raises DataError if one is ambiguous or
    malformed.

    `usual` is the delimiter for files with such a name; `dialect` holds the encoding of this one.
    """
    separator = delimiter_of(path, dialect.encoding, dialect.delimiter, usual, wanted.settings().values())
    file = SeparatedFile(path, separator, dialect.quoting, wanted.named("quoting"), dialect.encoding)
    for setting, name in wanted.settings().items():
        if name not in file.header:
            raise _undivided(file, wanted, name) or no_such_column(
                f"The first line of {path}", wanted, setting, file.header
            )
    others = wanted.carried(file.header, f"The first line of {path}")
    rows = RowsOfFile(path, spool, list(wanted.settings()), others)
    index = {name: place for place, name in enumerate(file.header)}
    places = [index[name] for name in [*wanted.settings().values(), *others]]
    for record in file.records(wanted.texts(), wanted.label):
        rows.add(record.line, [record.cells[place] for place in places])
    return rows.finish()


def _undivided(file: SeparatedFile, wanted: Wanted, name: str) -> DataError | None:
    """Return the error for a header that another delimiter would divide into columns, one of them `name`; otherwise
    None.
    """
    if len(file.header) > 1 or not any(name in file.header[0].split(mark) for mark in NAMED.values()):
        return None
    return DataError(
        f"The first line of {file.path} is a single cell, {file.header[0]!r}",
        allowed=f"cells separated by {file.separator!r}",
        remedy=f"Correct {wanted.named('delimiter')}, or remove it",
    )


def read_jsonl(path: Path, wanted: Wanted, encoding: str, spool: Spool) -> Rows:
    """Return the rows of a file with one JSON object per line. Raises DataError at a line that is not one, or lacks a
    column.
    """
    names, rows = wanted.settings(), None
    shapes: dict[bool, type] = {}
    for line, record in json_objects(path, encoding):
        missing = next((setting for setting, name in names.items() if name not in record), None)
        if missing and not wanted.nulls:
            raise no_such_column(place(path, line), wanted, missing, list(record))
        rows = rows or RowsOfFile(path, spool, list(names), wanted.carried(list(record), place(path, line)))
        values = [_value(record.get(name), setting, wanted, place(path, line)) for setting, name in names.items()]
        _refuse_mixed(dict(zip(names, values, strict=True)), shapes, wanted, place(path, line))
        rows.add(line, [*values, *(record.get(name) for name in rows.carried)])
    return (rows or RowsOfFile(path, spool, list(names))).finish()


def _refuse_mixed(values: dict[str, Any], shapes: dict[bool, type], wanted: Wanted, where: str) -> None:
    """Raise DataError if a row has a list where earlier rows have single values, or the reverse. `shapes` remembers
    those.

    Labels have the shape of texts, except those of targets that are not labels, which have their own.
    """
    for setting, value in values.items():
        is_target = wanted.target != "label" and is_label(setting)
        if value is None or shapes.setdefault(is_target, type(value)) is type(value):
            continue
        if (
            wanted.target == "label"
            and wanted.label is not None
            and isinstance(values["text"], str)
            and is_label(setting)
        ):
            raise several_labels(wanted.label, where)
        raise DataError(f"{where} mixes lists and single values", allowed="either everywhere")


def _value(value: Any, setting: str, wanted: Wanted, where: str) -> str | list[Any] | None:
    name = wanted.settings()[setting]
    if is_label(setting):
        is_empty_set = value == "" and wanted.target == "label_set" and wanted.label is not None  # among lists or names
        return None if is_empty_set else _label(value, name, where)
    return None if value is None and wanted.nulls else _text(value, name, where)


def json_objects(path: Path, encoding: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the JSON object in each line of a file, with the line's number. Raises DataError at a line without one."""
    for number, line in numbered_lines(path, "\n", encoding):
        if not line.strip(" \t\r\n"):  # JSON's white space; a line with a form feed is not blank
            continue
        try:
            record = json.loads(line, object_pairs_hook=_without_repetition)
        except (ValueError, RecursionError) as error:
            reason, is_part = str(error).partition(": line ")[0], number == 1 and line.strip() in ("[", "{")
            remedy = _IN_LINES if is_part else ""  # otherwise each line is a document of its own
            raise DataError(
                f"{place(path, number)} is not JSON: {reason}", allowed="one object per line", remedy=remedy
            ) from error
        if not isinstance(record, dict):
            remedy = _IN_LINES if isinstance(record, list) and number == 1 else ""
            raise DataError(f"{place(path, number)} is not a JSON object", allowed="one object per line", remedy=remedy)
        yield number, record


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("a name occurs twice in one object")
    return record


def _text(value: Any, name: str, where: str) -> str | list[str]:
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(word, str) for word in value)):
        return value
    raise DataError(
        f"{where} has {json.dumps(value)[:60]} in column {name!r}", allowed='a text ("" if empty), or a list of words'
    )


def _label(value: Any, name: str, where: str) -> str | list[str | None] | None:
    if isinstance(value, list):
        return [None if one is None else _label_name(one, name, where) for one in value]
    return None if value is None else _label_name(value, name, where)


def _label_name(value: Any, name: str, where: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return json.dumps(value)
    raise DataError(
        f"{where} has {json.dumps(value)[:60]} in column {name!r}", allowed="a string, a number, true or false"
    )


def read_txt(path: Path, wanted: Wanted, encoding: str, spool: Spool) -> Rows:
    """Return a text per line; blank lines are empty texts. Raises DataError if columns other than the text are wanted."""
    others = [wanted.typed.format(setting) for setting in wanted.settings() if setting != "text"]
    if others:
        setting = others[0]
        raise DataError(
            f"{path} holds one text per line and no columns, but {setting} is set",
            remedy=f"Set {setting}=null, or dataset.format=conll if it has a word and its label per line",
        )
    rows = RowsOfFile(path, spool, ["text"])
    for number, line in plain_lines(path, encoding):
        rows.add(number, [line])
    return rows.finish()
