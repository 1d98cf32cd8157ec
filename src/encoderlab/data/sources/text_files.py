"""Text files, line by line: decoded without guessing, or refused with the line that cannot be."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from encoderlab.errors import DataError

_ENCODINGS = "UTF-8, or UTF-16 with a byte-order mark"


def place(path: Path, line: int) -> str:
    """How messages name a line."""
    return f"{path}, line {line}"


def numbered_lines(path: Path, newline: str | None) -> Iterator[tuple[int, str]]:
    """The lines of a text file (or of a text file in .gz), counted from 1, each with its end.

    `newline` is that of `open`: what ends a line, and whether its end is translated. Raises DataError where the file cannot be
    read, decoded, or holds a NUL byte.
    """
    with _readable(path), _bytes_of(path) as stream:
        text = io.TextIOWrapper(stream, encoding=_encoding(stream), newline=newline)
        for number, line in enumerate(text, start=1):
            if "\0" in line:
                raise DataError(f"{place(path, number)} holds a NUL byte", allowed=f"text in {_ENCODINGS}")
            yield number, line


def whole_text(path: Path) -> str:
    """The whole content of a text file, as it stands; refused as in `numbered_lines`."""
    return "".join(line for _, line in numbered_lines(path, ""))


def _bytes_of(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def _encoding(stream: BinaryIO) -> str:
    mark = stream.read(2)
    stream.seek(0)
    return "utf-16" if mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        line, encoding = _undecodable_line(path)
        raise DataError(
            f"{place(path, line)} cannot be decoded as {encoding}",
            allowed=_ENCODINGS,
            remedy=f"Type iconv -f CP1252 -t UTF-8 {path} > converted{path.suffix}, with the encoding it was written in",
        ) from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is no whole gzip file: {error}", remedy="Write it again, or unpack it") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error


def _undecodable_line(path: Path) -> tuple[int, str]:
    with _bytes_of(path) as stream:
        encoding = _encoding(stream)
        content = stream.read()
    try:
        content.decode(encoding)
    except UnicodeDecodeError as error:
        before = content[: error.start].decode(encoding, errors="ignore")
        return len(re.findall(r"\r\n|\r|\n", before)) + 1, encoding.upper().removesuffix("-SIG")
    raise AssertionError(f"{path} changed while it was read")
