"""The formats of users' own files: how format and encoding are found, their settings, and the lines of a text."""

from __future__ import annotations

import codecs
import glob
import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any

from encoderlab.errors import DataError, SettingError, closest, one_line
from encoderlab.system.files import expanded
from encoderlab.system.messages import say, say_once
from encoderlab.tables.foreign_files import refuse_other, refuse_other_exports
from encoderlab.tables.pipes import readable_again
from encoderlab.tables.remote import is_url, local_files

AUTO = "auto"
FASTTEXT_LABEL = "__label__"  # before each label of a line
COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_GROWTH = 100  # times as large unpacked
_MUCH = 100_000_000  # bytes: so much may be unpacked from a file of any size
_WESTERN = "cp1252"
_SHOWN = 60  # characters of a line that is not UTF-8


class Format(Enum):
    """How a file stores its examples; `auto` goes by its name."""

    auto = "auto"
    csv = "csv"
    tsv = "tsv"
    jsonl = "jsonl"
    json = "json"
    parquet = "parquet"
    excel = "excel"
    txt = "txt"
    fasttext = "fasttext"
    arrow = "arrow"
    conll = "conll"
    references = "references"
    statistics = "statistics"
    folder = "folder"


WITHOUT_COLUMNS = (Format.txt, Format.fasttext, Format.conll, Format.folder)


class Quoting(Enum):
    """What a double quote means in csv and tsv."""

    auto = "auto"  # by the file; one is refused if stray quotes may have merged its rows
    double = "double"  # a cell may be enclosed in quotes, and a quote inside it is doubled (RFC 4180)
    backslash = "backslash"  # a cell may be enclosed in quotes, and a quote inside it follows a backslash (MySQL)
    literal = "literal"  # a character like any other


class OnMissing(Enum):
    """What to do with rows without a text or a label."""

    leave = "leave"
    error = "error"
    drop = "drop"
    keep = "keep"


@dataclass(frozen=True)
class Dialect:
    """How files are to be read beyond what their names tell; `sheet` names a sheet of a workbook.

    `header` is the number of the row with the names of columns, `none`, or `auto`: see tables/headers.py.
    """

    quoting: Quoting = Quoting.auto
    encoding: str = AUTO
    sheet: str | None = None
    header: str = AUTO

    def completed_by(self, trained: Dialect) -> Dialect:
        """Return the dialect of new texts: what is left open is as in training, except the encoding."""
        quoting = trained.quoting if self.quoting is Quoting.auto else self.quoting
        return Dialect(quoting, self.encoding, self.sheet or trained.sheet, self.header)


@dataclass(frozen=True)
class FileKind:
    """What is read: a format, the endings of its files, and the library that knows it."""

    format: Format
    suffixes: tuple[str, ...]
    library: str


# docs/train_on_your_data.md has a row for each.
KINDS = (
    FileKind(Format.csv, (".csv",), "csv"),
    FileKind(Format.tsv, (".tsv", ".tab"), "csv"),
    FileKind(Format.excel, (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), "python-calamine"),
    FileKind(Format.jsonl, (".jsonl", ".ndjson"), "json"),
    FileKind(Format.json, (".json",), "json"),
    FileKind(Format.parquet, (".parquet",), "pyarrow"),
    FileKind(Format.arrow, (".arrow", ".feather", ".ipc"), "pyarrow"),
    FileKind(Format.statistics, (".sav", ".zsav", ".por", ".dta", ".sas7bdat", ".xpt"), "pyreadstat"),
    FileKind(Format.references, (".ris", ".nbib"), "encoderlab"),
    FileKind(Format.conll, (".conll", ".conllu", ".iob", ".iob2", ".bio"), "encoderlab"),
    FileKind(Format.txt, (".txt",), "encoderlab"),
    FileKind(Format.fasttext, (), "encoderlab"),
    FileKind(Format.folder, (), "encoderlab"),
)
LIBRARY_OF = {kind.format: kind.library for kind in KINDS}
_BY_SUFFIX = {suffix: kind.format for kind in KINDS for suffix in kind.suffixes}


def refuse_unknown(encoding: str, setting: str) -> None:
    """Raise SettingError if Python has no text encoding of that name."""
    try:
        "".encode("utf-8" if encoding == AUTO else encoding)
    except (LookupError, ValueError) as error:
        allowed = "auto, utf-8, utf-16, cp1252, latin-1, shift_jis, ..."
        raise SettingError(f"{setting}={encoding} is not an encoding", allowed=allowed) from error


