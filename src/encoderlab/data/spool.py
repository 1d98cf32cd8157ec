"""Arrow batches on their way from files to tables: in memory while they are few, otherwise in a temporary file that is
mapped.
"""

from __future__ import annotations

import mmap
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from encoderlab.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

IN_MEMORY = 64 * 2**20  # bytes


class Spool:
    """Takes in the batches of one file after another.

    Those that exceed `IN_MEMORY` bytes in total go to a file in `folder`. It has no name, so it is gone once nothing
    reads it any more, even if the process is killed. Without a folder, everything stays in memory.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._free = folder, IN_MEMORY
        self._batches: list[pa.RecordBatch] = []
        self._file: IO[bytes] | None = None
        self._starts: list[int] = []
        self._stream: tuple[pa.RecordBatchStreamWriter, pa.Schema] | None = None
        self._content: pa.Buffer | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch; its types may differ from those of the one before. Raises DataError if the folder has no space
        for it.
        """
        self._batches.append(batch)
        self._free -= batch.nbytes
        if self._free < 0 and self._folder is not None:
            with _errors_explained(self._folder):
                self._write(self._folder)

    def finish(self) -> list[pa.RecordBatch]:
        """Return all batches that were added since the last call. Raises DataError as `add` does."""
        found = []
        if self._starts and self._folder is not None:
            with _errors_explained(self._folder):
                found = self._mapped()
        found, self._batches, self._starts = found + self._batches, [], []
        return found

    def _write(self, folder: Path) -> None:
        """Write the batches in memory. As long as types stay the same, they go to one stream, which repeats no
        dictionary.
        """
        import pyarrow as pa

        if self._file is None:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  closed with the spool
            weakref.finalize(self, _close, self._file)
        for batch in self._batches:
            if self._stream is None or self._stream[1] != batch.schema:
                self._end_stream()
                self._starts.append(self._file.tell())
                self._stream = pa.ipc.new_stream(self._file, batch.schema), batch.schema
            self._stream[0].write_batch(batch)
        self._free += sum(batch.nbytes for batch in self._batches)
        self._batches = []

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._stream[0].close()
        self._stream = None

    def _mapped(self) -> list[pa.RecordBatch]:
        import pyarrow as pa

        assert self._file is not None, "what has a start was written"
        self._end_stream()
        self._file.flush()
        end = self._file.tell()
        content = self._content
        if content is None or end > len(content):
            # A mapping costs a file descriptor. Doubling the length, whose unwritten end takes no space, makes them
            # few.
            self._file.truncate(2 * end)
            self._content = content = pa.py_buffer(_PAGES.map(self._file))
        return [batch for start in self._starts for batch in pa.ipc.open_stream(content.slice(start))]


@contextmanager
def _errors_explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            f"The cache folder {folder} cannot hold the rows: {error.strerror}",
            remedy="Free some space there, or set cache_dir to another folder",
        ) from error


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # a full disk refuses what is still buffered, and `add` said so
        file.close()


class _Pages:
    """The pages of mapped files. One that was read counts as memory of the process until the system takes it back."""

    def __init__(self) -> None:
        self._mappings: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
        self._read = 0

    def map(self, file: IO[bytes]) -> mmap.mmap:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._mappings.add(mapping)
        return mapping

    def count_read(self, n_bytes: int) -> None:
        self._read += n_bytes
        if self._read > IN_MEMORY:
            self._read = 0
            for mapping in self._mappings:
                mapping.madvise(mmap.MADV_DONTNEED)


_PAGES = _Pages()  # a process has one memory, however many tables it reads


def count_read(n_bytes: int) -> None:
    """Count bytes that were read from tables. After `IN_MEMORY` of them, give back the pages of mapped ones, to be read
    again.
    """
    _PAGES.count_read(n_bytes)
