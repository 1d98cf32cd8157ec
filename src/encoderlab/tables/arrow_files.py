"""Files of Arrow columns: parquet, folders that the library `datasets` has saved (`save_to_disk`), and .arrow files.

Arrow has two containers: `datasets` writes the stream, pandas (`to_feather`) and polars (`write_ipc`) the file format.
`datasets` keeps the names of classes in the schema's metadata, where -1 means that a row has no label.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from encoderlab.errors import DataError, one_line
from encoderlab.tables.checks import refuse_long
from encoderlab.tables.columns import Columns, distinct_names
from encoderlab.tables.raw_rows import flat, is_single, mapped_array, plain

if TYPE_CHECKING:
    import datasets

_ROWS_AT_A_TIME = 1024  # a few bytes can expand to any number of rows
_BYTES_OF_PARQUET = 2**26  # of a column, at a time
_GROWTH = 100  # times as large unpacked: the buffers of a file may be compressed
_MUCH = 2**28  # bytes: so much may come from files of any size
_MANY_ROWS = 10_000_000
_FILE_FORMAT = b"ARROW1"
_OLD_FEATHER = b"FEA1"

Batch = tuple[range, dict[str, pa.Array]]  # the numbers of rows, from 1, and their values by column


def parquet_batches(path: Path, columns: Columns) -> Iterator[Batch]:
    """Yield the rows of a parquet file as they are stored. Raises DataError if they unpack to far more than it."""
    try:
        # pre-buffered columns would stay in memory to the end
        file = pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False, buffer_size=2**20)
        chosen = _to_read(path, columns, file.schema_arrow)
        features = _features(file.schema_arrow)
        stored = [*chosen.stored.values()]
        rows_at_a_time = _rows_of_parquet(path, file.metadata, stored)
        batches = file.iter_batches(rows_at_a_time, columns=stored)
        for rows, arrays in _unpacked(path, chosen, batches):
            yield rows, {name: _with_names(array, features.get(name)) for name, array in arrays.items()}
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise DataError(f"{path} is not a readable parquet file: {one_line(str(error))}") from error


def saved_batches(path: Path, columns: Columns) -> Iterator[Batch]:
    """Yield the rows of a saved dataset or an .arrow file, classes by their names.

    Raises DataError if it cannot be read, or unpacks to far more than its size.
    """
    if path.is_file() and _starts_with(path, _FILE_FORMAT):
        yield from _file_batches(path, columns)
        return
    if path.is_file() and _starts_with(path, _OLD_FEATHER):
        problem = f"{path} is in the first version of Feather, which current programs no longer read"
        raise DataError(problem, remedy="Save it as parquet with the program that wrote it")
    try:
        dataset = _opened(path)
        chosen = _to_read(path, columns, dataset.features.arrow_schema)
        tables: Any = dataset.select_columns([*chosen.stored]).with_format("arrow").iter(_ROWS_AT_A_TIME)
        batches = (batch for table in tables for batch in table.combine_chunks().to_batches())
        for rows, arrays in _unpacked(path, chosen, batches):
            yield rows, {name: _with_names(array, dataset.features.get(name)) for name, array in arrays.items()}
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError) as error:
        problem = f"{path} is not a readable dataset: {one_line(str(error))}"
        raise DataError(problem, remedy="Save it again with the save_to_disk of datasets, or as parquet") from error


def _file_batches(path: Path, columns: Columns) -> Iterator[Batch]:
    """Yield the rows of a file in Arrow's file format. Raises DataError as `saved_batches` does."""
    try:
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
            chosen = _to_read(path, columns, reader.schema)
            features = _features(reader.schema)
            all_names = distinct_names(reader.schema.names)
            places = [all_names.index(name) for name in chosen.stored]
            whole = (reader.get_batch(number).select(places) for number in range(reader.num_record_batches))
            batches = (
                batch.slice(at, _ROWS_AT_A_TIME) for batch in whole for at in range(0, len(batch), _ROWS_AT_A_TIME)
            )
            for rows, arrays in _unpacked(path, chosen, batches):
                yield rows, {name: _with_names(array, features.get(name)) for name, array in arrays.items()}
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError) as error:
        problem = f"{path} is not a readable Arrow file: {one_line(str(error))}"
        raise DataError(problem, remedy="Save it again, or as parquet") from error


