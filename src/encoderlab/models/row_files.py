"""Rows that a command writes: csv, an object per line, Parquet or an Excel sheet, to a file or to standard output.

A sheet cannot hold some texts and numbers, which are changed and counted. See support.microsoft.com, "Excel
specifications and limits", and XML 1.0, section 2.2, for the characters of a file.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import date, datetime, time
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from encoderlab.config.commands import OutputConfig, PredictionFormat
from encoderlab.errors import DataError, SettingError, printable
from encoderlab.reports import wording
from encoderlab.reports.blocks import json_safe
from encoderlab.reports.predictions import cell, in_json, quoting_writer
from encoderlab.system.files import atomic_write
from encoderlab.system.messages import say

if TYPE_CHECKING:
    import pyarrow

Row = dict[str, Any]  # the cells of a row by column
Types = Mapping[str, "pyarrow.DataType"]  # of the input's columns

ENDINGS = {f".{form.name}": form for form in PredictionFormat}
NOT_WRITTEN = (".tsv", ".json", ".xls", ".gz", ".zst")  # as people might expect
BINARY = (PredictionFormat.parquet, PredictionFormat.xlsx)
FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # a cell that begins with one of them is computed by spreadsheets
ROWS_IN_A_GROUP = 4096  # of a Parquet file: this many are in memory at a time
# Of an Excel sheet:
MOST_ROWS = 1_048_576  # with the header
MOST_COLUMNS = 16_384
MOST_CHARACTERS = 32_767  # of a cell, in units of UTF-16
EXACT = 10**15  # whole numbers below it keep all digits
FIRST_YEAR = 1901  # from which Excel's days are those of the calendar
_NOT_IN_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_REPLACEMENT = "\ufffd"
_CREATED = datetime(1980, 1, 1)  # the same rows are the same bytes
_SHOWN = {date: "yyyy-mm-dd", datetime: "yyyy-mm-dd hh:mm:ss", time: "hh:mm:ss"}


def check_output(config: OutputConfig) -> None:
    """Raise SettingError if the file to write is there already, and is not to be replaced."""
    if config.output is not None and _is_in_the_way(Path(config.output)) and not config.overwrite:
        remedy = "Choose another name, or set overwrite=true"
        raise SettingError(f"output={config.output} already exists", remedy=remedy)


def _is_in_the_way(path: Path) -> bool:
    """Return whether there is a file that writing would replace; a device, such as /dev/stdout, takes what it gets."""
    return path.exists() and (path.is_file() or path.is_dir())


def _written(path: Path) -> AbstractContextManager[Path]:
    """Return a context with the path to write to: a file appears whole, a device or a pipe is written as it is."""
    return nullcontext(path) if path.exists() and not path.is_file() else atomic_write(path)


def format_to_write(form: PredictionFormat | None, output: str | None) -> PredictionFormat:
    """Return the format that is set, or that of `output`'s extension. Raises SettingError if it cannot be written."""
    form = form or format_by_name(output, "Choose one of these, or set format")
    if form in BINARY and output is None:
        problem = f"format={form.name} cannot be written to standard output"
        raise SettingError(problem, remedy=f"Set output=FILE.{form.name}")
    return form


def check_size(form: PredictionFormat, n_rows: int | None, output: str | None) -> None:
    """Raise DataError if a file of this format cannot hold so many rows (None: it is not known yet)."""
    if form is PredictionFormat.xlsx:
        _refuse_many_rows(n_rows, output)


def _refuse_many_rows(n_rows: int | None, output: str | None) -> None:
    """Raise DataError if a sheet cannot hold so many rows (None: it is not known yet)."""
    if n_rows is not None and n_rows >= MOST_ROWS:
        problem = f"{n_rows:,} rows do not fit into the Excel sheet {output}"
        raise DataError(problem, allowed=f"{MOST_ROWS - 1:,} rows", remedy="Write csv or parquet")


def format_by_name(output: str | None, remedy: str) -> PredictionFormat:
    """Return the format of a file's extension, or csv. Raises SettingError, with `remedy`, if it cannot be written."""
    extension = Path(output or "").suffix.lower()
    if extension in NOT_WRITTEN:
        problem = f"Rows cannot be written as {extension} ({output})"
        raise SettingError(problem, allowed=", ".join(ENDINGS), remedy=remedy)
    return ENDINGS.get(extension, PredictionFormat.csv)


def types_of(carried: Any) -> Types:
    """Return the types of an input's columns (None: there are none)."""
    schema = [] if carried is None else carried.features.arrow_schema
    return {column.name: column.type for column in schema}


def printable_row(value: Any) -> Any:
    """Return a row or a value of it for a terminal, which would obey the control characters in a text."""
    if isinstance(value, dict):
        return {printable(name): printable_row(one) for name, one in value.items()}
    if isinstance(value, list):
        return [printable_row(one) for one in value]
    return printable(value) if isinstance(value, str) else value


def without_formulas(row: Row) -> Row:
    """Return the row with an apostrophe before each text that a spreadsheet would compute, and before such names."""
    unsafe = lambda value: isinstance(value, str) and value.startswith(FORMULAS)  # noqa: E731
    return {f"'{name}" if unsafe(name) else name: f"'{one}" if unsafe(one) else one for name, one in row.items()}


def _write_csv(file: TextIO, rows: Iterator[Row], types: Types, columns: Sequence[str]) -> None:
    """Write a header and the rows, each as soon as it is known."""
    writer = quoting_writer(file)
    first = next(rows, None)
    csv.writer(file, lineterminator="\n").writerow(columns if first is None else first)
    for row in chain([] if first is None else [first], rows):
        writer.writerow(map(cell, row.values()))


