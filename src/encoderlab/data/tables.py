"""Readers of users' files: every row is read unchanged or refused with its line number, never dropped, merged or
shifted.

Cells of csv and tsv stay text: nothing is guessed to be a number or a missing value. They are read by Python's csv
module in its strict mode, because pandas fills short rows in silence, pyarrow counts rows instead of lines, and both
accept text after a closing quote.
"""

from __future__ import annotations

import csv
import json
import re
import sys
import zipfile
from array import array
from collections.abc import Callable, Collection, Iterator
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from encoderlab.data.columns import CARRIED, Columns, RawRows, can_be_carried, checked, is_number, listed, plain
from encoderlab.data.examples import in_lists, stored
from encoderlab.data.formats import Dialect, Format, Quoting, encoding_of, lines_of, text_lines
from encoderlab.errors import DataError, UserError, one_line

_ROWS_AT_A_TIME = 2000
_DOCUMENTS_AT_A_TIME = 100
_ROWS_OF_PARQUET = 1024  # a few bytes can expand to any number of rows
_MOST_LABELS = 10_000  # whose values are kept while a csv file is read
_EXCEL_ROWS, _EXCEL_CELL = 2**20, 32_767  # Excel's own limits, of rows and of characters in a cell
_EXCEL_SIZE = 2**29  # characters: cells may share a text
_EXCEL_GAP = 100  # columns without a name between others
_EXCEL_GROWTH, _SMALL_EXCEL = 100, 2**21  # times as large unpacked, from so many bytes on: XML compresses well
_UNFIT = (pa.ArrowException, OverflowError, UnicodeEncodeError)  # of values that do not fit a type

Record = tuple[int, dict[str, Any]]  # the line a row begins on (or its number), and its values by column
Batch = tuple[range | list[int], dict[str, pa.Array]]  # the same for many rows


class _MixedTypesError(DataError):
    """A column has values of another type than its first rows."""

    column = ""


def read_table(
    path: Path, kind: Format, columns: Columns, dialect: Dialect, folder: Path | None, as_text: Collection[str] = ()
) -> RawRows:
    """Return the rows of a file (or of a folder with a sub-folder per label), kept in `folder` if they are many.

    Raises DataError if it cannot be read, lacks a column or has no rows. With `columns.drop`, incomplete rows are
    dropped, and the first ones named on standard error. Further columns of mixed types are read as texts, as are those
    named `as_text`.
    """
    lines, dropped, place = array("q"), array("q"), place_namer(path, kind)
    used, labelled = columns.by_setting().values(), columns.label is not None or bool(columns.label_columns)
    lacking = "lack a text or a label" if labelled else "lack a text"

    def batches() -> Iterator[pa.RecordBatch]:
        copied = not labelled  # predict copies all columns, in their order
        for numbers, values in read_batches(path, kind, columns, dialect, as_text):
            checks, kept = checked(values, columns, lambda row: place(numbers[row]))  # noqa: B023
            lines.extend(np.asarray(numbers)[kept].tolist())
            dropped.extend(np.asarray(numbers)[~kept].tolist())
            bar.update(len(kept))
            mask, others = pa.array(kept), [name for name in values if copied or name not in used]
            yield pa.record_batch({**checks, **{f"{CARRIED}{name}": values[name].filter(mask) for name in others}})
        if not lines:
            wrong = f"{path} has no rows{f' but those that {lacking}' * bool(dropped)}"
            raise DataError(wrong, remedy="Choose another file")

    try:
        with tqdm(desc=f"reading {path.name}", unit=" rows", file=sys.stderr, disable=None, leave=False) as bar:
            table = stored(batches(), folder)
    except _MixedTypesError as mixed:
        if mixed.column in {*used, *as_text}:
            raise
        return read_table(path, kind, columns, dialect, folder, {*as_text, mixed.column})
    if dropped:
        where = listed(place(number).removeprefix(f"{path}, ") for number in dropped)
        words = f"{len(dropped)} of {len(lines) + len(dropped)} rows {lacking} and were dropped"
        print(f"encoderlab: {path}: {words}: {where}", file=sys.stderr)
    return RawRows(table, lambda row: place(lines[row]))


