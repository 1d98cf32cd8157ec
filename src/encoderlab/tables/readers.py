"""Readers of users' files: every row is read unchanged or refused with its line number, never dropped, merged or
shifted.

Cells of csv and tsv stay text: nothing is guessed to be a number or a missing value.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import date, datetime, time
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from encoderlab.errors import DataError
from encoderlab.system.messages import progress_bar, say
from encoderlab.tables.annotation_tools import Record
from encoderlab.tables.annotations import fasttext_rows, tabulated
from encoderlab.tables.arrow_files import parquet_batches, saved_batches
from encoderlab.tables.batches import grouped, stored
from encoderlab.tables.checks import blank_rows, checked
from encoderlab.tables.columns import CARRIED, Columns, MissingColumnError, listed
from encoderlab.tables.conll_files import conll_sentences
from encoderlab.tables.csv_files import separated_rows
from encoderlab.tables.formats import Dialect, Format, encoding_of, lines_of, text_lines
from encoderlab.tables.json_files import forget_document, json_records, with_columns
from encoderlab.tables.raw_rows import RawRows
from encoderlab.tables.references import reference_rows
from encoderlab.tables.sentence_tables import as_sentences
from encoderlab.tables.statistics_files import statistics_rows
from encoderlab.tables.workbooks import forget_workbook, sheet_of, sheet_rows

_ROWS_AT_A_TIME = 2000
_DOCUMENTS_AT_A_TIME = 100
_CHARACTERS_AT_A_TIME = 2**26
_MANY_CELLS = 1_000_000  # of rows that have few of the columns, from which on these are refused
_LINES_LOOKED_AT = 100
_LARGEST = 2**63 - 1  # of the numbers that a column of whole numbers holds
_MOST_TIMES = 100  # as many cells as the rows have
_UNFIT = (pa.ArrowException, OverflowError, UnicodeEncodeError)  # of values that do not fit a type

Batch = tuple[range | list[int], dict[str, pa.Array]]  # the numbers of many rows, and their values by column


# The Python types of values by the type of their column, the first that fits; a column of no values holds texts.
_VALUES_OF: dict[pa.DataType, set[type]] = {
    pa.large_string(): {str},
    pa.int64(): {int},
    pa.float64(): {int, float},
    pa.bool_(): {bool},
    pa.date32(): {date},
    pa.timestamp("us"): {datetime},
    pa.time64("us"): {time},
}


class _MixedTypesError(DataError):
    """A column has values of another type than its first rows."""

    column = ""


def read_table(path: Path, kind: Format, columns: Columns, dialect: Dialect, folder: Path | None) -> RawRows:
    """Return the rows of a file (or of a folder with a sub-folder per label), kept in `folder` if they are many.

    Raises DataError if it cannot be read, lacks a column or has no rows. With `columns.drop`, incomplete rows are
    dropped, and the first ones named on standard error. Further columns of mixed types are read as texts.
    """
    place = place_namer(path, kind)
    kept_rows = _KeptRows(path, place, columns)
    try:
        with progress_bar(f"reading {path.name}", "rows", leave=False) as bar:
            batches = kept_rows.of(read_batches(path, kind, columns, dialect), bar.update)
            table = stored(batches, folder)
    except _MixedTypesError as mixed:
        used = {*columns.by_setting().values()}
        if mixed.column in used or mixed.column in columns.as_text:
            raise
        with_text = replace(columns, as_text=columns.as_text | {mixed.column})
        return read_table(path, kind, with_text, dialect, folder)
    kept_rows.say_which_are_left_out()
    if kind is Format.excel:
        forget_workbook()
    if kind is Format.json:
        forget_document()
    lines = kept_rows.lines
    return RawRows(table, lambda row: place(lines[row]))


class _KeptRows:
    """The rows of a file that are read, and the numbers of those that are left out: blank ones, and incomplete ones."""

    def __init__(self, path: Path, place: Callable[[int], str], columns: Columns) -> None:
        self.path = path
        self.place = place
        self.columns = columns
        self.labelled = columns.label is not None or bool(columns.label_columns)
        self.lines = array("q")
        self.blank = array("q")
        self.dropped = array("q")

    @property
    def lacking(self) -> str:
        """Return what incomplete rows lack, for messages."""
        return "lack a text or a label" if self.labelled else "lack a text"

    def of(self, batches: Iterator[Batch], count: Callable[[int], Any]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file, checked, with the columns that are carried along. Raises DataError."""
        used = {*self.columns.by_setting().values()}
        for numbers, values in batches:
            # Rows of commas at the end of a table are nobody's examples.
            is_blank = blank_rows(values, self.columns)
            if is_blank.any():
                self.blank.extend(np.asarray(numbers)[is_blank].tolist())
                numbers = np.asarray(numbers)[~is_blank].tolist()
                values = {name: column.filter(pa.array(~is_blank)) for name, column in values.items()}

            # A part of a joined text that has no value is blank, as an empty cell of csv is.
            if len(self.columns.parts) > 1:
                values |= {name: _without_nulls(values[name]) for name in self.columns.parts}

            # Texts and labels are checked; predict copies all columns, in their order.
            arrays, kept = checked(values, self.columns, lambda row: self.place(numbers[row]))  # noqa: B023
            self.lines.extend(np.asarray(numbers, np.int64)[kept].tolist())
            self.dropped.extend(np.asarray(numbers, np.int64)[~kept].tolist())
            count(len(kept))
            for name, column in values.items():
                if name not in used or not self.labelled:
                    arrays[f"{CARRIED}{name}"] = column.filter(pa.array(kept))
            yield pa.record_batch(arrays)
        if not self.lines:
            rest = f" but those that {self.lacking}" if self.dropped or self.blank else ""
            raise DataError(f"{self.path} has no rows{rest}", remedy="Choose another file")

    def say_which_are_left_out(self) -> None:
        """Say how many rows are left out, and which come first."""
        if self.blank:
            first = self._in_file(self.blank[0])
            say(f"{self.path}: {len(self.blank):,} rows without a text and a label are left out, the first at {first}")
        if self.dropped:
            where = listed(map(self._in_file, self.dropped))
            words = f"{len(self.dropped)} of {len(self.lines) + len(self.dropped)} rows {self.lacking}"
            say(f"{self.path}: {words} and were dropped: {where}")

    def _in_file(self, number: int) -> str:
        return self.place(number).removeprefix(f"{self.path}, ")


