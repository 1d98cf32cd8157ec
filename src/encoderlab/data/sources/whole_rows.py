"""Operations on whole rows: joining files, dropping incomplete rows, and carrying columns along."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from encoderlab.data.sources.columns import Rows, Wanted, is_label, is_words
from encoderlab.data.spool import Spool, count_read
from encoderlab.errors import DataError


def joined(parts: Sequence[Rows]) -> Rows:
    """Return the rows of several files, one file after another. Raises DataError if some are texts and others lists of
    words.
    """
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(part.columns["text"]) for part in parts)])

    def where(row: int) -> str:
        part = int(np.searchsorted(starts, row, side="right")) - 1
        return parts[part].where(row - int(starts[part]))

    try:
        table = pa.concat_tables([pa.table(part.columns) for part in parts], promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(f"{parts[0].where(0)} and the other files cannot be combined: {error}") from error
    return Rows({name: table.column(name) for name in table.column_names}, where, _carried_together(parts))


def _carried_together(parts: Sequence[Rows]) -> dict[str, pa.ChunkedArray]:
    """Return the carried columns of all parts: null if a part has none, as texts if their types differ."""
    found: dict[str, pa.ChunkedArray] = {}
    for name in dict.fromkeys(name for part in parts for name in part.carried):
        columns = [part.carried.get(name, pa.nulls(len(part.columns["text"]), pa.null())) for part in parts]
        kinds = {column.type for column in columns if not pa.types.is_null(column.type)}
        kind = kinds.pop() if len(kinds) == 1 else pa.large_string()
        chunks = [chunk.cast(kind) for column in columns for chunk in getattr(column, "chunks", [column])]
        found[name] = pa.chunked_array(chunks, kind)
    return found


def single_values(schema: pa.Schema, names: Iterable[str]) -> list[str]:
    """Return the columns that hold texts, numbers, truth values or times, and so can be carried along."""
    types = pa.types
    good = (
        types.is_string,
        types.is_large_string,
        types.is_string_view,
        types.is_primitive,
        types.is_decimal,
        types.is_null,
    )

    def is_single(kind: pa.DataType) -> bool:
        kind = kind.value_type if types.is_dictionary(kind) else kind
        return any(test(kind) for test in good)

    counts = Counter(schema.names)
    return [name for name in names if counts[name] == 1 and is_single(schema.field(name).type)]


def without_missing(rows: Rows, wanted: Wanted, spool: Spool) -> tuple[Rows, dict[str, np.ndarray]]:
    """Return the rows that lack none of their wanted columns, and which rows lack each: int64 [rows] by setting.

    A text or label of only white space is missing, and so are an invalid number and an empty list. A set of labels may
    be empty. The rows are copied through `spool`, unless all are left.
    """
    needed = [setting for setting in wanted.settings() if not (is_label(setting) and wanted.target == "label_set")]
    masks = {setting: _missing_values(rows.columns[setting]) for setting in needed}
    keep = ~np.logical_or.reduce(list(masks.values()))
    if keep.all():
        return rows, {}
    kept, where = np.flatnonzero(keep), rows.where
    columns = [*rows.columns.values(), *rows.carried.values()]
    left = iter(_filtered(pa.table(columns, [str(number) for number in range(len(columns))]), keep, spool).columns)
    left_columns, left_carried = ({name: next(left) for name in part} for part in (rows.columns, rows.carried))
    found = Rows(left_columns, lambda row: where(int(kept[row])), left_carried)
    return found, {setting: np.flatnonzero(mask) for setting, mask in masks.items() if mask.any()}


def _filtered(table: pa.Table, keep: np.ndarray, spool: Spool) -> pa.Table:
    """Return the rows of `table` that `keep` marks."""
    start = 0
    for batch in table.to_batches():
        spool.add(batch.filter(pa.array(keep[start : start + len(batch)])))
        start += len(batch)
        count_read(batch.nbytes)
    return pa.Table.from_batches(spool.finish(), table.schema)


def _missing_values(column: pa.ChunkedArray) -> np.ndarray:
    """Return which rows have no value: bool [rows]. Only a chunk at a time is copied."""
    found = [np.empty(0, bool)]
    for chunk in column.chunks:
        found.append(_missing(pa.chunked_array([chunk])))
        count_read(chunk.nbytes)
    return np.concatenate(found)


def _missing(column: pa.ChunkedArray) -> np.ndarray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if is_words(column):
        lists = column.to_pylist()
        return np.array([not one or any(word is None for word in one) for one in lists], bool)
    if pa.types.is_floating(column.type):
        return pc.is_null(column, nan_is_null=True).to_numpy().astype(bool)
    blank = pc.is_null(column)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        blank = pc.or_(blank, pc.equal(pc.utf8_trim_whitespace(column), "").fill_null(True))
    return blank.to_numpy().astype(bool)