def _starts_with(path: Path, magic: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


def _features(schema: pa.Schema) -> dict[str, Any]:
    """Return what `datasets` has noted about the columns in a schema's metadata; nothing for another program's file."""
    if b"huggingface" not in (schema.metadata or {}):
        return {}
    from datasets import Features

    return dict(Features.from_arrow_schema(schema))


@dataclass(frozen=True)
class _Chosen:
    """What is read of a file: its columns, each with its `stored` name, and `fields` within them, such as data.text.

    A column that is `carried` comes back as it is; others are read for a field.
    """

    stored: dict[str, str]
    fields: dict[str, list[str]]
    carried: Collection[str]

    def of(self, columns: Sequence[pa.Array]) -> dict[str, pa.Array]:
        """Return the columns and fields by name, given the stored columns."""
        arrays = {name: plain(array) for name, array in zip(self.stored, columns, strict=True)}
        carried = {name: array for name, array in arrays.items() if name in self.carried}
        return carried | {name: pc.struct_field(arrays[path[0]], path[1:]) for name, path in self.fields.items()}


def _to_read(path: Path, columns: Columns, schema: pa.Schema) -> _Chosen:
    """Return what to read. New texts come back with all columns, what a run learns from only with those of single
    values; to guess columns, the fields of objects count as well.
    """
    used = {*columns.by_setting().values()}
    names = distinct_names(schema.names)
    within = {name: place for name, place in _fields_within(schema) if name not in names}
    fields = {name: place for name, place in within.items() if name in used or not used}
    wanted = {*columns.to_read([*schema.names, *fields], str(path))}
    whole = not columns.setting.startswith("dataset.")
    stored = {}
    carried = set()
    roots = {place[0] for place in fields.values()}
    for name, field in zip(names, schema, strict=True):
        if name in used or (name in wanted and (whole or is_single(field.type))):
            carried.add(name)
        if name in carried or name in roots:
            stored[name] = field.name
    return _Chosen(stored, fields, carried)


def _fields_within(fields: Iterable[pa.Field], before: Sequence[str] = ()) -> Iterator[tuple[str, list[str]]]:
    """Yield the fields of objects, by names such as data.text, each with its place."""
    for field in fields:
        place = [*before, field.name]
        if pa.types.is_struct(field.type):
            yield from _fields_within(field.type, place)
        elif before:
            yield ".".join(place), place


def _unpacked(path: Path, chosen: _Chosen, batches: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
    """Yield batches with the numbers of their rows, and dictionaries written out. DataError if they are too large."""
    first = 1
    unpacked = 0
    most = _most_bytes(path)
    for batch in batches:
        arrays = chosen.of(batch.columns)
        unpacked += sum(array.nbytes for array in arrays.values())
        if unpacked > most:
            raise _unpacks_to_too_much(path)
        yield range(first, first + len(batch)), arrays
        first += len(batch)


def _most_bytes(path: Path) -> int:
    """Return how many bytes may come from a file, or from the files of a folder."""
    return max(_GROWTH * _size_of(path), _MUCH)


def _size_of(path: Path) -> int:
    files = [path] if path.is_file() else [*path.iterdir()]
    return sum(file.stat().st_size for file in files)


def _unpacks_to_too_much(path: Path) -> DataError:
    problem = f"{path} unpacks to more than {_GROWTH} times its size"
    return DataError(problem, remedy="Write it again without rows or texts that repeat")


def _rows_of_parquet(path: Path, metadata: pq.FileMetaData, names: Sequence[str]) -> int:
    """Return how many rows are read at a time: fewer if a value that many rows may share is long.

    Raises DataError if a file has far more rows or bytes than its size allows, or such a value is longer than a text.
    """
    too_many = metadata.num_rows > max(_GROWTH * _size_of(path), _MANY_ROWS)
    n_bytes = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    if too_many or n_bytes > _most_bytes(path):
        raise _unpacks_to_too_much(path)
    longest = max(1, n_bytes // max(metadata.num_rows, 1))
    # The values that rows share are a dictionary, which is read with the first row of each group of rows.
    leaves = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    leaves = [leaf for leaf in leaves if leaf in names or leaf.split(".")[0] in names]
    file = pq.ParquetFile(path, read_dictionary=leaves, pre_buffer=False, buffer_size=2**20)
    for group in range(file.num_row_groups):
        for batch in file.iter_batches(1, row_groups=[group], columns=list(names)):
            for name, column in zip(names, batch.columns, strict=True):
                values = flat(column)
                if pa.types.is_dictionary(values.type) and not pa.types.is_primitive(values.type.value_type):
                    length = pc.max(pc.binary_length(values.dictionary)).as_py() or 0
                    refuse_long(length, f"A row of {path}", name)
                    longest = max(longest, length)
            break
    return max(1, min(_ROWS_AT_A_TIME, _BYTES_OF_PARQUET // longest))


def _opened(path: Path) -> datasets.Dataset:
    """Return a saved dataset whose rows stay in its files."""
    from datasets import Dataset

    if path.is_dir():
        return Dataset.load_from_disk(str(path))
    return Dataset.from_file(str(path))


def _with_names(array: pa.Array, feature: Any) -> pa.Array:
    """Return a column of class ids (or of lists of them) as the names of the classes; any other as it is."""
    names = getattr(getattr(feature, "feature", feature), "names", None)
    if names is None:
        return array
    known = pa.array(names, pa.string())
    if not pa.types.is_integer(flat(array).type):
        return array
    return mapped_array(array, lambda ids: known.take(pc.if_else(pc.less(ids, 0), None, ids)))
