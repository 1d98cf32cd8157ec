"""Readers of users' files: every row is read unchanged or refused with its line number, never dropped, merged or
shifted.

Cells of csv and tsv stay text: nothing is guessed to be a number or a missing value. They are read by Python's csv
module in its strict mode, because pandas fills short rows in silence, pyarrow counts rows instead of lines, and both
accept text after a closing quote.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from encoderlab.data.columns import Columns, Rows, can_be_carried, checked, is_number, listed, plain
from encoderlab.data.examples import in_lists, stored
from encoderlab.data.formats import AUTO, DELIMITERS, Dialect, Format, Quoting
from encoderlab.errors import DataError, SettingError, one_line

_ROWS_AT_A_TIME = 2000
_ROWS_OF_PARQUET = 1024  # a few bytes can expand to any number of rows
_WESTERN = "cp1252"
_SHOWN = 40  # characters of a line that is not UTF-8
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
]  # universaldependencies.org

Record = tuple[int, dict[str, Any]]  # the line a row begins on (or its number), and its values by column
Batch = tuple[Sequence[int], dict[str, pa.Array]]  # the same for many rows


def read_table(path: Path, kind: Format, columns: Columns, dialect: Dialect, folder: Path | None) -> Rows:
    """Return the rows of a file (or of a folder with a sub-folder per label), kept in `folder` if they are many.

    Raises DataError if it cannot be read, lacks a column or has no rows. With `columns.drop`, incomplete rows are
    dropped and listed on standard error.
    """
    lines, dropped, totals = array("q"), array("q"), {"read": 0}
    place = places(path, kind)

    def batches() -> Iterator[pa.RecordBatch]:
        used = set(columns.by_setting().values())
        for numbers, values in read_batches(path, kind, columns, dialect):
            checks, kept = checked(values, columns, lambda row: place(numbers[row]))  # noqa: B023
            totals["read"] += len(kept)
            lines.extend(number for number, keep in zip(numbers, kept, strict=True) if keep)
            dropped.extend(number for number, keep in zip(numbers, kept, strict=True) if not keep)
            mask = pa.array(kept)
            carried = {f"+{name}": one.filter(mask) for name, one in values.items() if name not in used}
            yield pa.record_batch({**checks, **carried})

    table = stored(_of_one_type(batches(), path), folder)
    if dropped:
        where = listed(place(number).removeprefix(f"{path}, ") for number in dropped)
        words = f"{len(dropped)} of {totals['read']} rows lack a text or a label and were dropped"
        print(f"encoderlab: {path}: {words}: {where}", file=sys.stderr)
    if not len(table):
        raise DataError(f"{path} has no rows with text and label", remedy="Check dataset.text and dataset.label")
    carried = [name for name in table.column_names if name.startswith("+")]
    others = table.select(carried).rename_columns([name[1:] for name in carried]) if carried else None
    return Rows(table.drop_columns(carried), lambda row: place(lines[row]), others)


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
    unit = "row" if kind in (Format.json, Format.parquet, Format.arrow, Format.excel) else "line"
    return lambda number: f"{path}, {unit} {number}"


def read_batches(path: Path, kind: Format, columns: Columns, dialect: Dialect) -> Iterator[Batch]:
    """Yield the rows of a file in batches, with the columns to read by their own names."""
    if kind in (Format.parquet, Format.arrow):
        yield from _columnar(path, kind, columns)
        return
    place = places(path, kind)
    encoding = dialect.encoding
    if kind not in (Format.excel, Format.folder):
        encoding = encoding_of(path, dialect.encoding, columns.sibling("encoding"))
    if kind is Format.txt and columns.label is not None and _holds_columns(path, encoding):
        kind = Format.conll
    readers: dict[Format, Callable[[], Iterator[Record]]] = {
        Format.csv: lambda: _separated(path, ",", columns, dialect, encoding),
        Format.tsv: lambda: _separated(path, "\t", columns, dialect, encoding),
        Format.jsonl: lambda: _json_lines(path, encoding, place),
        Format.json: lambda: _json_array(path, encoding, place),
        Format.excel: lambda: _excel(path, dialect.sheet, columns),
        Format.txt: lambda: _texts(path, encoding, columns),
        Format.conll: lambda: _sentences(path, encoding, columns),
        Format.folder: lambda: _labelled_files(path, encoding, columns),
    }
    names: list[str] = []
    kinds: dict[str, pa.DataType | None] = {}
    labels = {name for setting, name in columns.by_setting().items() if setting.startswith("label")}
    for records in in_lists(readers[kind](), _ROWS_AT_A_TIME):
        numbers = [number for number, _ in records]
        if not names:
            first = f"The first line of {path}" if kind in (Format.csv, Format.tsv) else place(numbers[0])
            names = columns.to_read(list(records[0][1]), first)
        arrays = {}
        for name in names:
            values = [record.get(name) for _, record in records]
            if name in labels:
                values = [_label(value) for value in values]
            if name not in kinds:
                kinds[name] = _type_of(values, is_text=name in columns.texts() or name in labels)
            arrays[name] = _array(values, kinds[name], name, lambda row: place(numbers[row]))  # noqa: B023
        yield numbers, arrays


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
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return None
    if pa.types.is_null(kind) or pa.types.is_string(kind):
        return pa.large_string()
    return None if pa.types.is_nested(kind) else kind


def _array(values: list[Any], kind: pa.DataType | None, name: str, where: Callable[[int], str]) -> pa.Array:
    if kind is None:
        texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
        values, kind = texts, pa.large_string()
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        row = next(row for row, value in enumerate(values) if not _fits(value, kind))
    shapes = {pa.large_string(): "a text of valid Unicode", pa.list_(pa.string()): "a list of words"}
    held, allowed = json.dumps(values[row])[:60], shapes.get(kind, str(kind))
    raise DataError(f"{where(row)} has {held} in column {name!r}", allowed=f"{allowed} in every row")


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([value], kind)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return False
    return True


def _columnar(path: Path, kind: Format, columns: Columns) -> Iterator[Batch]:
    """Yield the rows of a parquet or Arrow file (or stream, as `datasets` writes it) as they are stored."""
    first = 1
    try:
        if kind is Format.parquet:  # pre-buffered columns would stay in memory to the end
            file = pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False, buffer_size=2**20)
            names = _carriable(columns, file.schema_arrow, path)
            batches = file.iter_batches(_ROWS_OF_PARQUET, columns=names)
        else:
            source = pa.memory_map(str(path))
            is_file = source.read(6) == b"ARROW1"
            source.seek(0)
            if is_file:
                reader = pa.ipc.open_file(source)
                batches = map(reader.get_batch, range(reader.num_record_batches))
            else:
                batches = reader = pa.ipc.open_stream(source)
            names = _carriable(columns, reader.schema, path)
        for batch in batches:
            yield range(first, first + len(batch)), {name: plain(batch[name]) for name in names}
            first += len(batch)
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise DataError(f"{path} is not a readable {kind.name} file: {one_line(str(error))}") from error


def _carriable(columns: Columns, schema: pa.Schema, path: Path) -> list[str]:
    names, used = columns.to_read(schema.names, str(path)), set(columns.by_setting().values())
    return [name for name in names if name in used or can_be_carried(schema.field(name).type)]


def lines_of(path: Path, encoding: str, newline: str = "") -> Iterator[str]:
    """Yield the lines of a text file, also of one in .gz, .zst or .bz2, each with its line end.

    `newline` is that of `open`: "" accepts any line end, a line feed only that. Raises DataError if the file cannot be
    read or decoded, or contains a NUL byte.
    """
    try:
        with io.TextIOWrapper(cast("Any", _opened(path)), encoding=encoding, newline=newline) as file:
            for number, line in enumerate(file, start=1):
                if "\0" in line:
                    raise DataError(f"{path}, line {number} contains a NUL byte", allowed="a text file")
                yield line
    except UnicodeError as error:
        raise DataError(
            f"{path} cannot be decoded as {encoding}: {error}",
            remedy="Set the encoding (dataset.encoding) it was written in",
        ) from error
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} cannot be read: {one_line(str(error))}") from error


def text_lines(path: Path, encoding: str) -> Iterator[str]:
    """Yield the lines of a text file without their ends: a line feed, perhaps after a carriage return."""
    return (line.removesuffix("\n").removesuffix("\r") for line in lines_of(path, encoding, "\n"))


def _opened(path: Path) -> io.BufferedIOBase:
    return io.BufferedReader(pa.input_stream(str(path), compression="detect"), 2**17)


def encoding_of(path: Path, encoding: str = AUTO, setting: str = "dataset.encoding") -> str:
    """Return Python's name of the encoding of a text file; `setting` chooses it.

    With `auto` it is UTF-16 if the file begins with its byte-order mark, otherwise UTF-8, otherwise Windows-1252, with
    a warning that shows how the first such line reads. Raises DataError if some lines are UTF-8 and others are not.
    """
    if encoding != AUTO:
        return "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
    undecodable, shown, has_utf_8 = 0, b"", False
    try:
        with _opened(path) as file:
            for number, line in enumerate(file, start=1):
                if number == 1 and line[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                    return "utf-16"
                if not line.isascii():
                    try:
                        line.decode()
                        has_utf_8 = True
                    except UnicodeDecodeError:
                        undecodable, shown = undecodable or number, shown or line
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} cannot be read: {one_line(str(error))}") from error
    if undecodable and has_utf_8:
        raise DataError(
            f"{path}, line {undecodable} is not UTF-8, but other lines are",
            remedy=f"Correct the line, or set {setting} to the encoding of the file",
        )
    if not undecodable:
        return "utf-8-sig"
    text = one_line(shown.decode(_WESTERN, "replace").strip())
    start = max(next(index for index, letter in enumerate(text) if not letter.isascii()) - _SHOWN // 2, 0)
    print(
        f"encoderlab: {path} is not UTF-8 and is read as Windows-1252, line {undecodable} as "
        f"{text[start : start + _SHOWN]!r}. If that is wrong, set {setting}.",
        file=sys.stderr,
    )
    return _WESTERN


def _separated(path: Path, usual: str, columns: Columns, dialect: Dialect, encoding: str) -> Iterator[Record]:
    """Yield the rows of a csv or tsv file; its first row names the columns."""
    csv.field_size_limit(2**31 - 1)  # by default the csv module refuses cells above 131,072 characters
    setting, line, blank, ends_with_return = columns.sibling("quoting"), 1, 0, False
    raw: list[str] = []
    header: list[str] = []
    separator = _delimiter(path, encoding, dialect.delimiter, usual, columns)
    quoting = csv.QUOTE_NONE if dialect.quoting is Quoting.literal else csv.QUOTE_MINIMAL
    reader = csv.reader(_noted(path, encoding, raw), delimiter=separator, quoting=quoting, strict=True)
    merged = _MergedRows(columns, separator)
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise DataError(
                f"{path}, line {line} is not valid: {error}",
                remedy=f'Write a quote inside quotes as "", or set {setting}=literal if quotes mean nothing here',
            ) from error
        if cells is None:
            break
        if not header:
            header, ends_with_return = cells, raw[-1].endswith("\r")
            merged.header = header
            columns.to_read(header, f"The first line of {path}")
        elif raw[-1].endswith("\r") != ends_with_return and raw[-1].endswith(("\r", "\n")):
            raise DataError(
                f"{path}, line {line} ends with another line end than the header",
                remedy="End all rows alike, and put cells that hold line ends in double quotes",
            )
        elif not cells:
            blank = blank or line
        elif len(cells) != len(header):
            raise DataError(
                f"{path}, line {line} has {len(cells)} cell{'s' * (len(cells) != 1)}, the header has {len(header)}",
                allowed=f"one cell for each of {listed(header)}",
                remedy="Complete or remove the row, or put a cell that contains a delimiter or a line break in "
                "double quotes",
            )
        elif blank and len(header) == 1:
            raise DataError(f"{path}, line {blank} is blank", remedy='Write an empty text as "", or remove the line')
        else:
            merged.add(line, cells, raw)
            yield line, dict(zip(header, cells, strict=True))
        line += len(raw)
        raw.clear()
    if not header:
        raise DataError(f"{path} is empty", allowed="a first row with the names of the columns")
    if dialect.quoting is Quoting.auto and (suspect := merged.suspect()):
        raise DataError(
            f"{path}, lines {suspect[0]} to {suspect[1]} are one quoted row, but each of them could also be a row",
            remedy=f"Set {setting}=double if quotes enclose cells, {setting}=literal if they mean nothing",
        )


def _noted(path: Path, encoding: str, raw: list[str]) -> Iterator[str]:
    for line in lines_of(path, encoding):
        raw.append(line)
        yield line


class _MergedRows:
    """Notices that two stray quotes may have merged rows into one: each line of a quoted row could be a row by itself.

    Such lines have as many cells as the header. They count as rows if each has a label that the file has, or if no
    other row shows that quotes enclose line breaks.
    """

    def __init__(self, columns: Columns, separator: str) -> None:
        self.label = columns.label if columns.label is not None else next(iter(columns.label_columns), None)
        self.numbers, self.separator = columns.target == "number", separator
        self.header: list[str] = []
        self.labels: set[str] = set()
        self.suspects: list[tuple[int, int, list[str]]] = []
        self.real = 0  # quoted rows over several lines that cannot be rows line by line

    def add(self, line: int, cells: list[str], raw: list[str]) -> None:
        index = None if self.label is None else self.header.index(self.label)
        if index is not None:
            self.labels.add(cells[index])
        if len(raw) > 1:
            lines = [text.rstrip("\r\n").split(self.separator) for text in raw]
            if len(self.header) > 1 and all(len(row) == len(self.header) for row in lines):
                labels = [] if index is None else [row[index].strip('"') for row in lines]
                self.suspects.append((line, line + len(raw) - 1, labels))
            else:
                self.real += 1

    def suspect(self) -> tuple[int, int] | None:
        """Return the first and last line of the first row that may be several; None if there is none."""
        for first, last, labels in self.suspects:
            known = [label in self.labels or (self.numbers and is_number(label)) for label in labels]
            if not self.real or (known and all(known)):
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
    candidates = [usual, *(one for one in DELIMITERS.values() if one != usual)]
    naming = (one for one in candidates if names <= {*next(csv.reader([header], delimiter=one), [])})
    return next(naming, None) or next((one for one in candidates if one in header), usual)


def _json_lines(path: Path, encoding: str, place: Callable[[int], str]) -> Iterator[Record]:
    for number, line in enumerate(lines_of(path, encoding, "\n"), start=1):
        if not line.isspace():
            try:
                yield number, _json_object(json.loads(line), place(number))
            except (ValueError, RecursionError) as error:
                raise DataError(f"{place(number)} is not JSON: {error}", allowed="one object per line") from error


def _json_array(path: Path, encoding: str, place: Callable[[int], str]) -> Iterator[Record]:
    """Yield the objects of a .json file: those of its array, or one in each line."""
    text = "".join(lines_of(path, encoding))
    if not text.lstrip().startswith("["):
        yield from _json_lines(path, encoding, place)
        return
    try:
        records = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}", allowed="an array of objects, or an object per line") from error
    for number, record in enumerate(records, start=1):
        yield number, _json_object(record, place(number))


def _json_object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"{where} is not a JSON object", allowed="an object with a value for each column")
    return value


def _excel(path: Path, sheet: str | None, columns: Columns) -> Iterator[Record]:
    """Yield the rows of a workbook's sheet; without a `sheet`, of the only one whose first row has the columns."""
    import pandas as pd

    try:
        tables = pd.read_excel(path, sheet_name=None, header=None, dtype=object, na_filter=False)
    except ImportError as error:
        raise SettingError(f"{path} cannot be read: {error}", remedy="Run pip install 'encoderlab[excel]'") from error
    except Exception as error:  # openpyxl, zipfile and xml each raise their own
        raise DataError(f"{path} is not a readable Excel workbook: {one_line(str(error))}") from error
    setting, names = columns.sibling("sheet"), set(columns.by_setting().values())
    headers = {title: [_cell(value) for value in table.iloc[0]] for title, table in tables.items() if len(table)}
    having = [title for title, header in headers.items() if names <= {*header}] if sheet is None else [sheet]
    if sheet is not None and sheet not in headers:
        raise DataError(
            f"{path} has no sheet {sheet!r}", allowed=listed(headers), remedy=f"Set {setting} to one of them"
        )
    if len(having) > 1:
        raise DataError(
            f"{path} has the columns on several sheets", allowed=listed(having), remedy=f"Set {setting}=NAME"
        )
    if not headers:
        raise DataError(f"{path} has no rows")
    title = having[0] if having else next(iter(headers))
    columns.to_read([name for name in headers[title] if name], f"{path}, sheet {title}")
    for number, row in enumerate(tables[title].iloc[1:].itertuples(index=False), start=2):
        if any(value != "" for value in row):
            if any(isinstance(value, float) and np.isnan(value) for value in row):
                raise DataError(f"{path}, row {number} holds an error instead of a value")
            yield number, {name: _cell(value) for name, value in zip(headers[title], row, strict=True) if name}


