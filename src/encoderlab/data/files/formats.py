"""The formats of users' own files, and how a file's format is found."""

from __future__ import annotations

import glob
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from encoderlab.data.files.text_files import COMPRESSED
from encoderlab.errors import DataError, SettingError, closest


class Format(Enum):
    """How a file stores its examples; `auto` goes by its name."""

    auto = "auto"
    csv = "csv"
    tsv = "tsv"
    jsonl = "jsonl"
    parquet = "parquet"
    arrow = "arrow"
    excel = "excel"
    txt = "txt"
    conll = "conll"
    folder = "folder"


class Quoting(Enum):
    """What a double quote means in csv and tsv.

    `double`: a cell may be enclosed in quotes, and a quote inside it is doubled (RFC 4180). `literal`: a quote is a
    character like
        any other. `auto`: `double` for csv, `literal` for tsv, and both refused if the rows could be read either way.
    """

    auto = "auto"
    double = "double"
    literal = "literal"


class OnMissing(Enum):
    """What to do with rows without a text or a label."""

    error = "error"
    drop = "drop"


@dataclass(frozen=True)
class Dialect:
    """How files are to be read beyond what their names tell.

    `delimiter` and `encoding` are `auto` or what the user sets; `sheet` names a sheet of a workbook.
    """

    quoting: Quoting = Quoting.auto
    delimiter: str = "auto"
    encoding: str = "auto"
    sheet: str | None = None


AS_IT_SHOWS = Dialect()
_SUFFIXES = {
    ".csv": Format.csv,
    ".tsv": Format.tsv,
    ".tab": Format.tsv,
    ".jsonl": Format.jsonl,
    ".ndjson": Format.jsonl,
    ".parquet": Format.parquet,
    ".arrow": Format.arrow,
    ".feather": Format.arrow,
    ".xlsx": Format.excel,
    ".txt": Format.txt,
    ".conll": Format.conll,
    ".conllu": Format.conll,
    ".iob": Format.conll,
    ".iob2": Format.conll,
    ".bio": Format.conll,
}
_CONVERSIONS = {
    ".json": "If it has one object per line, rename it to .jsonl; otherwise convert it, with jq -c '.[]'",
    ".xls": "Save it as .xlsx or .csv",
    ".ods": "Save it as .xlsx or .csv",
    ".doc": "Save it as .txt, with one text per line",
    ".docx": "Save it as .txt, with one text per line",
    ".pdf": "Convert it to .txt, with one text per line",
    ".zip": "Unpack it",
}
BINARY = (Format.parquet, Format.arrow, Format.excel, Format.folder)


def absolute(given: Any, setting: str) -> str | list[str]:
    """Return a file, folder or pattern, or a list of them, as absolute paths. Raises SettingError if it is none of
    these.
    """
    if isinstance(given, list) and given and all(isinstance(one, str) for one in given):
        return [str(Path(one).expanduser().absolute()) for one in given]
    if not isinstance(given, str) or not given:
        raise SettingError(
            f"{setting} is {given!r}", allowed="a file, a folder, a pattern such as data/*.csv, or a list of files"
        )
    return str(Path(given).expanduser().absolute())


def paths_of(given: str | list[str], setting: str) -> list[Path]:
    """Return the files and folders that a path, a pattern or a list of them matches, sorted by name within a pattern.

    Raises DataError for a pattern without a match.
    """
    paths: list[Path] = []
    for one in [given] if isinstance(given, str) else given:
        matches = [one] if Path(one).exists() or not glob.has_magic(one) else _matches(Path(one))
        if not matches:
            raise DataError(
                f"{setting}={one} matches no file", remedy=f"Patterns start from {Path.cwd()}, unless they begin with /"
            )
        paths += [_seen_from_here(match) for match in matches]
    return paths


def _matches(pattern: Path) -> list[str]:
    return sorted(str(path) for path in Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor))))


def _seen_from_here(path: str) -> Path:
    """Return the path relative to the working folder if it is inside, so that messages are short."""
    absolute, here = Path(path), Path.cwd()
    return absolute.relative_to(here) if absolute.is_relative_to(here) else absolute


def format_of(path: Path, chosen: Format) -> Format:
    """Return the format of the file or folder at `path`, from its name unless it is `chosen`.

    Raises DataError if nothing is there, the name does not tell the format, or it is a folder where a file is expected
    (or a file where a folder is).
    """
    _refuse_missing(path)
    found = Format.folder if path.is_dir() else (_by_name(path) if chosen is Format.auto else chosen)
    if found is Format.folder and chosen not in (Format.auto, Format.folder):
        raise DataError(f"{path} is a folder", allowed=f"a {chosen.name} file", remedy="Choose the file inside it")
    if found is Format.folder and not path.is_dir():
        raise DataError(
            f"{path} is a file", allowed="a folder with one sub-folder per label", remedy="Remove dataset.format"
        )
    if found in BINARY and path.suffix in COMPRESSED:
        unpack = "gunzip" if path.suffix == ".gz" else "unzstd"
        raise DataError(
            f"{path} is compressed",
            allowed="csv, tsv, jsonl, txt or conll in .gz or .zst",
            remedy=f"Run {unpack} {path}",
        )
    return found


def _by_name(path: Path) -> Format:
    name = path.with_suffix("") if path.suffix in COMPRESSED else path
    if name.suffix.lower() not in _SUFFIXES:
        raise DataError(
            f"The extension of {path} does not tell its format",
            allowed=f"{', '.join(_SUFFIXES)}, or a folder",
            remedy=_CONVERSIONS.get(name.suffix.lower(), "Set dataset.format (csv, tsv, ...) or rename the file"),
        )
    return _SUFFIXES[name.suffix.lower()]


def _refuse_missing(path: Path) -> None:
    if path.exists():
        return
    names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    near = closest(path.name, names)
    remedy = (
        f"Did you mean {path.with_name(near)}?" if near else f"Paths start from {Path.cwd()}, unless they begin with /"
    )
    raise DataError(f"{path} does not exist", remedy=remedy)
