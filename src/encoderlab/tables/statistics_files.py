"""Files of SPSS, Stata and SAS, read by pyreadstat: values by their names, and user-missing values as missing.

A column keeps codes, such as 1 and 2, beside the names of these codes. A class is called by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from encoderlab.errors import DataError, one_line
from encoderlab.system.messages import say_once
from encoderlab.tables.annotation_tools import Record
from encoderlab.tables.columns import Columns, listed
from encoderlab.tables.formats import AUTO

_ROWS_AT_A_TIME = 20_000  # each time, pyreadstat goes through the rows before
_EXACT = 2**53  # whole numbers below it are exact
_READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}


def statistics_rows(path: Path, columns: Columns, encoding: str) -> Iterator[Record]:
    """Yield the rows of a file with their numbers, from 1: names in place of codes, except in a column of numbers.

    Raises DataError if pyreadstat is not installed or cannot read the file.
    """
    read = _reader(path, encoding)
    names_of: dict[str, dict[Any, str]] = {}
    first = 1
    while True:
        values, metadata = read(row_offset=first - 1, row_limit=_ROWS_AT_A_TIME)

        # A single name is that of an exception, such as 999 in a column of ages: the column holds numbers.
        if first == 1:
            labels = metadata.variable_value_labels
            names_of = {column: dict(names) for column, names in labels.items() if len(names) > 1}
            if columns.target == "number" and columns.label:
                names_of.pop(columns.label, None)
            if columns.label in names_of:
                _say_named(path, columns.label, names_of[columns.label])

        cells = [[_cell(value, names_of.get(column, {})) for value in values[column]] for column in values]
        n_rows = len(cells[0]) if cells else 0
        for number, row in enumerate(zip(*cells, strict=True), start=first):
            yield number, dict(zip(values, row, strict=True))
        first += n_rows
        if n_rows < _ROWS_AT_A_TIME:
            return


def _reader(path: Path, encoding: str) -> Callable[..., tuple[dict[str, list[Any]], Any]]:
    """Return what reads some of the rows of a file. Raises DataError for a missing library or an unknown ending."""
    try:
        import pyreadstat
    except ModuleNotFoundError as error:
        remedy = "Run pip install 'encoderlab[statistics]', or save the file as csv with names instead of codes"
        raise DataError(f"{path} needs pyreadstat to be read", remedy=remedy) from error
    name = _READERS.get(path.suffix.lower())
    if name is None:
        raise DataError(f"{path} is not named as a file of SPSS, Stata or SAS", allowed=listed(_READERS))
    stated = {} if encoding == AUTO else {"encoding": encoding}

    def read(**rows: int) -> tuple[dict[str, list[Any]], Any]:
        try:
            return getattr(pyreadstat, name)(str(path), output_format="dict", **stated, **rows)
        except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, ValueError, OverflowError) as error:
            problem = f"{path} is not a readable {path.suffix.lower()} file: {one_line(str(error))}"
            remedy = "Save it again, or as csv with names instead of codes"
            raise DataError(problem, remedy=remedy) from error

    return read


def _say_named(path: Path, column: str, names: Mapping[Any, str]) -> None:
    """Say by which names the codes of the label column are read."""
    shown = listed((f"{_cell(code, {})} as {name!r}" for code, name in names.items()), most=5)
    say_once(f"{path}: column {column!r} is read by the names of its values: {shown}")


def _cell(value: Any, names: Mapping[Any, str]) -> Any:
    """Return a value by its name if the file has one; whole numbers without a point, None for no text."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        value = int(value)
    if names and value is not None:
        return names.get(value, str(value))
    return None if value == "" else value
