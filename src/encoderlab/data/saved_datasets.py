"""Folders that the library `datasets` has saved (`save_to_disk`), and its .arrow files, read by that library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from encoderlab.data.columns import Columns, can_be_carried, mapped_array, plain
from encoderlab.errors import DataError, one_line

if TYPE_CHECKING:
    import datasets

_ROWS_AT_A_TIME = 1024
_GROWTH = 100  # times as large unpacked: the buffers of a file may be compressed
_MUCH = 2**28  # bytes: so much may come from files of any size


def saved_batches(path: Path, columns: Columns) -> Iterator[tuple[range, dict[str, pa.Array]]]:
    """Yield the rows of a saved dataset, each batch with its row numbers; classes by their names.

    Raises DataError if it cannot be read, or unpacks to far more than its size.
    """
    try:
        dataset = _opened(path)
        used = {*columns.by_setting().values()}
        names = []
        for name in columns.to_read(dataset.column_names, str(path)):
            if name in used or can_be_carried(dataset.features.arrow_schema.field(name).type):
                names.append(name)
        files = [path] if path.is_file() else [*path.iterdir()]
        most = max(_GROWTH * sum(file.stat().st_size for file in files), _MUCH)
        first = 1
        unpacked = 0
        tables: Any = dataset.select_columns(names).with_format("arrow").iter(_ROWS_AT_A_TIME)
        for table in tables:
            arrays = {}
            for name in names:
                array = plain(table[name].combine_chunks())
                arrays[name] = _with_names(array, dataset.features[name])
            unpacked += table.nbytes
            if unpacked > most:
                raise DataError(f"{path} unpacks to more than {_GROWTH} times its size", remedy="Save it again")
            yield range(first, first + len(table)), arrays
            first += len(table)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError) as error:
        problem = f"{path} is not a readable dataset: {one_line(str(error))}"
        raise DataError(problem, remedy="Save it again with the save_to_disk of datasets, or as parquet") from error


def _opened(path: Path) -> datasets.Dataset:
    """Return a dataset whose rows stay in its files."""
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
    return mapped_array(array, lambda ids: known.take(pc.if_else(pc.less(ids, 0), None, ids)))
