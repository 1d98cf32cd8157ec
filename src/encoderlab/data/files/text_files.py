"""Text files, line by line, in the encoding they are said to have; never more than a line in memory."""

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
BROKEN = "\ud800"  # half a character, which no decoder gives: marks what cannot be decoded
codecs.register_error("encoderlab.broken", lambda error: (BROKEN, cast(UnicodeDecodeError, error).end))


def place(path: Path, line: int) -> str:
    """How messages name a line."""
    return f"{path}, line {line}"


def numbered_lines(path: Path, newline: str, encoding: str = UTF_8) -> Iterator[tuple[int, str]]:
    """The lines of a text file (or of one in .gz or .zst), counted from 1, each with its end as it stands.

    `newline` is that of `open`: "" takes any end, a line feed that alone. `encoding` is Python's name of it, see
    `encodings.encoding_of`. Raises DataError where the file cannot be read or decoded, holds a NUL byte or a line of LONGEST_LINE
    characters, or unpacks to more than `most_unpacked` bytes.
    """
    with readable(path, encoding), bytes_of(path) as stream:
        text = io.TextIOWrapper(stream, encoding=encoding, newline=newline)
        for number, line in enumerate(iter(partial(text.readline, LONGEST_LINE), ""), start=1):
            if "\0" in line:
                raise DataError(f"{place(path, number)} holds a NUL byte", allowed=f"text in {ENCODINGS}")
            if len(line) == LONGEST_LINE:
                raise DataError(
                    f"{place(path, number)} goes on for more than {LONGEST_LINE:,} characters",
                    allowed="a text in each line",
                    remedy="Check that it is the right file",
                )
            yield number, line


def plain_lines(path: Path, encoding: str = UTF_8) -> Iterator[tuple[int, str]]:
    """The lines of a text file without their ends, counted from 1; refused as in `numbered_lines`.

    A line ends with a line feed, with or without a carriage return before it; or all of them end with a carriage return alone.
    Nothing else ends a line: no form feed, no U+2028. Raises DataError where a carriage return alone stands among other ends.
    """
    alone: bool | None = None
    for number, line in numbered_lines(path, "", encoding):
        text = line.removesuffix("\n").removesuffix("\r")
        if text != line:
            if alone not in (None, line.endswith("\r")):
                end = "a line feed" if alone else "a carriage return alone"
                raise DataError(
                    f"{place(path, number)} ends with {end}, and the lines before do not",
                    remedy="End all lines alike: a carriage return inside a text would cut it in two",
                )
            alone = line.endswith("\r")
        yield number, text


def whole_text(path: Path, encoding: str = UTF_8) -> str:
    """The whole content of a text file, as it stands; refused as in `numbered_lines`."""
    return "".join(line for _, line in numbered_lines(path, "", encoding))


def most_unpacked(path: Path) -> int:
    """How many bytes a compressed file may become: 50 times its own and 64 MiB, and 4 GiB where it has less than a GiB.

    Texts become 3 to 20 times as large. What becomes larger was made to fill the memory, or is better unpacked first.
    """
    size = path.stat().st_size
    return min(2**26 + 50 * size, max(2**32, 4 * size))


class _Unpacked(io.RawIOBase):
    """The content of a .gz or .zst file, as long as it stays within bounds."""

    def __init__(self, path: Path) -> None:
        self.path, self.most, self._taken = path, most_unpacked(path), 0
        self._file, self._broken = _unpacking(path)

    def readable(self) -> bool:
        """What `io.BufferedReader` asks first."""
        return True

    def readinto(self, buffer: Any) -> int:
        """What `io.BufferedReader` reads with. Raises DataError where the file is damaged, and beyond `most` bytes."""
        try:
            content = self._file.read1(len(buffer))
        except self._broken as error:
            kind = "gzip" if self.path.suffix == ".gz" else "Zstandard"
            raise DataError(f"{self.path} is no whole {kind} file: {error}", remedy="Write it again, or unpack it") from error
        self._taken += len(content)
        if self._taken > self.most:
            unpack = "gunzip" if self.path.suffix == ".gz" else "unzstd"
            raise DataError(
                f"{self.path} unpacks to more than {self.most:,} bytes",
                allowed="50 times the file's own size and 64 MiB",
                remedy=f"If it is meant so, unpack it with {unpack} and name the file it gives",
            )
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        """Close the file; `with` does it."""
        self._file.close()
        super().close()


def _unpacking(path: Path) -> tuple[gzip.GzipFile | ZstdFile, tuple[type[Exception], ...]]:
    """A compressed file, unpacked as it is read, and what is raised where it is not whole."""
    if path.suffix == ".gz":
        return gzip.GzipFile(path, "rb"), (EOFError, zlib.error, gzip.BadGzipFile)
    try:
        from backports import zstd  # Python's own from 3.14 on
    except ImportError:
        remedy = "Run pip install 'encoderlab[zstd]', or unpack it with unzstd"
        raise SettingError(f"{path} is compressed by Zstandard, and backports.zstd is not installed", remedy=remedy) from None
    return zstd.ZstdFile(path, "rb"), (EOFError, zstd.ZstdError)


def bytes_of(path: Path) -> io.BufferedReader:
    """The content of a file, or of one in .gz or .zst unpacked. Raises SettingError where what unpacks it is not installed."""
    return io.BufferedReader(_Unpacked(path), _BLOCK) if path.suffix in COMPRESSED else path.open("rb")


@contextmanager
def readable(path: Path, encoding: str) -> Iterator[None]:
    """Read a file in here; raises DataError where it cannot be read or decoded."""
    try:
        yield
    except UnicodeDecodeError as error:
        line = next((number for number, text in marked_lines(path, encoding) if BROKEN in text), 1)
        raise DataError(
            f"{place(path, line)} cannot be decoded as {shown(encoding)}",
            allowed=ENCODINGS,
            remedy="Set dataset.encoding to the encoding it was written in",
        ) from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error


def marked_lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """The lines of a file, counted from 1, with BROKEN in place of whatever cannot be decoded."""
    with bytes_of(path) as stream:
        text = io.TextIOWrapper(stream, encoding=encoding, errors="encoderlab.broken", newline="")
        yield from enumerate(iter(partial(text.readline, LONGEST_LINE), ""), start=1)


def shown(encoding: str) -> str:
    """What people call an encoding of Python's."""
    return {UTF_8: "UTF-8", "cp1252": "Windows-1252"}.get(encoding, encoding.upper())
