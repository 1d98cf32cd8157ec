"""Workbooks (xlsx, xlsm, xlsb, xls, ods), read by python-calamine: which sheet is read, and its rows.

A cell is a text, a number or a date. The value of merged cells counts for each of their rows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encoderlab.errors import DataError, UserError, closest, one_line
from encoderlab.system.messages import say_once
from encoderlab.tables.columns import Columns, MissingColumnError, distinct_names, listed
from encoderlab.tables.headers import AUTO, ROWS_LOOKED_AT, Header, header_of
from encoderlab.tables.workbook_trial import refuse_without_memory
from encoderlab.tables.xlsx_parts import (
    MOST_ROWS,
    WIDEST_GAP,
    Place,
    cells_without_value,
    padded_numbers,
    without_far_cells,
)

if TYPE_CHECKING:
    from python_calamine import CalamineSheet, CalamineWorkbook, SheetMetadata

_LONGEST_CELL = 32_767  # characters, Excel's own limit
_MOST_CHARACTERS = 2**29  # of a sheet: cells may share a text
_EXACT = 10**15  # whole numbers below it are exact in a sheet, which keeps 15 digits
_ZIP = b"PK\x03\x04"

Row = tuple[int, list[Any]]  # its number, from 1, and its cells from the first column on


@dataclass(frozen=True, slots=True)
class NoValue:
    """A cell that holds an error, such as #N/A, or a formula that no program has calculated."""

    reason: str  # the error, or "formula"


@dataclass(frozen=True)
class Sheet:
    """The rows of a sheet, blank ones left out, and which of its cells are merged below others, by column."""

    rows: Iterator[Row]
    merged: dict[int, set[int]]  # the rows whose value is that of a cell above, by the index of the column


def sheet_of(path: Path, sheet: str | None, columns: Columns) -> str:
    """Return the sheet to read: `sheet`, the only one, or the only visible one that has the `columns`.

    Raises DataError if there is no such sheet or more than one, MissingColumnError if none has the columns; all name
    the sheets.
    """
    setting = columns.sibling("sheet")
    book = _book_of(path)
    sheets = [one.name for one in book.metadata if _holds_cells(one)]
    if sheet is not None and sheet not in sheets:
        near = closest(sheet, sheets)
        remedy = f"Set {setting}={near!r}" if near else f"Set {setting}=SHEET"
        raise DataError(f"{path} has no sheet {sheet!r}", allowed=quoted(sheets), remedy=remedy)
    if sheet is not None or len(sheets) == 1:
        return sheet or sheets[0]
    headers = {name: _names(book.sheet(name), columns) for name in book.visible}
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
    return _book_of(path).visible


def quoted(sheets: Collection[str]) -> str:
    """Return the names of sheets for a message."""
    return listed(map(repr, sheets))


def sheet_grid(path: Path, name: str) -> Sheet:
    """Return a sheet as a grid. Raises DataError for what no spreadsheet program writes."""
    book = _book_of(path)
    sheet = book.sheet(name)
    merged: dict[int, set[int]] = {}
    for (first, column), (last, _) in sheet.merged_cell_ranges or []:
        merged.setdefault(column, set()).update(range(first + 2, min(last + 1, MOST_ROWS) + 1))
    return Sheet(_checked_rows(path, _grid(sheet), merged, book.known_cells(name)), merged)


def _checked_rows(
    path: Path, grid: Iterator[Row], merged: dict[int, set[int]], known: dict[Place, Any]
) -> Iterator[Row]:
    """Yield the rows of a grid that are not blank, with the values of merged cells, and those that are `known`."""
    above: dict[int, Any] = {}  # the value of the merged cells of a column
    known_in_row: dict[int, dict[int, Any]] = {}
    for (number, column), value in known.items():
        known_in_row.setdefault(number, {})[column - 1] = value
    n_characters = 0
    for number, cells in grid:
        where = f"{path}, row {number}"
        if number > MOST_ROWS:
            raise DataError(f"{where} is beyond Excel's last", allowed=f"{MOST_ROWS:,} rows")
        lengths = [len(cell) for cell in cells if type(cell) is str]
        n_characters += sum(lengths)
        if n_characters > _MOST_CHARACTERS or max(lengths, default=0) > _LONGEST_CELL:
            allowed = f"{_LONGEST_CELL:,} characters in a cell"
            raise DataError(f"{where} is larger than Excel writes", allowed=allowed)
        for column, value in known_in_row.get(number, {}).items():
            cells[column] = value
        if not any(cell != "" for cell in cells):
            continue
        for column, rows in merged.items():
            if number in rows:
                cells[column] = above.get(column, "")
            elif column < len(cells):
                above[column] = cells[column]
        yield number, cells


