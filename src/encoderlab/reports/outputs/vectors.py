"""Vectors on disk: a NumPy array that grows while it is written, and an index with what each of its rows represents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
from numpy.lib import format as npy

from encoderlab.errors import DataError, SettingError
from encoderlab.system.files import atomic_write

SUFFIX = ".npy"
INDEX_SUFFIX = ".index.jsonl"


def index_of(output: Path) -> Path:
    """Return the path of the index of the array at `output`, next to it."""
    return output.with_suffix(INDEX_SUFFIX)


def check_output(output: str) -> None:
    """Raise SettingError for a name that does not end in .npy, or if an array or its index exists."""
    path = Path(output)
    if path.suffix != SUFFIX:
        wrong = f"output={output} does not end in {SUFFIX}" if output else "output is empty"
        raise SettingError(wrong, allowed=f"a file that ends in {SUFFIX}", remedy="Set output=vectors.npy")
    there = next((file for file in (path, index_of(path)) if file.exists()), None)
    if there is not None:
        raise SettingError(f"output={output}: {there} already exists", remedy="Choose another name")


class VectorFile:
    """Writes vectors of `width` numbers in any order, each at its place, so that only a batch is in memory."""

    def __init__(self, array: BinaryIO, index: TextIO, width: int) -> None:
        self._array, self._index, self._width = array, index, width
        self.n_rows = self.n_vectors = 0
        self._write_header()
        self._start = array.tell()

    def reserve(self, lines: Sequence[Mapping[str, Any]], counts: Sequence[int] | None = None) -> list[int]:
        """Reserve space for rows of `counts` vectors each (None: one each), and write their lines to the index, in this
        order.

        Return the place of each row's first vector. With `counts`, the row's line has it as `start`.
        """
        places = []
        for line, count in zip(lines, counts or [1] * len(lines), strict=True):
            numbers = {"row": self.n_rows} | ({} if counts is None else {"start": self.n_vectors})
            self._index.write(json.dumps(numbers | dict(line), ensure_ascii=False) + "\n")
            places.append(self.n_vectors)
            self.n_rows += 1
            self.n_vectors += count
        return places

    def put(self, place: int, vectors: np.ndarray) -> None:
        """Write [vectors, width] from `place`, as float32."""
        assert vectors.shape[1:] == (self._width,) and place + len(vectors) <= self.n_vectors
        self._array.seek(self._start + 4 * self._width * place)
        self._array.write(np.ascontiguousarray(vectors, dtype="<f4").data)

    def finish(self) -> None:
        """Write the number of vectors to the array's header, where NumPy leaves room for it."""
        self._array.seek(0)
        self._write_header()
        assert self._array.tell() == self._start

    def _write_header(self) -> None:
        header = {"descr": "<f4", "fortran_order": False, "shape": (self.n_vectors, self._width)}
        npy.write_array_header_1_0(self._array, header)


@contextmanager
def vector_file(output: Path, width: int) -> Iterator[VectorFile]:
    """Open a new array at `output` with its index next to it: both appear at the end or, on an error, neither.

    Raises DataError if they cannot be written.
    """
    with atomic_write(output) as array_temporary, atomic_write(index_of(output)) as index_temporary:
        try:
            with (
                array_temporary.open("wb") as array,
                index_temporary.open("w", encoding="utf-8", newline="\n") as index,
            ):
                file = VectorFile(array, index, width)
                yield file
                file.finish()
        except OSError as error:
            raise DataError(
                f"output={output} cannot be written: {error.strerror}", remedy="Choose another folder"
            ) from None