def place_namer(path: Path, kind: Format) -> Callable[[int], str]:
    """Return what gives the place of a row in a file from its number: its line, or its row, or the file in a folder."""
    if kind is Format.folder:
        files = label_files(path)
        return lambda number: str(files[number])
    unit = "row" if kind in (Format.json, Format.parquet, Format.excel) else "line"
    return lambda number: f"{path}, {unit} {number}"


def read_batches(
    path: Path, kind: Format, columns: Columns, dialect: Dialect, as_text: Collection[str] = ()
) -> Iterator[Batch]:
    """Yield the rows of a file in batches, with the columns to read by their own names, those `as_text` as texts."""
    if kind is Format.parquet:
        yield from _parquet(path, columns)
        return
    place, used = place_namer(path, kind), columns.by_setting().values()
    labels = (columns.label, *columns.label_columns)
    names, kinds = [], dict[str, pa.DataType | None](dict.fromkeys(as_text))
    most = _DOCUMENTS_AT_A_TIME if columns.documents else _ROWS_AT_A_TIME
    for some in in_lists(_records(path, kind, columns, dialect), most):
        names = names or columns.to_read(list(some[0][1]), place(some[0][0]))
        batch, numbers = {}, [number for number, _ in some]
        where = lambda row, numbers=numbers: place(numbers[row])  # noqa: E731
        for name in names:
            values = [record.get(name) for _, record in some]
            values = [*map(_as_written, values)] if name in labels else values
            if name not in kinds:
                kinds[name] = _type_of(values, is_text=name in used)
            batch[name] = _array(values, kinds[name], name, where)
        yield numbers, batch


def _records(path: Path, kind: Format, columns: Columns, dialect: Dialect) -> Iterator[Record]:
    if kind is Format.excel:
        return _excel(path, dialect.sheet, columns)
    if kind is Format.folder:
        return _labelled_files(path, dialect.encoding, columns)
    encoding = encoding_of(path, dialect.encoding, columns.sibling("encoding"))
    if kind in (Format.jsonl, Format.json):
        return _json(path, kind, encoding)
    if kind is Format.txt:
        return _texts(path, encoding, columns)
    if kind is Format.conll:
        return _sentences(path, encoding, columns)
    return _separated(path, kind, columns, dialect.quoting, encoding)


def _as_written(value: Any) -> Any:
    """Return a label of JSON as a string: true, 1 and 1.5 as they are written there."""
    if isinstance(value, list):
        return [*map(_as_written, value)]
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def _type_of(values: list[Any], *, is_text: bool) -> pa.DataType | None:
    """Return the type of a column from its first values; None if its values are to be written as JSON."""
    if is_text:
        first = next((value for value in values if value is not None), None)
        return pa.list_(pa.string()) if isinstance(first, list) else pa.large_string()
    try:
        kind = pa.array(values).type
    except _UNFIT:
        return None
    if pa.types.is_null(kind) or pa.types.is_string(kind):
        return pa.large_string()
    return None if pa.types.is_nested(kind) else kind


def _array(values: list[Any], kind: pa.DataType | None, name: str, where: Callable[[int], str]) -> pa.Array:
    if kind is None:
        values = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
        kind = pa.large_string()
    try:
        return pa.array(values, kind)
    except _UNFIT:
        if len(values) > 1:
            return pa.concat_arrays([_array([one], kind, name, lambda _: where(row)) for row, one in enumerate(values)])  # noqa: B023
    shapes = {pa.large_string(): "a text of valid Unicode", pa.list_(pa.string()): "a list of words"}
    held, allowed = json.dumps(values[0])[:60], shapes.get(kind, str(kind))
    error = _MixedTypesError(f"{where(0)} has {held} in column {name!r}", allowed=f"{allowed} in every row")
    error.column = name
    raise error