def _without_nulls(texts: pa.Array) -> pa.Array:
    """Return texts, blank where there is none."""
    texts = texts.cast(pa.large_string()) if pa.types.is_null(texts.type) else texts
    return pc.fill_null(texts, "") if texts.null_count else texts


def place_namer(path: Path, kind: Format) -> Callable[[int], str]:
    """Return what gives the place of a row in a file from its number: its line, or its row, or the file in a folder."""
    if kind is Format.folder:
        files = label_files(path)
        return lambda number: str(files[number])
    unit = "row" if kind in (Format.json, Format.parquet, Format.arrow, Format.excel, Format.statistics) else "line"
    return lambda number: f"{path}, {unit} {number}"


def read_batches(path: Path, kind: Format, columns: Columns, dialect: Dialect) -> Iterator[Batch]:
    """Yield the rows of a file in batches, with the columns to read by their own names."""
    if kind is Format.parquet:
        yield from parquet_batches(path, columns)
        return
    if kind is Format.arrow:
        yield from saved_batches(path, columns)
        return
    place = place_namer(path, kind)
    used = {*columns.by_setting().values()}
    labels = {columns.label, *columns.label_columns}
    names: list[str] = []
    kinds: dict[str, pa.DataType | None] = dict.fromkeys(columns.as_text)
    n_cells = 0
    n_present = 0
    most = _DOCUMENTS_AT_A_TIME if columns.documents else _ROWS_AT_A_TIME
    records = _records(path, kind, columns, dialect)
    for group in grouped(records, _n_characters, _CHARACTERS_AT_A_TIME, most):
        if not names:
            first, record = group[0]
            names = columns.to_read(list(record), place(first))
            _refuse_invalid_names(names, place(first))

        # A row of a million columns, before a million rows of one, would take a cell for each of them.
        n_cells += len(names) * len(group)
        n_present += sum(len(record) for _, record in group)
        if n_cells > max(_MANY_CELLS, _MOST_TIMES * n_present):
            problem = f"{path} has {len(names):,} columns, of which hardly any row has one in {_MOST_TIMES}"
            raise DataError(problem, remedy="Save a table with the columns that are needed")

        # From records to columns; an error names the line or row that it concerns.
        numbers = [number for number, _ in group]
        where = lambda row, numbers=numbers: place(numbers[row])  # noqa: E731
        batch = {}
        for name in names:
            values = [record.get(name) for _, record in group]
            if name in labels:
                values = [*map(_as_written, values)]
            if name not in kinds:
                kinds[name] = _type_of(values, is_text=name in used)
            batch[name] = _array(values, kinds[name], name, where)
        yield numbers, batch


