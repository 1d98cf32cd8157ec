"""The token store: named columns of numbers, flat on disk and memory-mapped, so that a batch is a vectorised gather.

A ragged column keeps the numbers of all rows in one flat file and the offset of each row in a second one. Nothing is
read until a batch needs it, and memory does not grow with the corpus.

The store knows nothing about examples: `tasks.rows` turns encoded examples into columns, and columns into batches.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from encoderlab.errors import DataError
from encoderlab.system.files import atomic_write

SHAPE = "store.json"
ROWS_AT_A_TIME = 10_000


@dataclass(frozen=True, slots=True)
class Column:
    """A ragged column: row i is `values[offsets[i]:offsets[i + 1]]`."""

    values: np.ndarray
    offsets: np.ndarray

    def lengths(self) -> np.ndarray:
        """Return how many numbers each row has."""
        return np.diff(self.offsets)

    def gather(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of `rows` in a flat array, one row after the other, and how many each has. Integers come
        as int64.
        """
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        return self.stretches(starts, lengths), lengths

    def stretches(self, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return `lengths` numbers from each of `starts`, one stretch after the other in a flat array; integers come as
        int64.
        """
        begins = np.cumsum(lengths) - lengths  # where each stretch begins in the result
        places = np.arange(lengths.sum()) + np.repeat(starts - begins, lengths)
        found = self.values[places]
        return found if found.dtype.kind == "f" else found.astype(np.int64)


class TokenStore:
    """The columns of some examples: see `write_store` and `memory_store`."""

    def __init__(self, rows: int, columns: Mapping[str, Column]) -> None:
        self._rows, self._columns = rows, columns

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __contains__(self, name: str) -> bool:
        return name in self._columns


Rows = Iterable[Mapping[str, Sequence[float]]]
Block = Mapping[str, tuple[np.ndarray, np.ndarray]]  # some rows: each column's numbers, flat, and how many each row has


def open_store(folder: Path) -> TokenStore:
    """Open the store that `write_store` wrote to `folder`, memory-mapped.

    Raises DataError if a file is missing, or has the wrong size.
    """
    try:
        shape = json.loads((folder / SHAPE).read_text(encoding="utf-8"))
        whole = _file_sizes(folder, shape["columns"]) == shape["bytes"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(folder) from error
    if not whole:
        raise _damaged(folder)
    return TokenStore(
        shape["rows"], {name: _open_column(folder, name, dtype) for name, dtype in shape["columns"].items()}
    )


def memory_store(columns: Mapping[str, str], rows: Sequence[Mapping[str, Sequence[float]]]) -> TokenStore:
    """Return a store of a few rows in memory; `columns` as for `write_store`."""
    made = {}
    for name, dtype in columns.items():
        flat, lengths = _flatten(rows, name, dtype)
        made[name] = Column(flat, np.concatenate([[0], lengths]).cumsum())
    return TokenStore(len(rows), made)


def write_store(folder: Path, columns: Mapping[str, str], rows: Rows) -> TokenStore:
    """Write `rows` to `folder` and open it.

    `columns` names each column and its NumPy dtype, the smallest its numbers fit in (uint16 for up to 65,536 ids). The
    folder appears whole or not at all.
    """
    return write_blocks(folder, columns, _as_blocks(rows, columns))


def write_blocks(folder: Path, columns: Mapping[str, str], blocks: Iterable[Block]) -> TokenStore:
    """Write rows that come in blocks, with arrays of the dtypes in `columns`; see `write_store`. One block is in memory
    at once.
    """
    try:
        with atomic_write(folder) as temporary:
            temporary.mkdir(parents=True)
            count = _write_columns(temporary, columns, blocks)
            shape = {"rows": count, "columns": dict(columns), "bytes": _file_sizes(temporary, columns)}
            (temporary / SHAPE).write_text(json.dumps(shape), encoding="utf-8")
    except OSError:
        if not (folder / SHAPE).exists():  # otherwise another process has already written the same
            raise
    return open_store(folder)


def kept_store(folder: Path, make: Callable[[Path], TokenStore]) -> TokenStore:
    """Return the store in `folder`, or the one that `make` writes there. A damaged one is deleted and rebuilt, with a
    message.
    """
    if folder.exists():
        try:
            return open_store(folder)
        except DataError:
            print(f"The token store {folder} is damaged and is being rebuilt.", file=sys.stderr)
            shutil.rmtree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    return make(folder)


def _as_blocks(rows: Rows, columns: Mapping[str, str]) -> Iterator[Block]:
    rows = iter(rows)
    while some := list(islice(rows, ROWS_AT_A_TIME)):
        yield {name: _flatten(some, name, dtype) for name, dtype in columns.items()}


def _write_columns(folder: Path, columns: Mapping[str, str], blocks: Iterable[Block]) -> int:
    with ExitStack() as files:
        writers = {name: _ColumnWriter(files, *_files_of(folder, name), dtype) for name, dtype in columns.items()}
        for block in blocks:
            for name, (values, lengths) in block.items():
                writers[name].write(values, lengths)
        counts = {writer.finish() for writer in writers.values()}
    assert len(counts) == 1, "every column has the same number of rows"
    return counts.pop()


class _ColumnWriter:
    """Writes a column block by block: its numbers to one file and, in NumPy's format, the offsets of its rows to
    another.
    """

    def __init__(self, files: ExitStack, values: Path, offsets: Path, dtype: str) -> None:
        self._values: BinaryIO = files.enter_context(values.open("wb"))
        self._offsets: BinaryIO = files.enter_context(offsets.open("wb"))
        self._dtype, self._rows, self._end = np.dtype(dtype), 0, 0
        self._head()
        self._begins = self._offsets.tell()
        self._offsets.write(np.zeros(1, np.int64).tobytes())

    def write(self, values: np.ndarray, lengths: np.ndarray) -> None:
        """Write some rows."""
        assert values.dtype == self._dtype, f"{values.dtype} written as {self._dtype}"
        ends = np.cumsum(lengths, dtype=np.int64) + self._end
        self._values.write(values.tobytes())
        self._offsets.write(ends.tobytes())
        self._rows, self._end = self._rows + len(lengths), self._end + len(values)
        assert not len(ends) or ends[-1] == self._end, "the lengths do not add up to the numbers"

    def finish(self) -> int:
        """Write the number of rows to the file's header, and return it."""
        self._offsets.seek(0)
        self._head()
        assert self._offsets.tell() == self._begins, "NumPy leaves room in its header for any length"
        return self._rows

    def _head(self) -> None:
        shape = {
            "descr": np.lib.format.dtype_to_descr(np.dtype(np.int64)),
            "fortran_order": False,
            "shape": (self._rows + 1,),
        }
        np.lib.format.write_array_header_1_0(self._offsets, shape)


def _flatten(rows: Sequence[Mapping[str, Sequence[float]]], name: str, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return one column of the rows as a flat array, and how many numbers each row has."""
    values = [row[name] for row in rows]
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    return np.fromiter(chain.from_iterable(values), dtype, int(lengths.sum())), lengths


def _open_column(folder: Path, name: str, dtype: str) -> Column:
    values, offsets = _files_of(folder, name)
    empty = values.stat().st_size == 0  # an empty file cannot be mapped
    return Column(
        np.empty(0, dtype) if empty else np.memmap(values, dtype=dtype, mode="r"), np.load(offsets, mmap_mode="r")
    )


def _files_of(folder: Path, name: str) -> tuple[Path, Path]:
    """Return the paths of a column's numbers, and of its rows' offsets."""
    return folder / f"{name}.bin", folder / f"{name}.offsets.npy"


def _file_sizes(folder: Path, columns: Iterable[str]) -> dict[str, int]:
    return {path.name: path.stat().st_size for name in columns for path in _files_of(folder, name)}


def _damaged(folder: Path) -> DataError:
    return DataError(f"The cache folder {folder} is damaged", remedy="Delete it; it will be rebuilt")
