"""The token store: named columns of numbers, flat on disk and memory-mapped, so that a batch is a vectorised gather.

A ragged column keeps the numbers of all rows in one flat file and where each row begins in a second one. Nothing is
read until a batch needs it, and memory does not grow with the corpus. A store carries the hashes of its files: one that
is damaged, or of another version, is rebuilt.

The store knows nothing about examples: `data.tokens` fills it with the ids of whole texts, and tasks make batches of
them.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from encoderlab.errors import DataError
from encoderlab.system.files import MANIFEST, atomic_write, differing_files, write_manifest

SHAPE = "store.json"


@dataclass(frozen=True, slots=True)
class Column:
    """A ragged column: row i is `values[offsets[i]:offsets[i + 1]]`."""

    values: np.ndarray
    offsets: np.ndarray

    def lengths(self) -> np.ndarray:
        """Return how many numbers each row has."""
        return np.diff(self.offsets)

    def gather(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of `rows`, one row after the other, and how many each has; integers come as int64."""
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        return self.stretches(starts, lengths), lengths

    def stretches(self, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return `lengths` numbers from each of `starts`, one stretch after the other; integers come as int64."""
        numbers = self.values[indices_of(starts, lengths)]
        return numbers if numbers.dtype.kind == "f" else numbers.astype(np.int64)


def indices_of(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return starts[0], starts[0] + 1, ... (lengths[0] numbers), then the numbers from starts[1], and so on."""
    begins = np.cumsum(lengths) - lengths  # where each stretch begins in the result
    return np.arange(lengths.sum()) + np.repeat(starts - begins, lengths)


class TokenStore:
    """The columns of some examples: see `write_store` and `memory_store`."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())).offsets) - 1

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.columns


Block = Mapping[str, tuple[np.ndarray, np.ndarray]]  # some rows: each column's numbers, flat, and how many each row has


def id_type(vocabulary_size: int) -> str:
    """Return the smallest NumPy dtype that holds every id."""
    return "uint16" if vocabulary_size <= 2**16 else "uint32"


def memory_store(columns: Mapping[str, str], blocks: Iterable[Block]) -> TokenStore:
    """Return a store in memory of rows that come in blocks; `columns` as for `write_store`."""
    parts = list(blocks)
    held = {}
    for name, dtype in columns.items():
        values = [numbers for numbers, _ in (part[name] for part in parts)]
        lengths = [counts for _, counts in (part[name] for part in parts)]
        offsets = np.concatenate([np.zeros(1, np.int64), *lengths]).cumsum()
        held[name] = Column(np.concatenate([np.empty(0, dtype), *values]), offsets)
    return TokenStore(held)


def write_store(folder: Path, columns: Mapping[str, str], blocks: Iterable[Block]) -> TokenStore:
    """Write rows that come in blocks to `folder`, one block in memory at once, and open it.

    `columns` names each column and its NumPy dtype, the smallest its numbers fit in (uint16 for up to 65,536 ids). The
    folder appears whole or not at all, with a manifest of its files' hashes.
    """
    try:
        with atomic_write(folder) as temporary:
            temporary.mkdir(parents=True)
            _write_columns(temporary, columns, blocks)
            (temporary / SHAPE).write_text(json.dumps({"columns": dict(columns)}), encoding="utf-8")
            write_manifest(temporary, [SHAPE, *_file_names(columns)])
    except OSError:
        if not (folder / MANIFEST).exists():  # otherwise another process has already written the same
            raise
    return open_store(folder)


def _write_columns(folder: Path, columns: Mapping[str, str], blocks: Iterable[Block]) -> None:
    """Append each block's numbers, and where its rows end, to the two files of each column."""
    with ExitStack() as stack:
        values = {}
        offsets = {}
        for name in columns:
            values_path, offsets_path = _files_of(folder, name)
            values[name] = stack.enter_context(values_path.open("wb"))
            offsets[name] = stack.enter_context(offsets_path.open("wb"))
            offsets[name].write(np.zeros(1, np.int64).tobytes())
        ends = dict.fromkeys(columns, 0)
        for block in blocks:
            for name, (numbers, lengths) in block.items():
                assert numbers.dtype == columns[name], f"{numbers.dtype} written as {columns[name]}"
                values[name].write(numbers.tobytes())
                offsets[name].write((np.cumsum(lengths, dtype=np.int64) + ends[name]).tobytes())
                ends[name] += len(numbers)


def open_store(folder: Path) -> TokenStore:
    """Open the store in `folder`, memory-mapped. Raises DataError if a file is missing or differs from its hash."""
    damaged = DataError(f"The cache folder {folder} is damaged", remedy="Delete it; it will be rebuilt")
    try:
        columns = json.loads((folder / SHAPE).read_text(encoding="utf-8"))["columns"]
        expected = [SHAPE, *_file_names(columns)]
    except (OSError, ValueError, KeyError, TypeError):
        raise damaged from None
    if differing_files(folder, expected):
        raise damaged
    opened = {}
    for name, dtype in columns.items():
        values, offsets = _files_of(folder, name)
        is_empty = values.stat().st_size == 0
        numbers = np.empty(0, dtype) if is_empty else np.memmap(values, dtype, "r")  # an empty file cannot be mapped
        opened[name] = Column(numbers, np.memmap(offsets, np.int64, "r"))
    return TokenStore(opened)


def kept_store(folder: Path, make: Callable[[Path], TokenStore]) -> TokenStore:
    """Return the store in `folder`; if there is none, or it is damaged, the one that `make` writes there."""
    if folder.exists():
        try:
            return open_store(folder)
        except DataError:
            print(f"The token store {folder} is damaged and is being rebuilt.", file=sys.stderr)
            shutil.rmtree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    return make(folder)


def _files_of(folder: Path, name: str) -> tuple[Path, Path]:
    """Return the paths of a column's numbers, and of where its rows begin."""
    return folder / f"{name}.bin", folder / f"{name}.offsets.bin"


def _file_names(columns: Iterable[str]) -> list[str]:
    return [path.name for name in columns for path in _files_of(Path(), name)]
