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
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from encoderlab.data.columns import Columns, RawRows, can_be_carried, checked, is_number, listed, plain
from encoderlab.data.examples import in_lists, stored
from encoderlab.data.formats import AUTO, DELIMITERS, Dialect, Format, Quoting, encoding_of, lines_of, text_lines
from encoderlab.errors import DataError, SettingError, UserError, one_line

_ROWS_AT_A_TIME = 2000
_ROWS_OF_PARQUET = 1024  # a few bytes can expand to any number of rows
_MOST_LABELS = 10_000  # whose values are kept while a csv file is read
_EXCEL_ROWS, _EXCEL_CELL = 2**20, 32_767  # Excel's own limits, of rows and of characters in a cell
_EXCEL_SIZE = 2**29  # characters: cells may share a text
_EXCEL_GROWTH, _SMALL_EXCEL = 100, 2**21  # times as large unpacked, from so many bytes on: XML compresses well
_UNFIT = (pa.ArrowException, OverflowError, UnicodeEncodeError)  # of values that do not fit a type
_CONLLU = [
    "id",
    "form",
    "lemma",
    "upos",
    "xpos",
    "feats",
    "head",
    "deprel",
    "deps",
    "misc",
]  # of CoNLL-U

Record = tuple[int, dict[str, Any]]  # the line a row begins on (or its number), and its values by column
Lists = tuple[Sequence[int], dict[str, list[Any]]]  # the same for some rows, by column
Batch = tuple[Sequence[int], dict[str, pa.Array]]  # the same for many rows


def read_table(path: Path, kind: Format, columns: Columns, dialect: Dialect, folder: Path | None) -> RawRows:
    """Return the rows of a file (or of a folder with a sub-folder per label), kept in `folder` if they are many.

    Raises DataError if it cannot be read, lacks a column or has no rows. With `columns.drop`, incomplete rows are
    dropped and listed on standard error.
    """
    lines, dropped, totals = array("q"), array("q"), {"read": 0}
    place = places(path, kind)

    def batches() -> Iterator[pa.RecordBatch]:
        labelled = columns.label or columns.label_columns
        used = set(columns.by_setting().values()) if labelled else set()  # predict copies all columns, in their order
        for numbers, values in read_batches(path, kind, columns, dialect):
            checks, kept = checked(values, columns, lambda row: place(numbers[row]))  # noqa: B023
            totals["read"] += len(kept)
            lines.extend(np.asarray(numbers)[kept].tolist())
            dropped.extend(np.asarray(numbers)[~kept].tolist())
            bar.update(len(kept))
            mask = pa.array(kept)
            carried = {f"+{name}": one.filter(mask) for name, one in values.items() if name not in used}
            yield pa.record_batch({**checks, **carried})

    with tqdm(desc=f"reading {path.name}", unit=" rows", file=sys.stderr, disable=None, leave=False) as bar:
        table = stored(_of_one_type(batches(), path), folder)
    if dropped:
        where = listed(place(number).removeprefix(f"{path}, ") for number in dropped)
        words = f"{len(dropped)} of {totals['read']} rows lack a text or a label and were dropped"
        print(f"encoderlab: {path}: {words}: {where}", file=sys.stderr)
    if not len(table):
        raise DataError(f"{path} has no rows with text and label", remedy="Check dataset.text and dataset.label")
    carried = [name for name in table.column_names if name.startswith("+")]
    others = table.select(carried).rename_columns([name[1:] for name in carried]) if carried else None
    return RawRows(table.drop_columns(carried), lambda row: place(lines[row]), others)