def _refuse_invalid_names(names: Iterable[str], where: str) -> None:
    """Raise DataError for the name of a column that is no valid Unicode, as JSON may have it."""
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise DataError(f"{where} has a column {name!r}", allowed="names of valid Unicode") from None


def _n_characters(record: Record) -> int:
    """Return the length of a row's texts."""
    n_characters = 0
    for cell in record[1].values():
        if type(cell) is str:
            n_characters += len(cell)
    return n_characters


def _records(path: Path, kind: Format, columns: Columns, dialect: Dialect) -> Iterator[Record]:
    """Return the rows of a file of any format but parquet and arrow."""
    if kind is Format.excel:
        rows = sheet_rows(path, sheet_of(path, dialect.sheet, columns), columns, dialect.header)
        return as_sentences(rows, path) if columns.target == "words" else rows
    if kind is Format.statistics:
        return statistics_rows(path, columns, dialect.encoding)
    if kind is Format.folder:
        return _labelled_files(path, dialect.encoding, columns)
    encoding = encoding_of(path, dialect.encoding, columns.sibling("encoding"))
    if kind in (Format.jsonl, Format.json):
        records = json_records(path, kind, encoding)
        place = place_namer(path, kind)
        return with_columns(tabulated(records, columns, path, place), columns, place)
    if kind is Format.references:
        return reference_rows(path, encoding)
    if kind is Format.fasttext:
        return fasttext_rows(path, encoding, columns)
    if kind is Format.txt:
        return _texts(path, encoding, columns)
    if kind is Format.conll:
        return conll_sentences(path, encoding, columns)
    return _separated(path, kind, columns, dialect, encoding)


def _separated(path: Path, kind: Format, columns: Columns, dialect: Dialect, encoding: str) -> Iterator[Record]:
    """Yield the rows of a csv or tsv file, which an annotation tool may have written with its labels in cells of JSON.

    Raises MissingColumnError if the columns are neither in its header nor made from such cells.
    """
    place = place_namer(path, kind)
    try:
        rows = separated_rows(path, kind, columns, dialect, encoding)
        rows = as_sentences(rows, path) if columns.target == "words" else rows
        yield from tabulated(rows, columns, path, place)
    except MissingColumnError as error:
        if error.setting != "label":
            raise
        whole = replace(columns, label=None, others=True)
        rows = tabulated(separated_rows(path, kind, whole, dialect, encoding), columns, path, place)
        first = next(rows, (0, {}))
        if columns.label not in first[1]:
            raise
        yield first
        yield from rows


def _as_written(value: Any) -> Any:
    """Return a label of JSON as a string: true, 1 and 1.5 as they are written there."""
    if isinstance(value, list):
        return [*map(_as_written, value)]
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def _type_of(values: list[Any], *, is_text: bool) -> pa.DataType | None:
    """Return the type of a column from its first values; None if its values are to be written as JSON."""
    known = [value for value in values if value is not None]
    if is_text:
        return pa.list_(pa.string()) if known and isinstance(known[0], list) else pa.large_string()
    kinds = {type(value) for value in known}
    if int in kinds and any(abs(value) > _LARGEST for value in known if type(value) is int):
        return None
    return next((kind for kind, allowed in _VALUES_OF.items() if kinds <= allowed), None)