def refuse_other_headers(header: str, setting: str) -> None:
    """Raise SettingError unless a header is `auto`, `none` or the number of a row."""
    if header not in (AUTO, "none") and not re.fullmatch(r"[1-9][0-9]{0,6}", header):
        allowed = "auto (by the first rows), none, or the number of the row with the names of the columns"
        raise SettingError(f"{setting}={header} is not valid", allowed=allowed)


def absolute(path: Any, setting: str) -> str | list[str]:
    """Return a file, folder, pattern or URL, or a list of them, as absolute paths, URLs as they are.

    Raises SettingError for anything else.
    """
    paths = [path] if isinstance(path, str) else path
    if not isinstance(paths, list) or not paths or not all(isinstance(name, str) and name for name in paths):
        allowed = "a file, a folder, a pattern such as data/*.csv, a URL, or a list of files"
        raise SettingError(f"{setting} is {path!r}", allowed=allowed)
    whole = [name if is_url(name) else str(expanded(name, setting).absolute()) for name in paths]
    return whole[0] if isinstance(path, str) else whole


def paths_of(paths: str | list[str], setting: str, cache_dir: Path) -> list[Path]:
    """Return the files and folders that match a path, a pattern or a list of them; of URLs, copies in `cache_dir`.

    Raises DataError if a pattern matches none, or a URL cannot be read.
    """
    files: list[Path] = []
    for pattern in [paths] if isinstance(paths, str) else paths:
        if is_url(pattern):
            files += local_files(pattern, cache_dir)
            continue
        matches = [Path(pattern)]
        if glob.has_magic(pattern) and not matches[0].exists():  # Path.glob refuses absolute patterns
            matches = sorted(map(Path, glob.glob(pattern, recursive=True)))  # noqa: PTH207
        matches = [*map(readable_again, matches)]
        if not matches:
            remedy = f"Patterns start from {Path.cwd()}, unless they begin with /"
            raise DataError(f"{setting}={pattern} matches no file", remedy=remedy)
        files += matches
    here = Path.cwd()  # paths inside it become relative, so that messages are short
    return [file.relative_to(here) if file.is_relative_to(here) else file for file in files]


