"""Rows of Excel workbooks (.xlsx): cells as texts, with column names in the first row."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from datetime import date, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encoderlab.data.files.tables import RowsOfFile
from encoderlab.data.files.text_files import most_unpacked, place
from encoderlab.data.sources.columns import Rows, Wanted, listed, no_such_column
from encoderlab.data.spool import Spool
from encoderlab.errors import DataError, SettingError

if TYPE_CHECKING:
    from openpyxl.worksheet._read_only import ReadOnlyWorksheet


def read_excel(path: Path, wanted: Wanted, sheet: str | None, spool: Spool) -> Rows:
    """Return the rows of a workbook's sheet; without a `sheet`, of the one whose first row has the wanted columns.

    Numbers are written as Excel shows them without a format (1, not 1.0), dates as ISO 8601, an empty cell as an empty
    text. Raises DataError if it is not a workbook, no sheet or several have the columns, or a cell holds an error.
    """
    openpyxl = _openpyxl(path)
    try:
        _refuse_inflated(path)
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except (
        OSError,
        KeyError,
        ValueError,
        SyntaxError,
        zipfile.BadZipFile,
        openpyxl.utils.exceptions.InvalidFileException,
    ) as error:
        raise DataError(
            f"{path} is not a readable Excel workbook: {error}", remedy="Save it as .xlsx or .csv again"
        ) from error
    try:
        return _rows(path, _sheet(path, {one.title: one for one in book.worksheets}, wanted, sheet), wanted, spool)
    finally:
        book.close()


def _openpyxl(path: Path) -> Any:
    try:
        import openpyxl
    except ImportError:
        raise SettingError(
            f"{path} is an Excel workbook, but openpyxl is not installed", remedy="Run pip install 'encoderlab[excel]'"
        ) from None
    return openpyxl


def _refuse_inflated(path: Path) -> None:
    most = most_unpacked(path)
    with zipfile.ZipFile(path) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > most:
            raise DataError(f"{path} unpacks to more than {most:,} bytes", remedy="Save it as .csv and use that file")


def _sheet(path: Path, sheets: dict[str, ReadOnlyWorksheet], wanted: Wanted, name: str | None) -> ReadOnlyWorksheet:
    setting = wanted.named("sheet")
    if name is not None:
        if name not in sheets:
            raise DataError(
                f"{path} has no sheet {name!r}", allowed=listed(sheets), remedy=f"Set {setting} to one of them"
            )
        return sheets[name]
    columns = set(wanted.settings().values())
    having = [title for title, one in sheets.items() if columns <= set(_header(one))]
    if len(having) > 1:
        raise DataError(
            f"{path} has the columns on {len(having)} sheets", allowed=listed(having), remedy=f"Set {setting}=NAME"
        )
    if not sheets:
        raise DataError(f"{path} has no sheets")
    return sheets[having[0]] if having else next(iter(sheets.values()))


def _header(sheet: ReadOnlyWorksheet) -> list[str]:
    first = next(iter(sheet.iter_rows(max_row=1, values_only=True)), ())
    return ["" if value is None else str(value) for value in first]


def _rows(path: Path, sheet: ReadOnlyWorksheet, wanted: Wanted, spool: Spool) -> Rows:
    header, where = _header(sheet), Path(f"{path}, sheet {sheet.title}")
    for setting, name in wanted.settings().items():
        if name not in header:
            raise no_such_column(str(where), wanted, setting, [one for one in header if one])
        if header.count(name) > 1:
            raise DataError(f"{where} has more than one column {name!r}", remedy="Give each column a different name")
    others = wanted.carried([name for name in header if name and header.count(name) == 1], str(where))
    places = [header.index(name) for name in [*wanted.settings().values(), *others]]
    rows = RowsOfFile(where, spool, list(wanted.settings()), others)
    for number, cells in _filled(sheet):
        rows.add(
            number, [_text(cells[index] if index < len(cells) else None, place(where, number)) for index in places]
        )
    return rows.finish()


def _filled(sheet: ReadOnlyWorksheet) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the non-empty rows below the header, with their numbers."""
    for number, cells in enumerate(sheet.iter_rows(min_row=2), start=2):
        if any(cell.value is not None for cell in cells):
            yield number, cells


def _text(cell: Any, where: str) -> str:
    value = None if cell is None else cell.value
    if value is None:
        return ""
    if cell is not None and cell.data_type == "e":
        raise DataError(f"{where} holds the error {value}", remedy="Correct the formula, or save its values")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.isoformat() if isinstance(value, datetime | date | time) else str(value)
