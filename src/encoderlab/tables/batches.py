"""Rows on their way from a file to a table: gathered into lists, and kept in memory or in a mapped file."""

from __future__ import annotations

import mmap
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from encoderlab.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

IN_MEMORY = 64 * 2**20  # bytes of rows that stay in memory; more are kept in a mapped file
Item = TypeVar("Item")
_mappings: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()  # of the files with many rows


def stored(batches: Iterable[pa.RecordBatch], folder: Path | None) -> pa.Table:
    """Return batches of one schema as a table: in memory up to `IN_MEMORY` bytes, beyond that in a mapped file.

    The file is in `folder` (None: everything stays in memory) and has no name, so it is gone when nothing reads it any
    more, even if the process is killed. Raises DataError if the folder cannot hold the rows, or if there are none.
    """
    import pyarrow as pa

    iterator = iter(batches)
    first = []
    n_bytes = 0
    for batch in iterator:
        first.append(batch)
        n_bytes += batch.nbytes
        if n_bytes > IN_MEMORY and folder is not None:
            break
    if n_bytes <= IN_MEMORY or folder is None:
        return pa.Table.from_batches(first)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            with pa.ipc.new_stream(file, first[0].schema) as stream:
                while first:
                    stream.write_batch(first.pop(0))
                for batch in iterator:
                    stream.write_batch(batch)
            file.flush()
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        problem = f"The cache folder {folder} cannot hold the rows: {error.strerror or error}"
        raise DataError(problem, remedy="Free some space there, or set cache_dir to another folder") from error
    _mappings.add(mapping)
    return pa.ipc.open_stream(pa.py_buffer(mapping)).read_all()


def release_pages() -> None:
    """Let the operating system take back the memory of mapped files, which it reads again when they are needed."""
    for mapping in _mappings:  # pages that were read count as memory of the process until they are given back
        mapping.madvise(mmap.MADV_DONTNEED)


def in_lists(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    """Yield the items in lists of `most`, the last one shorter."""
    yield from grouped(items, lambda _: 1, most)


def grouped(
    items: Iterable[Item], size_of: Callable[[Item], int], largest: int, most: int | None = None
) -> Iterator[list[Item]]:
    """Yield the items in lists that end with the item that brings their size to `largest`, or with the `most`th."""
    group: list[Item] = []
    size = 0
    for item in items:
        group.append(item)
        size += size_of(item)
        if size >= largest or len(group) == most:
            yield group
            group = []
            size = 0
    if group:
        yield group