def _of_one_type(batches: Iterable[pa.RecordBatch], path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the batches with the types of the first, in which a column without any value counts as text."""
    schema = None
    for batch in batches:
        if schema is None:
            fields = [field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in batch.schema]
            schema = pa.schema(fields)
        try:
            yield batch.cast(schema)
        except (pa.ArrowException, ValueError) as error:
            raise DataError(f"{path} mixes lists and single values, or types of values: {error}") from error
    if schema is None:
        raise DataError(f"{path} has no rows", remedy="Choose a file with rows")


def places(path: Path, kind: Format) -> Callable[[int], str]:
    """Return what gives the place of a row in a file from its number: its line, or its row, or the file in a folder."""
    if kind is Format.folder:
        files = label_files(path)
        return lambda number: str(files[number])
    unit = "row" if kind in (Format.json, Format.parquet, Format.excel) else "line"
    return lambda number: f"{path}, {unit} {number}"


def read_batches(path: Path, kind: Format, columns: Columns, dialect: Dialect) -> Iterator[Batch]:
    """Yield the rows of a file in batches, with the columns to read by their own names."""
    if kind is Format.parquet:
        yield from _parquet(path, columns)
        return
    place = places(path, kind)
    encoding = dialect.encoding
    if kind not in (Format.excel, Format.folder):
        encoding = encoding_of(path, encoding, columns.sibling("encoding"))
    readers: dict[Format, Callable[[], Iterator[Record]]] = {
        Format.jsonl: lambda: _json_lines(path, encoding),
        Format.json: lambda: _json_array(path, encoding),
        Format.excel: lambda: _excel(path, dialect.sheet, columns),
        Format.txt: lambda: _texts(path, encoding, columns),
        Format.conll: lambda: _sentences(path, encoding, columns),
        Format.folder: lambda: _labelled_files(path, encoding, columns),
    }
    if kind in (Format.csv, Format.tsv):
        batches = _separated(path, "," if kind is Format.csv else "\t", columns, dialect, encoding)
    else:
        batches = _by_column(readers[kind](), columns, place)
    kinds: dict[str, pa.DataType | None] = {}
    for numbers, values in batches:
        arrays = {}
        for name, cells in values.items():
            if name not in kinds:
                kinds[name] = _type_of(cells, is_text=name in columns.texts() + columns.labels())
            arrays[name] = _array(cells, kinds[name], name, lambda row: place(numbers[row]))  # noqa: B023
        yield numbers, arrays


def _by_column(records: Iterator[Record], columns: Columns, place: Callable[[int], str]) -> Iterator[Lists]:
    """Yield the values of some records at a time in the columns to read, which the first record names."""
    names: list[str] = []
    for some in in_lists(records, _ROWS_AT_A_TIME):
        names = names or columns.to_read(list(some[0][1]), place(some[0][0]))
        values = {name: [record.get(name) for _, record in some] for name in names}
        yield (
            [number for number, _ in some],
            {name: [*map(_label, cells)] if name in columns.labels() else cells for name, cells in values.items()},
        )


def _label(value: Any) -> Any:
    """Return a label of JSON as a string: true, 1 and 1.5 as they are written there."""
    if isinstance(value, list):
        return [_label(one) for one in value]
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
    raise DataError(f"{where(0)} has {held} in column {name!r}", allowed=f"{allowed} in every row")


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


def _separated(path: Path, usual: str, columns: Columns, dialect: Dialect, encoding: str) -> Iterator[Lists]:
    """Yield the rows of a csv or tsv file in batches; its first row names the columns."""
    csv.field_size_limit(2**31 - 1)  # by default the csv module refuses cells above 131,072 characters
    setting, separator = columns.sibling("quoting"), _delimiter(path, encoding, dialect.delimiter, usual, columns)
    quoting = csv.QUOTE_NONE if dialect.quoting is Quoting.literal else csv.QUOTE_MINIMAL
    raw: list[str] = []  # the lines of the row that is being read
    reader = csv.reader(lines_of(path, encoding, noted=raw), delimiter=separator, quoting=quoting, strict=True)
    line, lines, rows = 1, [], []
    try:
        header = next(filter(None, reader), [])
        check = _RowCheck(path, columns, header, separator, raw)
        line += len(raw)
        raw.clear()
        for cells in reader:
            if len(cells) == check.width and len(raw) == 1 and raw[0][-1] == check.end or check.keeps(line, cells, raw):
                lines.append(line)
                rows.append(cells)
                if len(rows) == _ROWS_AT_A_TIME:
                    yield check.by_column(lines, rows)
                    lines, rows = [], []
            line += len(raw)
            raw.clear()
    except csv.Error as error:
        raise DataError(
            f"{path}, line {line} is not valid: {error}",
            remedy=f'Write a quote inside quotes as "", or set {setting}=literal if quotes mean nothing here',
        ) from error
    if rows:
        yield check.by_column(lines, rows)
    if dialect.quoting is Quoting.auto and (suspect := check.suspect()):
        raise DataError(
            f"{path}, lines {suspect[0]} to {suspect[1]} are one quoted row, but each of them could also be a row",
            remedy=f"Set {setting}=double if quotes enclose cells, {setting}=literal if they mean nothing",
        )


class _RowCheck:
    """Checks rows of a csv file that are not simply a line with as many cells as the header, whose lines are `raw`.

    Notices that two stray quotes may have merged rows into one: each line of a quoted row could be a row by itself.
    Such lines have as many cells as the header. They count as rows if each has a label that the file has (or a value of
    another column, in a file of texts), or if no other row shows that quotes enclose line breaks.
    """

    def __init__(self, path: Path, columns: Columns, header: list[str], separator: str, raw: list[str]) -> None:
        if not header:
            raise DataError(f"{path} is empty", allowed="a first row with the names of the columns")
        self.path, self.header, self.separator = path, header, separator
        self.end, self.width = raw[-1][-1], len(header)
        self.index = {name: header.index(name) for name in columns.to_read(header, f"The first line of {path}")}
        others = [name for name in header if name not in columns.texts()]
        self.label = columns.label or next(iter((*columns.label_columns, *others)), None)
        self.numbers = columns.target == "number"
        self.blank = 0  # the first blank line
        self.labels: set[str] = set()
        self.suspects: list[tuple[int, int, list[str]]] = []
        self.has_breaks = False  # a quoted row over several lines cannot be rows line by line

    def keeps(self, line: int, cells: list[str], raw: list[str]) -> bool:
        """Return whether this is a row, and not a blank line. Raises DataError if it is not like the header."""
        if (raw[-1][-1] == "\r") != (self.end == "\r") and raw[-1][-1] in "\r\n":
            raise DataError(
                f"{self.path}, line {line} ends with another line end than the header",
                remedy="End all rows alike, and put cells that hold line ends in double quotes",
            )
        if not cells:
            self.blank = self.blank or line
            return False
        if len(cells) != self.width:
            raise DataError(
                f"{self.path}, line {line} has {len(cells)} cell{'s' * (len(cells) != 1)}, the header has {self.width}",
                allowed=f"one cell for each of {listed(self.header)}",
                remedy="Complete or remove the row, or put a cell that contains a delimiter or a line break in "
                "double quotes",
            )
        if len(raw) > 1:
            parts = [text.rstrip("\r\n").split(self.separator) for text in raw]
            if self.width > 1 and all(len(part) == self.width for part in parts):
                at = None if self.label is None else self.header.index(self.label)
                self.suspects.append(
                    (line, line + len(raw) - 1, [] if at is None else [one[at].strip('"') for one in parts])
                )
            else:
                self.has_breaks = True
        return True

    def by_column(self, lines: list[int], rows: list[list[str]]) -> Lists:
        """Return the rows by column, with the line on which each begins."""
        if self.blank and self.width == 1 and self.blank < lines[-1]:
            remedy = 'Write an empty text as "", or remove the line'
            raise DataError(f"{self.path}, line {self.blank} is blank", remedy=remedy)
        values = {name: [cells[at] for cells in rows] for name, at in self.index.items()}
        if self.label in values and len(self.labels) < _MOST_LABELS:
            self.labels.update(values[self.label])
        return lines, values

    def suspect(self) -> tuple[int, int] | None:
        """Return the first and last line of the first row that may be several; None if there is none."""
        for first, last, labels in self.suspects:
            known = [label in self.labels or (self.numbers and is_number(label)) for label in labels]
            if not self.has_breaks or (known and all(known)):
                return first, last
        return None


def _delimiter(path: Path, encoding: str, delimiter: str, usual: str, columns: Columns) -> str:
    """Return the character that separates cells: with `auto` the usual one, or the one that gives the
    header its names.
    """
    if delimiter != AUTO:
        return DELIMITERS.get(delimiter, delimiter)
    header = next(lines_of(path, encoding), "")
    names = set(columns.by_setting().values())
    if not names:  # nothing is known of the columns yet
        return max(usual, *DELIMITERS.values(), key=lambda one: header.count(one))
    candidates = [usual, *(one for one in DELIMITERS.values() if one != usual)]
    naming = (one for one in candidates if names <= {*next(csv.reader([header], delimiter=one), [])})
    return next(naming, None) or next((one for one in candidates if one in header), usual)


def _json_lines(path: Path, encoding: str) -> Iterator[Record]:
    """Yield the object in each line of a file."""
    for number, line in enumerate(lines_of(path, encoding, "\n"), start=1):
        if not line.isspace():
            where = f"{path}, line {number}"
            yield number, _object(_parsed(line, where), where)


def _json_array(path: Path, encoding: str) -> Iterator[Record]:
    """Yield the objects of a file's array."""
    for number, value in enumerate(_parsed("".join(lines_of(path, encoding)), str(path)), start=1):
        yield number, _object(value, f"{path}, row {number}")


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"{where} is not a JSON object", allowed="an object with a value for each column")
    return value


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is not JSON: {error}", allowed="an array of objects, or one in each line") from error