def _parquet(path: Path, columns: Columns) -> Iterator[Batch]:
    """Yield the rows of a parquet file as they are stored."""
    first = 1
    try:
        # pre-buffered columns would stay in memory to the end
        file = pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False, buffer_size=2**20)
        names, used = columns.to_read(file.schema_arrow.names, str(path)), set(columns.by_setting().values())
        names = [name for name in names if name in used or can_be_carried(file.schema_arrow.field(name).type)]
        for batch in file.iter_batches(_ROWS_OF_PARQUET, columns=names):
            yield range(first, first + len(batch)), {name: plain(batch[name]) for name in names}
            first += len(batch)
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise DataError(f"{path} is not a readable parquet file: {one_line(str(error))}") from error


def _separated(path: Path, kind: Format, columns: Columns, quoting: Quoting, encoding: str) -> Iterator[Record]:
    """Yield the rows of a csv or tsv file; its first row names the columns.

    Raises DataError if two stray quotes may have merged rows into one: each line of a quoted row could be a row by
    itself, with as many cells as the header. Such lines count as rows if each has a label that the file has (or a value
    of another column, in a file of texts), or if no other row shows that quotes enclose line breaks.
    """
    separator, setting = _separator(path, kind, encoding, columns), columns.sibling("quoting")
    rows = _csv_rows(path, encoding, separator, quoting, setting)
    header = next(rows, (0, [], 0))[1]
    if not header:
        raise DataError(f"{path} is empty", allowed="a first row with the names of the columns")
    index = {name: header.index(name) for name in columns.to_read(header, f"The first line of {path}")}
    others = [name for name in header if name not in columns.texts()]
    label = header.index(columns.label or next(iter((*columns.label_columns, *others)), header[0]))
    known, has_breaks = set[str](), False  # breaks in a row whose lines cannot be rows by themselves
    suspects: list[tuple[int, list[str]]] = []  # the first line of each row that may be several, and their labels
    for first, cells, last in rows:
        if first != last:
            parts = [text.split(separator) for text in separator.join(cells).split("\n")]
            if len(header) > 1 and all(len(part) == len(header) for part in parts):
                suspects.append((first, [part[label].strip('"\r') for part in parts]))
            else:
                has_breaks = True
        if len(known) < _MOST_LABELS:
            known.add(cells[label])
        yield first, {name: cells[at] for name, at in index.items()}
    for first, labels in suspects if quoting is Quoting.auto else ():
        if not has_breaks or all(one in known or (columns.target == "number" and is_number(one)) for one in labels):
            wrong = f"{path}, lines {first} to {first + len(labels) - 1} are one quoted row, but each could be a row"
            remedy = f"Set {setting}=double if quotes enclose cells, {setting}=literal if they mean nothing"
            raise DataError(wrong, remedy=remedy)


def _csv_rows(
    path: Path, encoding: str, separator: str, quoting: Quoting, setting: str
) -> Iterator[tuple[int, list[str], int]]:
    """Yield the rows that are not blank, the header first: the number of the first line, the cells, the last line.

    Raises DataError at what is no valid row, or not as long as the header.
    """
    style = csv.QUOTE_NONE if quoting is Quoting.literal else csv.QUOTE_MINIMAL
    reader = csv.reader(lines_of(path, encoding), delimiter=separator, quoting=style, strict=True)
    line, header, blank = 1, [], 0
    try:
        for cells in reader:
            header, blank = header or cells, blank or (0 if cells or not header else line)
            if blank and cells and len(header) == 1:
                remedy = 'Write an empty text as "", or remove the line'
                raise DataError(f"{path}, line {blank} is blank", remedy=remedy)
            if cells and len(cells) != len(header):
                has = f"{len(cells)} cell{'s' * (len(cells) != 1)}, the header has {len(header)}"
                remedy = "Complete or remove the row, or put a cell with a delimiter or line break in double quotes"
                raise DataError(f"{path}, line {line} has {has}", remedy=remedy)
            if cells:
                yield line, cells, reader.line_num
            line = reader.line_num + 1
    except csv.Error as error:
        said, _, _ = str(error).partition(" - ")
        remedy = f'Write a quote inside quotes as "", or set {setting}=literal if quotes mean nothing here'
        raise DataError(f"{path}, line {line} is not valid: {said}", remedy=remedy) from error