def _array(values: list[Any], kind: pa.DataType | None, name: str, where: Callable[[int], str]) -> pa.Array:
    """Return values of a column as an array. Raises _MixedTypesError, which names the row, for one of another type."""
    if kind is None:
        values = [*map(_as_text, values)]
        kind = pa.large_string()
    allowed = _VALUES_OF.get(kind)
    if allowed is not None and not {*map(type, values)} <= {*allowed, type(None)}:
        for row, value in enumerate(values):  # Arrow would cut 1.5 to 1, and a time to its day
            if value is not None and type(value) not in allowed:
                raise _mixed(value, kind, name, where(row))
    try:
        return pa.array(values, kind)
    except _UNFIT:
        if len(values) == 1:
            raise _mixed(values[0], kind, name, where(0)) from None
    arrays = [_array([value], kind, name, lambda _, row=row: where(row)) for row, value in enumerate(values)]
    return pa.concat_arrays(arrays)


def _as_text(value: Any) -> str | None:
    """Return a value of a column of mixed types as text: dates and times as ISO 8601 writes them, others as JSON."""
    if value is None or isinstance(value, str):
        return value
    return value.isoformat() if isinstance(value, date | time) else json.dumps(value)


def _mixed(value: Any, kind: pa.DataType, name: str, place: str) -> _MixedTypesError:
    """Return the error for a value that is not of the type of its column."""
    descriptions = {pa.large_string(): "a text of valid Unicode", pa.list_(pa.string()): "a list of words"}
    allowed = f"{descriptions.get(kind, str(kind))} in every row"
    error = _MixedTypesError(f"{place} has {json.dumps(value, default=str)[:60]} in column {name!r}", allowed=allowed)
    error.column = name
    return error


def _texts(path: Path, encoding: str, columns: Columns) -> Iterator[Record]:
    """Yield a text per line, blank ones too; or documents, a paragraph per line, with blank lines between them."""
    others = {*columns.by_setting()} - {"text"}
    if others:
        head = [line for line in islice(text_lines(path, encoding), _LINES_LOOKED_AT) if line.strip()]
        problem = f"{path} holds texts and no columns, so none for {columns.setting.format(min(others))}"
        remedy = "Choose a table such as .csv, or dataset.format=conll for a word and its label in each line"
        for separator, name in (("\t", "tsv"), ("|", "csv"), (";", "csv"), (",", "csv")):
            if head and len({line.count(separator) for line in head}) == 1 and separator in head[0]:
                remedy = f"Each line has as many {separator!r} as the others: set dataset.format={name}"
                break
        raise DataError(problem, remedy=remedy)
    lines = enumerate(text_lines(path, encoding), start=1)
    if columns.documents:
        lines = _paragraphs_joined(lines)
    return ((number, {columns.parts[0]: text}) for number, text in lines)


def _paragraphs_joined(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield each document, lines between blank ones, with the number of its first line."""
    for is_filled, group in groupby(lines, lambda line: bool(line[1].strip())):
        if is_filled:
            numbered = list(group)
            yield numbered[0][0], "\n".join(line for _, line in numbered)


def label_files(folder: Path) -> list[Path]:
    """Return the .txt files in the sub-folders of `folder`, by label and name. Raises DataError if there are others."""
    layout = "one sub-folder per label with a .txt file per example"
    beside = [entry for entry in visible(folder) if not entry.is_dir() and entry.suffix == ".txt"]
    files = [file for entry in visible(folder) if entry.is_dir() for file in visible(entry)]
    others = [*beside, *(file for file in files if file.suffix != ".txt" or file.is_dir())]
    if others:
        raise DataError(f"{others[0]} is not a .txt file in a label folder", allowed=layout)
    if not files:
        table = next((entry for entry in visible(folder) if entry.is_file()), None)
        remedy = f"For the tables in it, set 'dataset.path={folder}/*{table.suffix}'" if table else ""
        raise DataError(f"{folder} has no examples", allowed=layout, remedy=remedy)
    return files


def visible(folder: Path) -> list[Path]:
    """Return what a folder holds, sorted, without hidden files."""
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


def _labelled_files(folder: Path, encoding: str, columns: Columns) -> Iterator[Record]:
    for number, file in enumerate(label_files(folder)):
        record = {columns.parts[0]: "".join(lines_of(file, encoding_of(file, encoding)))}
        if columns.label:
            record[columns.label] = file.parent.name
        yield number, record