def _excel(path: Path, sheet: str | None, columns: Columns) -> Iterator[Record]:
    """Yield the rows of a workbook's sheet; without a `sheet`, of the only one whose first row has the columns."""
    try:
        yield from _workbook(path, sheet, columns)
    except ImportError as error:
        raise SettingError(f"{path} cannot be read: {error}", remedy="Run pip install 'encoderlab[excel]'") from error
    except UserError:
        raise
    except Exception as error:  # openpyxl, zipfile and xml each raise their own
        raise DataError(f"{path} is not a readable Excel workbook: {one_line(str(error))}") from error


def _workbook(path: Path, sheet: str | None, columns: Columns) -> Iterator[Record]:
    import openpyxl

    with zipfile.ZipFile(path) as parts:
        unpacked = sum(part.file_size for part in parts.infolist())
    if unpacked > max(_EXCEL_GROWTH * path.stat().st_size, _SMALL_EXCEL):  # openpyxl holds all cells of a row at once
        raise DataError(f"{path} unpacks to {unpacked:,} bytes", remedy="Save it as csv")
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    title, header = _sheet(path, book, sheet, columns)
    size, blank = 0, [None] * len(header)
    for number, row in enumerate(book[title].iter_rows(max_col=len(header)), start=1):
        where, values = f"{path}, row {number}", [cell.value for cell in row]
        if number > _EXCEL_ROWS:
            raise DataError(f"{where} is beyond Excel's last", allowed=f"{_EXCEL_ROWS:,} rows")
        if number == 1 or values == blank:
            continue
        if any(cell.data_type == "e" for cell in row):
            raise DataError(f"{where} holds an error instead of a value")
        cells = ["" if value is None else _cell(value) for value in values]
        size += sum(map(len, cells))
        if max(map(len, cells)) > _EXCEL_CELL or size > _EXCEL_SIZE:
            raise DataError(f"{where} is larger than Excel writes", allowed=f"{_EXCEL_CELL:,} characters in a cell")
        yield number, {name: cell for name, cell in zip(header, cells, strict=False) if name}


