"""Rows of parquet, Arrow and Feather files: the wanted columns as they are stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import feather

from encoderlab.data.files.text_files import most_unpacked
from encoderlab.data.sources.columns import Rows, Wanted, is_words, mapped, no_such_column
from encoderlab.data.sources.whole_rows import single_values
from encoderlab.data.spool import Spool
from encoderlab.errors import DataError

_ROWS_UNPACKED = 1024  # rows of a parquet file at a time: a few bytes can expand to any number of rows
_BYTES_BUFFERED = 2**20
_FEATHER_1 = b"FEA1"
_ARROW_FILE = b"ARROW1"


def read_parquet(path: Path, wanted: Wanted, spool: Spool) -> Rows:
    """Return the rows of a parquet file. Raises DataError if it is not one, or lacks a column."""
    try:
        names = _names(path, wanted, pq.read_schema(path))
        file = _open_parquet(path)
        table = _bounded(
            path, file.iter_batches(_ROWS_UNPACKED, columns=names), file.schema_arrow, names, wanted, spool
        )
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise DataError(f"{path} is not a readable parquet file: {error}") from error
    return _rows(path, table, wanted)


def parquet_rows(path: Path, wanted: Wanted) -> Iterator[dict[str, str | None]]:
    """Yield the texts of each row of a parquet file by column, a few rows at a time. Raises DataError if it is damaged."""
    wanted = replace(wanted, others=())
    try:
        names = _names(path, wanted, pq.read_schema(path))
        for batch in _open_parquet(path).iter_batches(_ROWS_UNPACKED, columns=names):
            yield from batch.to_pylist()
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise DataError(f"{path} is not a readable parquet file: {error}") from error


def _open_parquet(path: Path) -> pq.ParquetFile:
    """Open a parquet file so that only the pages being decoded are in memory: pre-buffered columns would stay there to
    the end.
    """
    return pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False, buffer_size=_BYTES_BUFFERED)


def read_arrow(path: Path, wanted: Wanted, spool: Spool) -> Rows:
    """Return the rows of an Arrow file, stream, or Feather file. Raises DataError if it is not one, or lacks a column."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(_ARROW_FILE))
        if magic.startswith(_FEATHER_1):
            table = feather.read_table(path)
            table = table.select(_names(path, wanted, table.schema))
        else:
            table = _of_stream(path, wanted, spool, is_file=magic == _ARROW_FILE)
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise DataError(f"{path} is not a readable Arrow file: {error}") from error
    return _rows(path, table, wanted)


def _of_stream(path: Path, wanted: Wanted, spool: Spool, *, is_file: bool) -> pa.Table:
    """Return the columns of an Arrow file, or of a stream without its footer, as `datasets` writes them."""
    with pa.OSFile(str(path)) as source:
        if is_file:
            reader = pa.ipc.open_file(source)
            batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
        else:
            reader = batches = pa.ipc.open_stream(source)
        names = _names(path, wanted, reader.schema)
        return _bounded(path, (batch.select(names) for batch in batches), reader.schema, names, wanted, spool)


def _names(path: Path, wanted: Wanted, schema: pa.Schema) -> list[str]:
    """Return the columns to read; those to carry along come last. Raises DataError if one is missing or occurs twice."""
    existing = schema.names
    for setting, name in wanted.settings().items():
        if name not in existing:
            raise no_such_column(str(path), wanted, setting, existing)
        if existing.count(name) > 1:
            raise DataError(f"{path} has more than one column {name!r}", remedy="Give each column a different name")
    return [*wanted.settings().values(), *wanted.carried(single_values(schema, existing), str(path))]


def _rows(path: Path, table: pa.Table, wanted: Wanted) -> Rows:
    if not table.num_rows:
        raise DataError(f"{path} has no rows", remedy="Choose a file with rows")
    columns = {setting: table.column(name) for setting, name in wanted.settings().items()}
    carried = {name: table.column(name) for name in table.column_names if name not in wanted.settings().values()}
    return Rows(columns, lambda row: f"{path}, row {row + 1}", carried)


def _bounded(
    path: Path, parts: Iterable[pa.RecordBatch], schema: pa.Schema, names: list[str], wanted: Wanted, spool: Spool
) -> pa.Table:
    """Return the columns of a file. Raises DataError if they become larger than `most_unpacked` allows."""
    most, taken = most_unpacked(path), 0
    for batch in parts:
        taken += sum(map(_written_out, batch.columns))
        if taken > most:
            raise DataError(
                f"{path} unpacks to more than {most:,} bytes",
                allowed="50 times the file's own size and 64 MiB",
                remedy="If that is intended, rewrite it with compression='none' and use_dictionary=False",
            )
        columns = [_as_strings(batch[name], is_text=name in wanted.texts()) for name in names]
        spool.add(pa.record_batch(columns, names))
    batches = spool.finish()
    return pa.Table.from_batches(batches) if batches else schema.empty_table().select(names)


def _as_strings(column: pa.Array, *, is_text: bool) -> pa.Array:
    """Return a column (or one of lists) with string views as strings, from which Arrow can take rows, and texts as
    strings.
    """
    kind = column.type.value_type if is_words(column) else column.type
    if pa.types.is_string_view(kind):
        kind = pa.large_string()
    elif pa.types.is_dictionary(kind) and is_text:
        kind = kind.value_type
    else:
        return column
    return mapped(pa.chunked_array([column]), lambda flat: flat.cast(kind)).chunk(0)


def _written_out(column: pa.Array) -> int:
    """Return how many bytes a column has once every dictionary index is replaced by its text."""
    values = column.flatten() if is_words(column) else column
    if not pa.types.is_dictionary(values.type) or pa.types.is_primitive(values.type.value_type):
        return column.nbytes
    lengths = pc.binary_length(values.dictionary).take(values.indices)
    return pc.sum(lengths).as_py() or 0