def _separator(path: Path, kind: Format, encoding: str, columns: Columns) -> str:
    """Return the character that separates cells: the one that gives the header its names, or most cells."""
    csv.field_size_limit(2**31 - 1)  # by default the csv module refuses cells above 131,072 characters
    header, names = next(lines_of(path, encoding), ""), set(columns.by_setting().values())
    order = ",;\t|" if kind is Format.csv else "\t,;|"
    try:
        cells = {one: {*next(csv.reader([header], delimiter=one), [])} for one in order}
    except csv.Error as error:
        wrong = f"{path} has a carriage return within its first line"
        raise DataError(wrong, remedy="Save it with line feeds between its lines") from error
    naming = [one for one in order if names and names <= cells[one]]
    return max(naming or order, key=lambda one: len(cells[one]))


def _json(path: Path, kind: Format, encoding: str) -> Iterator[Record]:
    """Yield the objects of a file's array, or the one in each line."""
    lines, place, is_array = lines_of(path, encoding), place_namer(path, kind), kind is Format.json
    for number, text in enumerate(["".join(lines)] if is_array else lines, start=1):
        if text.isspace():
            continue
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            wrong = f"{path if is_array else place(number)} is not JSON: {error}"
            raise DataError(wrong, allowed="an array of objects, or one in each line") from error
        for row, one in enumerate(value, start=1) if is_array else [(number, value)]:
            if not isinstance(one, dict):
                raise DataError(f"{place(row)} is not a JSON object", allowed="an object with a value for each column")
            yield row, one


def _excel(path: Path, sheet: str | None, columns: Columns) -> Iterator[Record]:
    """Yield the rows of a workbook's sheet; without a `sheet`, of the first."""
    try:
        yield from _workbook(path, sheet, columns)
    except UserError:
        raise
    except Exception as error:  # openpyxl, zipfile and xml each raise their own
        remedy = "Run pip install 'encoderlab[excel]'" if isinstance(error, ImportError) else ""
        raise DataError(f"{path} is not a readable Excel workbook: {one_line(str(error))}", remedy=remedy) from error


def _workbook(path: Path, sheet: str | None, columns: Columns) -> Iterator[Record]:
    import openpyxl

    with zipfile.ZipFile(path) as parts:
        unpacked = sum(part.file_size for part in parts.infolist())
    if unpacked > max(_EXCEL_GROWTH * path.stat().st_size, _SMALL_EXCEL):  # openpyxl holds all cells of a row at once
        raise DataError(f"{path} unpacks to {unpacked:,} bytes", remedy="Save it as csv")
    tables = {one.title: one for one in openpyxl.load_workbook(path, read_only=True, data_only=True).worksheets}
    if (title := sheet or next(iter(tables))) not in tables:
        raise DataError(f"{path} has no sheet {title!r} ({columns.sibling('sheet')})", allowed=listed(tables))
    tables[title].reset_dimensions()  # a file may state others than it has
    first = next(iter(tables[title].iter_rows(max_row=1, values_only=True)), ())
    named = (place for place, value in enumerate(first, start=1) if value is not None)  # without stray cells far away
    width = max((place for count, place in enumerate(named, start=1) if place <= count + _EXCEL_GAP), default=0)
    header, size = [*map(_cell, first[:width])], 0
    columns.to_read([name for name in header if name], f"{path}, sheet {title}")
    for number, row in enumerate(tables[title].iter_rows(min_row=2, max_col=width), start=2):
        where, cells = f"{path}, row {number}", [_cell(cell.value) for cell in row]
        if number > _EXCEL_ROWS:
            raise DataError(f"{where} is beyond Excel's last", allowed=f"{_EXCEL_ROWS:,} rows")
        if any(cell.data_type == "e" for cell in row):
            raise DataError(f"{where} holds an error instead of a value")
        size += sum(map(len, cells))
        if max(map(len, cells), default=0) > _EXCEL_CELL or size > _EXCEL_SIZE:
            raise DataError(f"{where} is larger than Excel writes", allowed=f"{_EXCEL_CELL:,} characters in a cell")
        if any(cells):
            yield number, {name: cell for name, cell in zip(header, cells, strict=False) if name}