def sheet_rows(path: Path, name: str, columns: Columns, choice: str = AUTO) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a sheet that are not blank, with their numbers: cells by column, those that are used as texts.

    `choice` says which row has the names of the columns: see headers.py. Raises DataError for what no spreadsheet
    program writes, and for a used cell without a value.
    """
    # The first rows show which of them name the columns.
    sheet = sheet_grid(path, name)
    first = list(islice(sheet.rows, ROWS_LOOKED_AT))
    header = _header(first, columns, choice)
    if header.note:
        say_once(f"{path}, sheet {name!r}: {header.note}")
    columns.to_read(header.names, f"{path}, sheet {name!r}", gathers=True)
    several = [index for index, name in enumerate(header.names) if name == columns.label]
    names = distinct_names(header.names)
    used = {*columns.by_setting().values()}
    as_text = {*columns.as_text, *used}
    places = [(index, name, name in as_text) for index, name in enumerate(names)]
    _say_merged(path, sheet, [names.index(name) for name in names if name in used], names)

    # The rows below, and above those that name no columns.
    left_out = {*header.left_out, header.row}
    for number, row in chain(first, sheet.rows):
        if number in left_out or not any(cell != "" for cell in row[: len(names)]):
            continue
        cells = {}
        for index, column, is_text in places:
            value = row[index] if index < len(row) else ""
            if type(value) is NoValue:
                value = _without_value(f"{path}, row {number}", column, value, is_used=column in used)
            cells[column] = text_of_cell(value) if is_text else _carried(value)
            if type(value) is float and abs(value) >= _EXACT and value.is_integer():
                _say_rounded(path, column)
        if len(several) > 1:  # a label in each of the columns that share the name
            labels = [text_of_cell(row[index]) for index in several if index < len(row)]
            cells[header.names[several[0]]] = [label for label in labels if label]
        yield number, cells


def _say_merged(path: Path, sheet: Sheet, used: Collection[int], header: list[str]) -> None:
    """Say which of the columns that are read have merged cells, whose value counts for each of their rows."""
    names = [header[column] for column in used if any(row > 1 for row in sheet.merged.get(column, ()))]
    for name in names:
        say_once(f"{path}: cells of column {name!r} are merged: their value counts for each of their rows")


def _say_rounded(path: Path, column: str) -> None:
    """Say that a sheet has rounded the numbers of a column."""
    say_once(f"{path}: column {column!r} has numbers of more than 15 digits, which a sheet rounds unless they are text")


def _without_value(where: str, column: str, cell: NoValue, *, is_used: bool) -> str:
    """Return a cell without a value as a text, if it is only carried along. Raises DataError if it is used."""
    if not is_used:
        return "" if cell.reason == "formula" else cell.reason
    if cell.reason == "formula":
        problem = f"{where} has a formula in column {column!r} that has not been calculated"
        remedy = "Open the file in a spreadsheet program and save it, so that it holds the values"
        raise DataError(problem, remedy=remedy)
    remedy = "Correct the formula, or clear the cell"
    raise DataError(f"{where} has the error {cell.reason} in column {column!r}", remedy=remedy)


class _Book:
    """A workbook whose sheets are read once: to guess its columns, and then for its rows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sheets: dict[str, CalamineSheet] = {}
        self._known: dict[str, dict[Place, Any]] = {}
        with _opened(path) as book:
            self.metadata = book.sheets_metadata
            self.visible = [one.name for one in self.metadata if _holds_cells(one) and _is_visible(one)]
            if len(self.visible) == 1:  # which is read in any case
                self._sheets[self.visible[0]] = book.get_sheet_by_name(self.visible[0])

    def sheet(self, name: str) -> CalamineSheet:
        """Return a sheet. Raises DataError if it cannot be read."""
        if name not in self._sheets:
            with _opened(self._path) as book:
                self._sheets[name] = book.get_sheet_by_name(name)
        return self._sheets[name]

    def known_cells(self, name: str) -> dict[Place, Any]:
        """Return the cells of a sheet of which python-calamine does not tell what a spreadsheet program shows."""
        if name not in self._known:
            self._known[name] = {}
            if _is_xlsx(self._path):
                reasons = cells_without_value(self._path, name)
                without = {place: NoValue(reason) for place, reason in reasons.items()}
                self._known[name] = without | padded_numbers(self._path, name)
        return self._known[name]


