"""Excel sheets that a command writes, and what they cannot hold: long texts and numbers, some characters, many rows.

See support.microsoft.com, "Excel specifications and limits", and XML 1.0, section 2.2, for the characters of a file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time
from itertools import chain
from typing import Any, BinaryIO

from encoderlab.errors import DataError
from encoderlab.reports import wording
from encoderlab.reports.predictions import cell
from encoderlab.system.messages import say

MOST_ROWS = 1_048_576  # with the header
MOST_COLUMNS = 16_384
MOST_CHARACTERS = 32_767  # of a cell, in units of UTF-16
EXACT = 10**15  # whole numbers below it keep all digits
FIRST_YEAR = 1901  # from which Excel's days are those of the calendar
_NOT_IN_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_REPLACEMENT = "\ufffd"
_CREATED = datetime(1980, 1, 1)  # the same rows are the same bytes
_SHOWN = {date: "yyyy-mm-dd", datetime: "yyyy-mm-dd hh:mm:ss", time: "hh:mm:ss"}


def refuse_many_rows(n_rows: int | None, output: str | None) -> None:
    """Raise DataError if a sheet cannot hold so many rows (None: it is not known yet)."""
    if n_rows is not None and n_rows >= MOST_ROWS:
        problem = f"{n_rows:,} rows do not fit into the Excel sheet {output}"
        raise DataError(problem, allowed=f"{MOST_ROWS - 1:,} rows", remedy="Write csv or parquet")


def write_sheet(file: BinaryIO, rows: Iterator[Mapping[str, Any]], columns: Iterable[str]) -> None:
    """Write a sheet in which no text is a formula; `columns` are its header if there are no rows.

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
    book = xlsxwriter.Workbook(file, {"constant_memory": True})
    book.set_properties({"created": _CREATED})
    sheet = book.add_worksheet("rows")
    formats = {kind: book.add_format({"num_format": shown}) for kind, shown in _SHOWN.items()}
    filled = chain([] if first is None else [first], rows)
    for number, values in enumerate(chain([header], (row.values() for row in filled))):
        refuse_many_rows(number, "that is written")
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
