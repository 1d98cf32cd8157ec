"""Label columns with something other than one label per row: several labels, or a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from encoderlab.data.sources.columns import is_words
from encoderlab.errors import DataError

if TYPE_CHECKING:
    from encoderlab.batch import TargetKind
    from encoderlab.data.sources.columns import Rows, Where

SEPARATORS = ("|", ";", ",")  # tried in this order if none is set
_LOOKED_AT = 20  # different cells: if none of them is a number, the column holds something else
YES, NO = ("1", "1.0", "true"), ("0", "0.0", "false")


def with_targets(
    rows: Mapping[str, Rows], target: TargetKind, label: str, label_columns: list[str] | None, separator: str | None
) -> dict[str, Rows]:
    """Return the rows of each split, with the label column converted for `target`: float64, or a list of labels.

    `label` and `label_columns` are the user's names of the columns. Labels in one cell are split at `separator` (None:
    the first of SEPARATORS found in training). Raises DataError at the first row with an invalid cell.
    """
    if target == "number":
        return {
            name: _with_label(part, as_numbers(part.columns["label"], label, part.where)) for name, part in rows.items()
        }
    if label_columns is not None:
        return {name: _with_label(part, indicated_labels(part, label_columns)) for name, part in rows.items()}
    train = rows["train"].columns["label"]
    used = separator or (None if is_words(train) else found_separator(train))
    return {name: _with_label(part, as_label_sets(part.columns["label"], used)) for name, part in rows.items()}


def _with_label(rows: Rows, column: pa.ChunkedArray) -> Rows:
    kept = {name: values for name, values in rows.columns.items() if not name.startswith("label")}
    return replace(rows, columns=kept | {"label": column})


def as_numbers(column: pa.ChunkedArray, name: str, where: Where) -> pa.ChunkedArray:
    """Return the cells of the column `name`, strings, as float64; null stays null. Raises DataError at the first
    non-number.
    """
    if is_words(column):
        raise DataError(f"Column {name!r} holds lists instead of numbers ({where(0)})", allowed="a number in each row")
    try:
        numbers = pc.cast(pc.utf8_trim_whitespace(column), pa.float64())
        if pc.all(pc.is_finite(numbers)).as_py() is not False:
            return numbers
    except pa.ArrowInvalid:
        pass
    row, value = next(
        (row, value) for row, value in enumerate(column.to_pylist()) if value is not None and not _is_number(value)
    )
    if _is_number(value.replace(",", ".", 1)):
        remedy = "Use a decimal point instead of the comma"
    elif any(_is_number(other) for other in column.unique().drop_null().slice(0, _LOOKED_AT).to_pylist()):
        remedy = "Correct the row or remove it"
    else:
        remedy = "Use task=classification if these are classes, or choose the column with dataset.label"
    raise DataError(
        f"{where(row)} has {value[:60]!r} in column {name!r}, which is not a number",
        allowed="a number in each row",
        remedy=remedy,
    )


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(pc.cast(pa.scalar(text.strip()), pa.float64()).as_py()))
    except pa.ArrowInvalid:
        return False


def as_label_sets(column: pa.ChunkedArray, separator: str | None) -> pa.ChunkedArray:
    """Return a list of labels for each row, each label once: a list as it is, a string split at `separator` (None: one
    label).

    An empty cell, a null and an empty list are rows without a label.
    """
    cells = column.to_pylist()
    if not is_words(column):
        cells = [(cell or "").split(separator) if separator else [cell or ""] for cell in cells]
    cleaned = [[label.strip() for label in cell or () if label is not None] for cell in cells]
    return pa.chunked_array(
        [pa.array([list(dict.fromkeys(filter(None, row))) for row in cleaned], pa.list_(pa.string()))]
    )


def found_separator(column: pa.ChunkedArray) -> str | None:
    """Return the first of SEPARATORS that occurs in any cell; None if none does."""
    return next((mark for mark in SEPARATORS if pc.any(pc.match_substring(column, mark)).as_py()), None)


def indicated_labels(rows: Rows, names: list[str]) -> pa.ChunkedArray:
    """Return for each row the list of those `names` whose columns hold a 1. Raises DataError at a cell that is neither
    0 nor 1.
    """
    columns = [rows.columns[f"label_columns[{place}]"] for place in range(len(names))]
    marks = np.stack(
        [_indicated(column, name, rows.where) for column, name in zip(columns, names, strict=True)], axis=1
    )
    found, ids = marks.nonzero()
    offsets = np.searchsorted(found, np.arange(len(marks) + 1)).astype(np.int32)
    return pa.chunked_array(
        [pa.ListArray.from_arrays(pa.array(offsets), pa.array(names, pa.string()).take(pa.array(ids)))]
    )


def _indicated(column: pa.ChunkedArray, name: str, where: Where) -> np.ndarray:
    cells = pc.utf8_lower(pc.utf8_trim_whitespace(column.fill_null("")))
    yes, no = (np.asarray(pc.is_in(cells, value_set=pa.array(values))) for values in (YES, NO))
    if not (yes | no).all():
        row = int(np.flatnonzero(~(yes | no))[0])
        raise DataError(
            f"{where(row)} has neither 0 nor 1 in column {name!r}: {cells[row].as_py()[:60]!r}",
            allowed="0 or 1 in a label column",
        )
    return yes