def _write_jsonl(file: TextIO, rows: Iterator[Row], types: Types, columns: Sequence[str]) -> None:
    """Write one object per line, each as soon as it is known; numbers that JSON does not know, such as NaN, as null."""
    for row in rows:
        try:
            line = json.dumps(row, ensure_ascii=False, default=in_json, allow_nan=False)
        except ValueError:
            line = json.dumps(json_safe(row), ensure_ascii=False, default=in_json)
        file.write(line + "\n")


def _write_parquet(file: TextIO, rows: Iterator[Row], types: Types, columns: Sequence[str]) -> None:
    """Write the cells, one group of rows at a time; columns of the input keep their `types`."""
    import pyarrow
    import pyarrow.parquet

    group = list(islice(rows, ROWS_IN_A_GROUP))
    kinds = {}
    for name in group[0] if group else columns:
        known = (row[name] for row in group if row[name] is not None)  # a blank text has no prediction
        example = next(known, None)
        is_number = name.startswith("probability") if example is None else isinstance(example, float)
        kinds[name] = types.get(name, pyarrow.float64() if is_number else pyarrow.string())
    schema = pyarrow.schema(kinds)
    with pyarrow.parquet.ParquetWriter(file.buffer, schema) as writer:
        while group:
            writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))
            group = list(islice(rows, ROWS_IN_A_GROUP))


def _write_xlsx(file: TextIO, rows: Iterator[Row], types: Types, columns: Sequence[str]) -> None:
    """Write a sheet in which no text is a formula.

    Characters that it cannot hold are replaced, long texts cut, and whole numbers of more than 15 digits written as
    texts, which is counted on standard error. Raises DataError for more rows or columns than it can hold.
    """
    import xlsxwriter

    first = next(rows, None)
    header = [*(columns if first is None else first)]
    if len(header) > MOST_COLUMNS:
        problem = f"{len(header):,} columns do not fit into an Excel sheet"
        raise DataError(problem, allowed=f"{MOST_COLUMNS:,} columns", remedy="Write csv or parquet")
    changed: Counter[str] = Counter()
    book = xlsxwriter.Workbook(file.buffer, {"constant_memory": True})
    book.set_properties({"created": _CREATED})
    sheet = book.add_worksheet("rows")
    formats = {kind: book.add_format({"num_format": shown}) for kind, shown in _SHOWN.items()}
    filled = chain([] if first is None else [first], rows)
    for number, values in enumerate(chain([header], (row.values() for row in filled))):
        _refuse_many_rows(number, "that is written")
        for place, value in enumerate(values):
            _write_cell(sheet, (number, place), value, formats, changed)
    book.close()
    _say_changed(changed)


def _write_cell(
    sheet: Any, at: tuple[int, int], value: Any, formats: Mapping[type, Any], changed: Counter[str]
) -> None:
    """Write a value: dates and times as such, if Excel has them, and numbers without a loss of digits."""
    if type(value) in formats and _is_known_to_excel(value):
        sheet.write_datetime(*at, value, formats[type(value)])
        return
    value = cell(value)
    if isinstance(value, int) and abs(value) >= EXACT:
        changed["numbers"] += 1
        value = str(value)
    if isinstance(value, int | float) and abs(value) < float("inf"):  # which not-a-number is not
        sheet.write_number(*at, value)
    elif value != "":
        sheet.write_string(*at, _fitting(str(value), changed))


def _is_known_to_excel(value: date | time) -> bool:
    has_zone = getattr(value, "tzinfo", None) is not None
    return not has_zone and (isinstance(value, time) or value.year >= FIRST_YEAR)


def _fitting(text: str, changed: Counter[str]) -> str:
    """Return a text as a cell can hold it, with line breaks as in Excel."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    fitting = _NOT_IN_XML.sub(_REPLACEMENT, text)
    changed["characters"] += fitting != text
    if 2 * len(fitting) > MOST_CHARACTERS:
        units = fitting.encode("utf-16-le")
        changed["length"] += len(units) > 2 * MOST_CHARACTERS
        fitting = units[: 2 * MOST_CHARACTERS].decode("utf-16-le", errors="ignore")
    return fitting


def _say_changed(changed: Counter[str]) -> None:
    """Say how many cells are not as they were, and why."""
    words = {
        "characters": "with characters that a sheet cannot hold, replaced by \N{REPLACEMENT CHARACTER}",
        "length": f"cut to {MOST_CHARACTERS:,} characters",
        "numbers": "with more than 15 digits, written as text",
    }
    parts = [f"{wording.counted(changed[kind], 'cell')} {how}" for kind, how in words.items() if changed[kind]]
    if parts:
        say(f"in the sheet: {'; '.join(parts)}")


# Each writes rows, whose cells are single values (except in jsonl); `columns` are the header if there are none.
WRITERS = dict(zip(PredictionFormat, (_write_csv, _write_jsonl, _write_parquet, _write_xlsx), strict=True))


@contextmanager
def output_file(path: str | None) -> Iterator[TextIO]:
    """Open standard output, or a file that appears whole or not at all. Raises DataError."""
    try:
        if path is None:
            yield sys.stdout
            sys.stdout.flush()
        else:
            with _written(Path(path)) as target, target.open("w", encoding="utf-8", newline="") as file:
                yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        if path is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise Python tries again at exit
        where = "Standard output" if path is None else f"output={path}"
        remedy = f"Free space, or {'set output=FILE' if path is None else 'choose another folder'}"
        raise DataError(f"{where} cannot be written: {error.strerror}", remedy=remedy) from None
