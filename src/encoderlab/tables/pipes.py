"""Pipes that are named as files, such as /dev/stdin, <(zcat rows.csv.gz) or a FIFO: read once, and kept.

A file is read several times here: its encoding, the first rows, all rows. A pipe gives its bytes to one reader once.
"""

from __future__ import annotations

import shutil
import stat
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from encoderlab.errors import DataError
from encoderlab.system.messages import name_file, say

_STARTS = {b"PAR1": ".parquet", b"PK\3\4": ".xlsx", b"{": ".jsonl", b"[": ".json"}  # of files; others are csv
_copies: list[TemporaryDirectory[str]] = []  # removed when the process ends


def readable_again(path: Path) -> Path:
    """Return a path as it is, or of a pipe the path of its copy, with an extension that names the format.

    Raises DataError if it cannot be read.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return path
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)) and str(path) != "/dev/stdin":
        return path
    return _copied(path)


@cache
def _copied(path: Path) -> Path:
    folder = TemporaryDirectory(prefix="encoderlab-pipe-")
    _copies.append(folder)
    copy = Path(folder.name) / path.name
    try:
        with path.open("rb") as pipe, copy.open("wb") as file:
            shutil.copyfileobj(pipe, file)
        with copy.open("rb") as file:
            start = file.read(100).lstrip(b"\xef\xbb\xbf \t\r\n")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    if not start:
        raise DataError(f"{path} is empty", remedy="A pipe can be read only once: give the rows again")
    if path.suffix:
        name_file(str(copy), str(path))
        return copy
    extension = next((ending for first, ending in _STARTS.items() if start.startswith(first)), ".csv")
    say(f"{path}: read as {extension.removeprefix('.')}")
    copy = copy.rename(copy.with_suffix(extension))
    name_file(str(copy), str(path))
    return copy