def format_of(path: Path, kind: Format = Format.auto) -> Format:
    """Return the format of the file or folder at `path`, by its name unless `kind` says it. DataError in doubt."""
    if not path.exists():
        near = closest(path.name, [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else [])
        remedy = f"Did you mean {path.with_name(near)}?" if near else f"Relative paths start from {Path.cwd()}"
        raise DataError(f"{path} does not exist", remedy=remedy)
    if kind in (Format.auto, Format.tsv, Format.conll):
        refuse_other_exports(path)
    if path.is_dir():
        return _format_of_folder(path)
    name = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    if kind in (Format.auto, Format.folder):
        if name.suffix.lower() not in _BY_SUFFIX:
            refuse_other(path, is_known=False)
            problem = f"The format of {path} is unknown: its extension is {name.suffix or 'missing'}"
            remedy = "Set dataset.format (csv, tsv, ...), or save the file in one of these formats"
            raise DataError(problem, allowed=f"{', '.join(_BY_SUFFIX)}, or a folder", remedy=remedy)
        kind = _BY_SUFFIX[name.suffix.lower()]
    refuse_other(
        path, is_workbook=kind is Format.excel, is_binary=kind in (Format.parquet, Format.arrow, Format.statistics)
    )
    if kind not in (Format.json, Format.jsonl, Format.txt):
        return kind
    with _opened(path) as file:
        start = file.read(2**12).lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n")
    if kind is Format.txt:
        return Format.fasttext if start.startswith(FASTTEXT_LABEL.encode()) else kind
    return Format.jsonl if start.startswith(b"{") and _has_an_object_in_its_first_line(path) else Format.json


def _has_an_object_in_its_first_line(path: Path) -> bool:
    """Return whether a file of JSON has an object in its first line, and more below."""
    with _opened(path) as file:
        lines = (line for line in file if line.strip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n"))
        first = next(lines, b"").removeprefix(codecs.BOM_UTF8)
        try:
            return isinstance(json.loads(first), dict) and next(lines, None) is not None
        except (ValueError, RecursionError):
            second = next(lines, b"").lstrip()
            return second.startswith(b"{") and first.rstrip().endswith(b"}")


def _format_of_folder(path: Path) -> Format:
    """Return the format of a folder. Raises DataError for several splits of which none is named."""
    splits = saved_splits(path)
    if splits:
        problem = f"{path} holds {len(splits)} splits"
        raise DataError(problem, allowed=", ".join(splits), remedy=f"Name the folder of one: {path / splits[0]}")
    return Format.arrow if is_saved_dataset(path) else Format.folder


def is_saved_dataset(folder: Path) -> bool:
    """Return whether `Dataset.save_to_disk` has written the folder."""
    return (folder / "state.json").is_file() and (folder / "dataset_info.json").is_file()


def saved_splits(folder: Path) -> list[str]:
    """Return the splits of a folder that `DatasetDict.save_to_disk` has written; none of any other folder."""
    if not (folder / "dataset_dict.json").is_file():
        return []
    return sorted(entry.name for entry in folder.iterdir() if is_saved_dataset(entry))


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file, unpacked if it is in .gz, .zst or .bz2. Raises DataError within if it cannot be read."""
    import pyarrow as pa

    try:
        unpacked: Any = pa.input_stream(str(path), compression=COMPRESSED.get(path.suffix.lower()))
        with io.BufferedReader(unpacked, 2**17) as file:
            yield file
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} cannot be read: {one_line(str(error))}") from error


def lines_of(path: Path, encoding: str) -> Iterator[str]:
    """Yield the lines of a text file, each with its line feed. Raises DataError for anything but text."""
    try:
        with _opened(path) as file, io.TextIOWrapper(file, encoding=encoding, newline="\n") as text:
            for number, line in enumerate(text, start=1):
                if "\0" in line:
                    raise DataError(f"{path}, line {number} contains a NUL byte", allowed="a text file")
                yield line
    except UnicodeError as error:
        problem = f"{path} cannot be decoded as {encoding}: {error}"
        raise DataError(problem, remedy="Set the encoding (dataset.encoding) it was written in") from error


def text_lines(path: Path, encoding: str) -> Iterator[str]:
    """Yield the lines of a text file without their ends: a line feed, perhaps after a carriage return."""
    return (line.removesuffix("\n").removesuffix("\r") for line in lines_of(path, encoding))


def _refuse_bomb(path: Path) -> None:
    """Raise DataError if a compressed file unpacks to more than any text does; say how large it is if that is much."""
    unpacked = 0
    most = max(_GROWTH * path.stat().st_size, _MUCH)
    with _opened(path) as file:
        for block in iter(lambda: file.read(2**20), b""):  # before lines are read, since one line may be all
            unpacked += len(block)
            if unpacked > most:
                raise DataError(f"{path} unpacks to more than {_GROWTH} times its size", remedy="Unpack it yourself")
    if unpacked > _MUCH:
        say(f"{path} unpacks to {unpacked // 10**6:,} MB")


def encoding_of(path: Path, encoding: str = AUTO, setting: str = "dataset.encoding") -> str:
    """Return Python's name of the encoding of a text file; `setting` chooses it.

    With `auto` it is UTF-16 if the file begins with its byte-order mark, otherwise UTF-8, otherwise Windows-1252, with
    a warning that shows how the first such line reads. Raises DataError if some lines are UTF-8 and others are not, or
    if a compressed file unpacks to more than any text does.
    """
    if path.suffix.lower() in COMPRESSED:
        _refuse_bomb(path)
    if encoding != AUTO:
        return "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding

    stat = path.stat()
    return _encoding_by_lines(path, setting, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=64)  # a file is opened several times, and each time all of its lines would be decoded
def _encoding_by_lines(path: Path, setting: str, size: int, modified: int) -> str:
    """Return the encoding of a file by all of its lines: see `encoding_of`."""
    # The whole file is read: one line that is not UTF-8 decides, unless another line is.
    broken: tuple[int, bytes] | None = None  # the number of the first line that is not UTF-8, and where it is not
    has_utf_8 = False
    with _opened(path) as file:
        if file.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
        for number, line in enumerate(file, start=1):
            try:
                has_utf_8 |= not line.isascii() and bool(line.decode())
            except UnicodeDecodeError as error:
                broken = broken or (number, line[max(error.start - _SHOWN // 2, 0) :][:_SHOWN])
    if broken is None:
        return "utf-8-sig"

    number, line = broken
    shown = one_line(line.decode(_WESTERN, "replace").strip())
    if has_utf_8:
        remedy = f"Correct the line, or set {setting} to the encoding of the file"
        raise DataError(f"{path}, line {number} is not UTF-8, but other lines are", remedy=remedy)
    reads = f"is not UTF-8 and is read as Windows-1252, line {number} as {shown!r}"
    say_once(f"{path} {reads}. If that is wrong, set {setting}.")
    return _WESTERN
