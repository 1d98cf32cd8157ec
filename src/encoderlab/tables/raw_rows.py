"""The rows of a file as Arrow columns, before their labels have ids, and what single columns become."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from encoderlab.errors import DataError
from encoderlab.tables.columns import CARRIED, Where

types = pa.types


@dataclass(frozen=True)
class RawRows:
    """The rows of a split before its labels have ids.

    `table` has the columns `text` (string, or a list of words), `text_pair` and `label` (string, a list of strings, or
    a number), as far as they were named. Columns that are carried along have their own names behind CARRIED.
    """

    table: pa.Table
    where: Where

    @property
    def labels(self) -> pa.ChunkedArray:
        """Return the label column."""
        return self.table["label"]

    def with_labels(self, column: pa.ChunkedArray) -> RawRows:
        """Return the rows with this label column."""
        table = self.table.drop_columns("label") if "label" in self.table.column_names else self.table
        return RawRows(table.append_column("label", column), self.where)


def concatenated(parts: Sequence[RawRows]) -> RawRows:
    """Return the rows of several files, one after another; further columns are texts if a type differs between files.

    Raises DataError if the types of texts or labels do not go together.
    """
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(part.table) for part in parts)])

    def where(row: int) -> str:
        part = int(np.searchsorted(starts, row, side="right")) - 1
        return parts[part].where(row - int(starts[part]))

    def as_text(field: pa.Field) -> pa.Field:
        return field.with_type(pa.large_string()) if field.name.startswith(CARRIED) else field

    tables = [part.table for part in parts]
    with suppress(pa.ArrowException):
        return RawRows(pa.concat_tables(tables, promote_options="permissive"), where)
    try:
        texts = [table.cast(pa.schema(map(as_text, table.schema))) for table in tables]
        return RawRows(pa.concat_tables(texts, promote_options="permissive"), where)
    except pa.ArrowException as error:
        problem = f"{parts[0].where(0)} and the other files cannot be combined: {error}"
        raise DataError(problem, remedy="Give a column the same type in every file") from error


def is_list(column: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether each row is a list."""
    return types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type)


def flat(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return the values of all rows, lists one after the other."""
    return pc.list_flatten(column) if is_list(column) else column


def mapped(column: pa.ChunkedArray, function: Callable[[pa.Array], pa.Array]) -> pa.ChunkedArray:
    """Return the column with `function` applied to its values; lists stay lists."""
    chunks = [mapped_array(chunk, function) for chunk in column.chunks]
    return pa.chunked_array(chunks or [mapped_array(pa.array([], column.type), function)])


def mapped_array(array: pa.Array, function: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Return the array with `function` applied to its values; lists stay lists."""
    if not is_list(array):
        return function(array)
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, function(array.flatten()), mask=array.is_null())


def plain(array: pa.Array) -> pa.Array:
    """Return the array with dictionaries, views and maps written out, in types of which any rows can be taken."""
    kind = plain_type(array.type)
    return array if kind == array.type else array.cast(kind)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which a column is carried along.

    Dictionaries, views and extensions become what they hold, and maps lists of records with `key` and `value`.
    """
    if types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return pa.large_string() if types.is_string_view(kind) else pa.large_binary()
    if types.is_decimal32(kind) or types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_map(kind):
        return plain_type(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
    if types.is_struct(kind):
        return pa.struct([(field.name, plain_type(field.type)) for field in kind])
    if types.is_list_view(kind):
        return pa.list_(plain_type(kind.value_type))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = plain_type(kind.value_type)
        large = pa.large_list if types.is_large_list(kind) else pa.list_
        return kind if inner == kind.value_type else large(inner)
    return kind


def is_single(kind: pa.DataType) -> bool:
    """Return whether a column holds texts, numbers, truth values or times: what tables of a run's rows carry along."""
    kind = kind.value_type if types.is_dictionary(kind) else kind
    tests = (types.is_string, types.is_large_string, types.is_string_view, types.is_primitive, types.is_null)
    return any(test(kind) for test in (*tests, types.is_decimal))
