"""Excel workbooks: which sheet is read, and its rows, each cell as a text, a number or a date."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encoderlab.data.columns import Columns, MissingColumnError, listed
from encoderlab.errors import DataError, UserError, closest, one_line

if TYPE_CHECKING:
    from openpyxl.worksheet._read_only import ReadOnlyWorksheet

_MOST_ROWS = 2**20  # Excel's own limit
_LONGEST_CELL = 32_767  # characters, Excel's own limit
_MOST_CHARACTERS = 2**29  # of a sheet: cells may share a text
_WIDEST_GAP = 100  # columns without a name between others
_GROWTH = 100  # times as large unpacked: XML compresses well
_SMALL = 2**21  # bytes: a file that unpacks to no more may have grown by any factor


def sheet_of(path: Path, sheet: str | None, columns: Columns) -> str:
    """Return the sheet to read: `sheet`, the only one, or the only visible one that has the `columns`.

    Raises DataError if there is no such sheet or more than one, MissingColumnError if none has the columns; all name
    the sheets.
    """
    setting = columns.sibling("sheet")
    with _opened(path) as sheets:
        if sheet is not None and sheet not in sheets:
            near = closest(sheet, sheets)
            remedy = f"Set {setting}={near!r}" if near else f"Set {setting}=SHEET"
            raise DataError(f"{path} has no sheet {sheet!r}", allowed=quoted(sheets), remedy=remedy)
        if sheet is not None or len(sheets) == 1:
            return sheet or next(iter(sheets))
        headers = {title: _header(table) for title, table in sheets.items() if is_visible(table)}
    needed = {*columns.by_setting().values()}
    named = f" with the columns {listed(sorted(needed))}" if needed else ""
    with_columns = [title for title, header in headers.items() if needed <= {*header}]
    if len(with_columns) == 1:
        return with_columns[0]
    remedy = f"Set {setting}={next(iter(with_columns or headers), 'SHEET')!r}"
    if with_columns:
        problem = f"{path} has several sheets{named}"
        raise DataError(problem, allowed=quoted(with_columns), remedy=remedy)
    problem = f"{path} has no sheet{named}"
    shown = listed(f"{title!r} ({listed(filter(None, header)) or 'empty'})" for title, header in headers.items())
    raise MissingColumnError(problem, allowed=f"sheets {shown}", remedy=f"{remedy}, or name its columns")


def sheet_names(path: Path) -> list[str]:
    """Return the names of a workbook's visible sheets."""
    with _opened(path) as sheets:
        return [title for title, sheet in sheets.items() if is_visible(sheet)]


def quoted(sheets: Collection[str]) -> str:
    """Return the names of sheets for a message."""
    return listed(map(repr, sheets))


def sheet_rows(path: Path, sheet: str, columns: Columns) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a sheet that are not blank, with their numbers: cells by column, those that are used as texts.

    Raises DataError for what Excel never writes, and for a cell that holds an error.
    """
    as_text = {*columns.as_text, *columns.by_setting().values()}
    with _opened(path) as sheets:
        table = sheets[sheet]
        header = _header(table)
        columns.to_read([name for name in header if name], f"{path}, sheet {sheet!r}")
        n_characters = 0
        for number, row in enumerate(table.iter_rows(min_row=2, max_col=len(header)), start=2):
            where = f"{path}, row {number}"
            if number > _MOST_ROWS:
                raise DataError(f"{where} is beyond Excel's last", allowed=f"{_MOST_ROWS:,} rows")
            if any(cell.data_type == "e" for cell in row):
                raise DataError(f"{where} holds an error instead of a value")
            texts = [_text(_value(cell)) for cell in row]
            n_characters += sum(map(len, texts))
            longest = max(map(len, texts), default=0)
            if longest > _LONGEST_CELL or n_characters > _MOST_CHARACTERS:
                allowed = f"{_LONGEST_CELL:,} characters in a cell"
                raise DataError(f"{where} is larger than Excel writes", allowed=allowed)
            if not any(texts):
                continue
            cells = {}
            for name, cell, text in zip(header, row, texts, strict=False):
                if name:
                    cells[name] = text if name in as_text else _carried(_value(cell), text)
            yield number, cells


@contextmanager
def _opened(path: Path) -> Iterator[Mapping[str, ReadOnlyWorksheet]]:
    """Give the sheets of a workbook by name. Raises DataError for a file that is none, or that unpacks to too much."""
    try:
        import openpyxl

        with zipfile.ZipFile(path) as parts:
            unpacked = sum(part.file_size for part in parts.infolist())
        if unpacked > max(_GROWTH * path.stat().st_size, _SMALL):  # openpyxl holds all cells of a row at once
            raise DataError(f"{path} unpacks to {unpacked:,} bytes", remedy="Save it as csv")
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            yield {sheet.title: sheet for sheet in book.worksheets}
        finally:
            book.close()
    except UserError:
        raise
    except Exception as error:  # openpyxl, zipfile and xml each raise their own
        remedy = "Run pip install 'encoderlab[excel]'" if isinstance(error, ImportError) else ""
        raise DataError(f"{path} is not a readable Excel workbook: {one_line(str(error))}", remedy=remedy) from error


def is_visible(sheet: ReadOnlyWorksheet) -> bool:
    """Return whether Excel shows a sheet."""
    return getattr(sheet, "sheet_state", "visible") == "visible"


def _header(sheet: ReadOnlyWorksheet) -> list[str]:
    """Return the names in a sheet's first row, "" for a column without one, up to stray cells far away."""
    sheet.reset_dimensions()  # a file may state others than it has
    first = next(iter(sheet.iter_rows(max_row=1, values_only=True)), ())
    width = 0
    n_named = 0
    for place, value in enumerate(first, start=1):
        if value is None:
            continue
        n_named += 1
        if place <= n_named + _WIDEST_GAP:
            width = place
    return [_text(value) for value in first[:width]]


def _value(cell: Any) -> Any:
    """Return the value of a cell; for a date without a time, as its format says, the date alone."""
    value = cell.value
    if isinstance(value, datetime) and value.time() == time() and not _shows_a_time(cell.number_format):
        return value.date()
    return value


def _shows_a_time(number_format: str | None) -> bool:
    from openpyxl.styles.numbers import is_datetime

    return is_datetime((number_format or "").lower()) in ("datetime", "time")


def _carried(value: Any, text: str) -> Any:
    """Return a cell that is carried along: a number or a date as it is, anything else as `text`."""
    if value is None:
        return None
    return text if isinstance(value, bool | str | timedelta) else value


def _text(value: Any) -> str:
    """Return a cell as text: a whole number without a point, a truth value as in JSON, a date as ISO 8601 writes it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, float):
        return str(int(value) if value.is_integer() else value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