def _book_of(path: Path) -> _Book:
    """Return a workbook, which stays in memory until another is read, or it is forgotten. Raises DataError."""
    try:
        stat = path.stat()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    return _read_book(path, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=1)
def _read_book(path: Path, size: int, modified: int) -> _Book:  # noqa: ARG001
    return _Book(path)


def forget_workbook() -> None:
    """Free the memory of the workbook that was read last."""
    _read_book.cache_clear()


@contextmanager
def _opened(path: Path) -> Iterator[CalamineWorkbook]:
    """Give a workbook. Raises DataError for a file that is none, or that unpacks to too much."""
    import python_calamine

    try:
        with path.open("rb") as file:
            is_zip = file.read(len(_ZIP)) == _ZIP
        source = without_far_cells(path) if is_zip else path
        if not _is_xlsx(path):
            refuse_without_memory(path)
        book = python_calamine.load_workbook(source)
    except UserError:
        raise
    except python_calamine.PasswordError as error:
        raise DataError(f"{path} is protected by a password", remedy="Save it without one") from error
    except (python_calamine.CalamineError, OSError) as error:
        raise DataError(f"{path} is not a readable workbook: {one_line(str(error))}") from error
    with book:
        try:
            yield book
        except python_calamine.CalamineError as error:
            raise DataError(f"{path} is not a readable workbook: {one_line(str(error))}") from error


def _is_xlsx(path: Path) -> bool:
    """Return whether a workbook consists of XML as Excel writes it."""
    import zipfile

    with path.open("rb") as file:
        is_zip = file.read(len(_ZIP)) == _ZIP
    return is_zip and "xl/workbook.xml" in zipfile.ZipFile(path).namelist()


def _holds_cells(sheet: SheetMetadata) -> bool:
    """Return whether a sheet has cells, and not a chart or a dialog."""
    return str(sheet.typ).endswith("WorkSheet")


def _is_visible(sheet: SheetMetadata) -> bool:
    """Return whether a spreadsheet program shows a sheet."""
    return str(sheet.visible).endswith(".Visible")


def _grid(sheet: CalamineSheet) -> Iterator[Row]:
    """Yield all rows of a sheet."""
    return enumerate(sheet.iter_rows() if sheet.start is not None else (), start=1)


def _header(rows: Sequence[Row], columns: Columns, choice: str = AUTO) -> Header:
    """Return the header of a sheet by its first rows: "" for a column without a name, up to stray cells far away.

    Columns without names on the right count if the first rows have cells in them, and they are not far away either.
    """
    grid = [(number, [text_of_cell(cell) for cell in cells]) for number, cells in rows]
    header = header_of(grid, choice, {*columns.by_setting().values()})
    width = 0
    n_named = 0
    for place, name in enumerate(header.names, start=1):
        if not name:
            continue
        n_named += 1
        if place <= n_named + WIDEST_GAP:
            width = place
    below = [cells[: width + WIDEST_GAP] for number, cells in grid if header.row is None or number > header.row]
    filled = [place for cells in below for place, cell in enumerate(cells, start=1) if cell]
    names = header.names[:width] + [""] * (max(filled, default=0) - width)
    return replace(header, names=names)


def _names(sheet: CalamineSheet, columns: Columns) -> list[str]:
    """Return the names of the columns of a sheet."""
    return _header(list(islice(_grid(sheet), ROWS_LOOKED_AT)), columns).names


def _carried(value: Any) -> Any:
    """Return a cell that is carried along: a number or a date as it is, others as texts, None if it is blank."""
    if type(value) is str:
        return value or None
    if type(value) is float:
        return int(value) if value.is_integer() and abs(value) < _EXACT else value
    return text_of_cell(value) if isinstance(value, bool | timedelta) else value


def text_of_cell(value: Any) -> str:
    """Return a cell as text: a whole number without a point, a truth value as in JSON, a date as ISO 8601 writes it."""
    if type(value) is str:
        return value
    if isinstance(value, NoValue):
        return value.reason
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, float):
        return f"{Decimal(repr(value)):f}".removesuffix(".0") if value.is_integer() else str(value)
    if isinstance(value, timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