def _cell(value: Any) -> str:
    """Return a cell as text: a whole number without a point, a truth value as in JSON, a date as ISO 8601 writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _texts(path: Path, encoding: str, columns: Columns) -> Iterator[Record]:
    """Yield a text per line; blank lines are empty texts."""
    for setting in columns.by_setting():
        if setting != "text":
            raise DataError(
                f"{path} holds one text per line and no columns, but {columns.setting.format(setting)} is set",
                remedy="Set it to null, or dataset.format=conll if each line has a word and its label",
            )
    return ((number, {columns.text: line}) for number, line in enumerate(text_lines(path, encoding), start=1))


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
        yield number, {columns.text: text, **({columns.label: file.parent.name} if columns.label else {})}


def read_documents(path: Path, encoding: str) -> Iterator[Record]:
    """Yield the documents of a .txt file, a paragraph per line, with blank lines between documents.

    Each has the line it begins on, and its paragraphs in the column `text`, one per line.
    """
    first, paragraphs = 0, []
    for number, line in enumerate(_ended(text_lines(path, encoding)), start=1):
        if stripped := line.strip():
            first = first if paragraphs else number
            paragraphs.append(stripped)
        elif paragraphs:
            yield first, {"text": "\n".join(paragraphs)}
            paragraphs = []


def _ended(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines and a blank one, which ends the last document or sentence."""
    yield from lines
    yield ""


