"""Text files, read line by line in a given encoding, with no more than a line in memory."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from encoderlab.errors import DataError, SettingError

if TYPE_CHECKING:
    from backports.zstd import ZstdFile

LONGEST_LINE = 2**24  # characters: four times the Bible
ENCODINGS = "UTF-8, UTF-16 with a byte-order mark, or Windows-1252"
UTF_8 = "utf-8-sig"  # with or without a byte-order mark
COMPRESSED = (".gz", ".zst")
_BLOCK = 2**17  # bytes unpacked at a time
BROKEN = "\ud800"  # a lone surrogate, which no decoder returns: marks what cannot be decoded
codecs.register_error("encoderlab.broken", lambda error: (BROKEN, cast(UnicodeDecodeError, error).end))


def place(path: Path, line: int) -> str:
    """Return how messages name a line."""
    return f"{path}, line {line}"


def numbered_lines(path: Path, newline: str, encoding: str = UTF_8) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file (or of one in .gz or .zst), counted from 1, each with its line end.

    `newline` is that of `open`: "" accepts any line end, a line feed only that. `encoding` is Python's name, see
    `encodings.encoding_of`. Raises DataError if the file cannot be read or decoded, contains a NUL byte or a line of
    LONGEST_LINE characters, or unpacks to more than `most_unpacked` bytes.
    """
    with readable(path, encoding), bytes_of(path) as stream:
        text = io.TextIOWrapper(stream, encoding=encoding, newline=newline)
        for number, line in enumerate(iter(partial(text.readline, LONGEST_LINE), ""), start=1):
            if "\0" in line:
                raise DataError(f"{place(path, number)} contains a NUL byte", allowed=f"text in {ENCODINGS}")
            if len(line) == LONGEST_LINE:
                raise DataError(
                    f"{place(path, number)} is longer than {LONGEST_LINE:,} characters",
                    allowed="one text per line",
                    remedy="Check that it is the right file",
                )
            yield number, line


def plain_lines(path: Path, encoding: str = UTF_8) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file without their ends, counted from 1; raises as `numbered_lines` does.

    A line ends with a line feed, with or without a carriage return before it; or all lines end with a carriage return
    alone. Nothing else ends a line: no form feed, no U+2028. Raises DataError if line ends of both kinds occur.
    """
    alone: bool | None = None
    for number, line in numbered_lines(path, "", encoding):
        text = line.removesuffix("\n").removesuffix("\r")
        if text != line:
            if alone not in (None, line.endswith("\r")):
                end = "a line feed" if alone else "a carriage return alone"
                raise DataError(
                    f"{place(path, number)} ends with {end}, unlike the lines before",
                    remedy="End all lines alike: a carriage return inside a text would cut it in two",
                )
            alone = line.endswith("\r")
        yield number, text


def whole_text(path: Path, encoding: str = UTF_8) -> str:
    """Return the whole content of a text file, unchanged; raises as `numbered_lines` does."""
    return "".join(line for _, line in numbered_lines(path, "", encoding))


def most_unpacked(path: Path) -> int:
    """Return how many bytes a compressed file may become: 50 times its own and 64 MiB, and 4 GiB if it has less than a
    GiB.

    Texts become 3 to 20 times as large. A file that becomes larger was made to fill the memory, or is better unpacked
    first.
    """
    size = path.stat().st_size
    return min(2**26 + 50 * size, max(2**32, 4 * size))


class _Unpacked(io.RawIOBase):
    """The content of a .gz or .zst file, as long as it stays within its limit."""

    def __init__(self, path: Path) -> None:
        self.path, self.most, self._taken = path, most_unpacked(path), 0
        self._file, self._broken = _unpacking(path)

    def readable(self) -> bool:
        """Return True, as `io.BufferedReader` requires."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read for `io.BufferedReader`. Raises DataError if the file is damaged, and beyond `most` bytes."""
        try:
            content = self._file.read1(len(buffer))
        except self._broken as error:
            kind = "gzip" if self.path.suffix == ".gz" else "Zstandard"
            raise DataError(
                f"{self.path} is not a complete {kind} file: {error}", remedy="Compress it again, or unpack it"
            ) from error
        self._taken += len(content)
        if self._taken > self.most:
            unpack = "gunzip" if self.path.suffix == ".gz" else "unzstd"
            raise DataError(
                f"{self.path} unpacks to more than {self.most:,} bytes",
                allowed="50 times the file's own size and 64 MiB",
                remedy=f"If that is intended, unpack it with {unpack} and use the result",
            )
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        """Close the file; `with` does it."""
        self._file.close()
        super().close()


def _unpacking(path: Path) -> tuple[gzip.GzipFile | ZstdFile, tuple[type[Exception], ...]]:
    """Return a compressed file, unpacked as it is read, and the exceptions that it raises if it is incomplete."""
    if path.suffix == ".gz":
        return gzip.GzipFile(path, "rb"), (EOFError, zlib.error, gzip.BadGzipFile)
    try:
        from backports import zstd  # Python's own from 3.14 on
    except ImportError:
        remedy = "Run pip install 'encoderlab[zstd]', or unpack it with unzstd"
        raise SettingError(
            f"{path} is compressed by Zstandard, and backports.zstd is not installed", remedy=remedy
        ) from None
    return zstd.ZstdFile(path, "rb"), (EOFError, zstd.ZstdError)


def bytes_of(path: Path) -> io.BufferedReader:
    """Open a file, unpacked if it is a .gz or .zst file. Raises SettingError if the library that unpacks it is not
    installed.
    """
    return io.BufferedReader(_Unpacked(path), _BLOCK) if path.suffix in COMPRESSED else path.open("rb")


@contextmanager
def readable(path: Path, encoding: str, setting: str = "dataset.encoding") -> Iterator[None]:
    """Raise DataError if a file read within this context cannot be read or decoded; `setting` chooses the encoding."""
    try:
        yield
    except UnicodeError as error:
        line = 1  # such as one that lacks the byte-order mark of its encoding
        if isinstance(error, UnicodeDecodeError):
            line = next((number for number, text in marked_lines(path, encoding) if BROKEN in text), 1)
        raise DataError(
            f"{place(path, line)} cannot be decoded as {shown(encoding)}",
            allowed=ENCODINGS,
            remedy=f"Set {setting} to the encoding it was written in",
        ) from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error


def marked_lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file, counted from 1, with BROKEN in place of anything that cannot be decoded."""
    with bytes_of(path) as stream:
        text = io.TextIOWrapper(stream, encoding=encoding, errors="encoderlab.broken", newline="")
        yield from enumerate(iter(partial(text.readline, LONGEST_LINE), ""), start=1)


def shown(encoding: str) -> str:
    """Return the common name of one of Python's encodings."""
    return {UTF_8: "UTF-8", "cp1252": "Windows-1252"}.get(encoding, encoding.upper())