def _cell(value: Any) -> str:
    """Return a cell as text: a whole number without a point, a truth value as in JSON, a date as ISO 8601 writes it."""
    if value is None or isinstance(value, bool):
        return "" if value is None else json.dumps(value)
    if isinstance(value, float):
        return str(int(value) if value.is_integer() else value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _texts(path: Path, encoding: str, columns: Columns) -> Iterator[Record]:
    """Yield a text per line, blank ones too; or documents, a paragraph per line, with blank lines between them."""
    if others := {*columns.by_setting()} - {"text"}:
        wrong = f"{path} holds texts and no columns, so none for {columns.setting.format(min(others))}"
        remedy = "Choose a table such as .csv, or dataset.format=conll for a word and its label in each line"
        raise DataError(wrong, remedy=remedy)
    lines = enumerate(text_lines(path, encoding), start=1)
    if columns.documents:
        groups = (list(some) for filled, some in groupby(lines, lambda one: bool(one[1].strip())) if filled)
        lines = ((some[0][0], "\n".join(line for _, line in some)) for some in groups)
    return ((number, {columns.parts[0]: text}) for number, text in lines)


def label_files(folder: Path) -> list[Path]:
    """Return the .txt files in the sub-folders of `folder`, by label and name. Raises DataError if there are others."""
    layout = "one sub-folder per label with a .txt file per example"
    beside = [entry for entry in visible(folder) if not entry.is_dir() and entry.suffix == ".txt"]
    files = [file for entry in visible(folder) if entry.is_dir() for file in visible(entry)]
    if other := next(chain(beside, (file for file in files if file.suffix != ".txt" or file.is_dir())), None):
        raise DataError(f"{other} is not a .txt file in a label folder", allowed=layout)
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
        text = "".join(lines_of(file, encoding_of(file, encoding)))
        yield number, {columns.parts[0]: text, **({columns.label: file.parent.name} if columns.label else {})}


def _sentences(path: Path, encoding: str, columns: Columns) -> Iterator[Record]:
    """Yield the sentences of a CoNLL-style file: a word per line with its columns, blank lines between sentences.

    Columns go by number: 0 is the first, -1 the last. By default the word is the first and its label the last. Comments
    and -DOCSTART- lines are no words, nor are the ranges and empty nodes in the ten columns of CoNLL-U.
    """
    words = (line for line in text_lines(path, encoding) if line.strip(" \t") and not line.startswith("#"))
    separator = "\t" if "\t" in (first_word := next(words, "")) else None
    width = len(_cells(first_word, separator))
    at = {name: _column(path, setting, name, width, columns) for setting, name in columns.by_setting().items()}
    first, sentence = 0, []
    for number, line in enumerate(chain(text_lines(path, encoding), [""]), start=1):  # a blank line ends the last one
        if not line.strip(" \t"):  # a no-break space or a form feed is a word
            if sentence:
                yield first, {name: [cells[index] for cells in sentence] for name, index in at.items()}
            sentence = []
            continue
        cells = _cells(line, separator)
        is_comment = line.startswith("#") and len(cells) != width
        if is_comment or cells[0] == "-DOCSTART-" or (width == 10 and re.fullmatch(r"[0-9]+[-.][0-9]+", cells[0])):
            continue
        if len(cells) != width or "" in cells:
            what = f"an empty column among {len(cells)}" if "" in cells else f"{len(cells)} columns"
            raise DataError(f"{path}, line {number} has {what}", allowed=f"{width} columns, like the first word")
        first = first if sentence else number
        sentence.append(cells)


def _cells(line: str, separator: str | None) -> list[str]:
    return line.split(separator) if separator else re.split(r"[ \t]+", line.strip(" \t"))


def _column(path: Path, setting: str, name: str, width: int, columns: Columns) -> int:
    """Return the index of the column that a setting names. Raises DataError if there is none."""
    number = {"text": "0", "label": "-1"}.get(setting, name) if name == setting else name
    if not re.fullmatch(r"-?[0-9]+", number) or not -width <= int(number) < width:
        wrong = f"{path} has no column {name!r} ({columns.setting.format(setting)})"
        raise DataError(wrong, allowed=f"a number from 0 to {width - 1}, or -1 for the last")
    return int(number)