def _sentences(path: Path, encoding: str, columns: Columns) -> Iterator[Record]:
    """Yield the sentences of a CoNLL-style file: a word per line with its columns, blank lines between sentences.

    Columns go by name if the file names them (CoNLL-U, `# global.columns`, a first line with the wanted names),
    otherwise by number: 0 is the first, -1 the last. By default the word is the first and its label the last. Comments,
    -DOCSTART- lines, and CoNLL-U's ranges and empty nodes are no words.
    """
    conllu = ".conllu" in path.suffixes[-2:]
    names = _CONLLU if conllu else []
    words = (line for line in text_lines(path, encoding) if line.strip(" \t") and not line.startswith("#"))
    first_word = next(words, "")
    separator = "\t" if "\t" in first_word else None
    width = len(_cells(first_word, separator))
    indices: dict[str, int] = {}
    first, sentence = 0, []
    for number, line in enumerate(_ended(text_lines(path, encoding)), start=1):
        if not line.strip(" \t"):  # a no-break space or a form feed is a word
            if sentence:
                yield first, {name: [cells[index] for cells in sentence] for name, index in indices.items()}
            sentence = []
            continue
        if line.startswith("# global.columns ="):
            names = line.partition("=")[2].lower().split()
        cells = _cells(line, separator)
        if line.startswith("#") and len(cells) != width:
            continue
        if not indices:
            is_header = not names and set(columns.by_setting().values()) <= set(cells)
            conllu = conllu or (not names and separator and width == 10 and cells[0] in ("1", "0.1"))
            names = cells if is_header else _CONLLU if conllu else names
            for setting, name in columns.by_setting().items():
                indices[name] = _column(path, setting, name, names, width, columns)
            if is_header:
                continue
        if cells[0] == "-DOCSTART-" or (conllu and re.fullmatch(r"[0-9]+[-.][0-9]+", cells[0])):
            continue
        if len(cells) != width or "" in cells:
            what = f"an empty column among {len(cells)}" if "" in cells else f"{len(cells)} columns"
            raise DataError(f"{path}, line {number} has {what}", allowed=f"{width} columns, like the first word")
        first = first if sentence else number
        sentence.append(cells)
    if not indices:
        raise DataError(
            f"{path} has no sentences", allowed="a word and its label per line, a blank line between sentences"
        )


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


def _holds_columns(path: Path, encoding: str) -> bool:
    """Return whether a text file's first lines have equally many columns, more than one, and blank lines between."""
    lines = [line for line, _ in zip(text_lines(path, encoding), range(1000), strict=False)]
    words = [line for line in lines if line.strip(" \t") and not line.startswith("#")]
    widths = {len(_cells(line, "\t" if "\t" in line else None)) for line in words}
    return len(widths) == 1 and 1 not in widths and any(not line.strip(" \t") for line in lines)


def document_rows(path: Path, encoding: str, folder: Path | None) -> Rows:
    """Return the documents of a .txt file, one per row, with each paragraph on its own line; DataError if there are
    none.
    """
    lines = array("q")

    def batches() -> Iterator[pa.RecordBatch]:
        for records in in_lists(read_documents(path, encoding_of(path, encoding)), _ROWS_AT_A_TIME):
            lines.extend(number for number, _ in records)
            yield pa.record_batch({"text": pa.array([document["text"] for _, document in records], pa.large_string())})
        if not lines:
            raise DataError(f"{path} has no documents", allowed="a paragraph per line, a blank line between documents")

    return Rows(stored(batches(), folder), lambda row: f"{path}, line {lines[row]}")