def _sheet(path: Path, book: Any, sheet: str | None, columns: Columns) -> tuple[str, list[str]]:
    """Return the sheet to read and its columns: the named one, or the only one that has them."""
    headers = {}
    for table in book.worksheets:
        table.reset_dimensions()  # a file may state others than it has
        first = next(iter(table.iter_rows(max_row=1, values_only=True)), ())
        headers |= {table.title: ["" if value is None else _cell(value) for value in first]} if first else {}
    setting, names = columns.sibling("sheet"), set(columns.by_setting().values())
    if not headers:
        raise DataError(f"{path} has no rows")
    if sheet is not None and sheet not in headers:
        remedy = f"Set {setting} to one of them"
        raise DataError(f"{path} has no sheet {sheet!r}", allowed=listed(headers), remedy=remedy)
    having = [title for title, header in headers.items() if names <= {*header}] if sheet is None else [sheet]
    if len(having) > 1:
        remedy = f"Set {setting}=NAME"
        raise DataError(f"{path} has the columns on several sheets", allowed=listed(having), remedy=remedy)
    title = next(iter(having or headers))
    columns.to_read([name for name in headers[title] if name], f"{path}, sheet {title}")
    return title, headers[title]


def _cell(value: Any) -> str:
    """Return a cell as text: a whole number without a point, a truth value as in JSON, a date as ISO 8601 writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _texts(path: Path, encoding: str, columns: Columns) -> Iterator[Record]:
    """Yield a text per line; blank lines are empty texts."""
    for setting in columns.by_setting():
        if setting != "text":
            raise DataError(
                f"{path} holds one text per line and no columns, but {columns.setting.format(setting)} is set",
                remedy="Set it to null, or dataset.format=conll if each line has a word and its label",
            )
    return ((number, {columns.parts[0]: line}) for number, line in enumerate(text_lines(path, encoding), start=1))


def label_files(folder: Path) -> list[Path]:
    """Return the .txt files in the sub-folders of `folder`, by label and name. Raises DataError if there are others."""
    layout = "one sub-folder per label with a .txt file per example"
    files = []
    for entry in visible(folder):
        for file in visible(entry) if entry.is_dir() else [entry] if entry.suffix == ".txt" else []:
            if file.suffix != ".txt" or file.is_dir() or file.parent == folder:
                raise DataError(f"{file} is not a .txt file in a label folder", allowed=layout)
            files.append(file)
    if not files:
        table = next((entry for entry in visible(folder) if entry.is_file()), None)
        remedy = f"For the tables in it, set 'dataset.path={folder}/*{table.suffix}'" if table else ""
        raise DataError(f"{folder} has no examples", allowed=layout, remedy=remedy)
    return files


def visible(folder: Path) -> list[Path]:
    """Return what a folder holds, sorted, without hidden files."""
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


def _labelled_files(folder: Path, encoding: str, columns: Columns) -> Iterator[Record]:
    if columns.text_pair is not None:
        raise SettingError(f"dataset.text_pair={columns.text_pair} is set, but a file in a folder is one text")
    for number, file in enumerate(label_files(folder)):
        text = "".join(lines_of(file, encoding_of(file, encoding)))
        yield number, {columns.parts[0]: text, **({columns.label: file.parent.name} if columns.label else {})}


def _sentences(path: Path, encoding: str, columns: Columns) -> Iterator[Record]:
    """Yield the sentences of a CoNLL-style file: a word per line with its columns, blank lines between sentences.

    Columns go by name in CoNLL-U and if a first line holds the names that are set, otherwise by number: 0 is the first,
    -1 the last. By default the word is the first and its label the last. Comments, -DOCSTART- lines, and CoNLL-U's
    ranges and empty nodes are no words.
    """
    words = (line for line in text_lines(path, encoding) if line.strip(" \t") and not line.startswith("#"))
    first_word = next(words, "")
    separator = "\t" if "\t" in first_word else None
    named = _cells(first_word, separator)
    is_table = separator is not None and len(named) == 10 and named[0] in ("1", "0.1")
    is_conllu = ".conllu" in path.suffixes[-2:] or is_table
    has_header = not is_conllu and set(columns.by_setting().values()) <= set(named)
    names = _CONLLU if is_conllu else named if has_header else []
    indices = {
        name: _column(path, setting, name, names, len(named), columns) for setting, name in columns.by_setting().items()
    }
    first, sentence, n_words = 0, [], 0
    for number, line in enumerate(chain(text_lines(path, encoding), [""]), start=1):  # a blank line ends the last one
        if not line.strip(" \t"):  # a no-break space or a form feed is a word
            if sentence:
                yield first, {name: [cells[index] for cells in sentence] for name, index in indices.items()}
            sentence = []
        elif (cells := _word(line, separator, len(named), is_conllu, f"{path}, line {number}")) is not None:
            n_words += 1
            if not (has_header and n_words == 1):
                first = first if sentence else number
                sentence.append(cells)
    if n_words == has_header:
        raise DataError(
            f"{path} has no sentences", allowed="a word and its label per line, a blank line between sentences"
        )


def _word(line: str, separator: str | None, width: int, is_conllu: bool, where: str) -> list[str] | None:
    """Return the columns of a word; None if the line holds none. Raises DataError unless there are `width`."""
    cells = _cells(line, separator)
    is_comment = line.startswith("#") and len(cells) != width
    if is_comment or cells[0] == "-DOCSTART-" or (is_conllu and re.fullmatch(r"[0-9]+[-.][0-9]+", cells[0])):
        return None
    if len(cells) != width or "" in cells:
        what = f"an empty column among {len(cells)}" if "" in cells else f"{len(cells)} columns"
        raise DataError(f"{where} has {what}", allowed=f"{width} columns, like the first word")
    return cells


def _cells(line: str, separator: str | None) -> list[str]:
    return line.split(separator) if separator else re.split(r"[ \t]+", line.strip(" \t"))


def _column(path: Path, setting: str, name: str, names: list[str], width: int, columns: Columns) -> int:
    """Return the index of the column that a setting names."""
    default, index = ("label", -1) if setting == "label" else ("text", 0)
    for known in (name, name.lower()):
        if known in names:
            return names.index(known)
    if re.fullmatch(r"-?[0-9]+", name) and -width <= int(name) < width:
        return int(name)
    if name == default and names == _CONLLU:
        return names.index("form" if setting == "text" else "upos")
    if name == default and not names:
        return index
    raise DataError(
        f"{path} has no column {name!r}",
        allowed=listed([*names, *map(str, range(width)), "-1 for the last"]),
        remedy=f"Set {columns.setting.format(setting)}={width - 1 if setting == 'label' else 0}",
    )
