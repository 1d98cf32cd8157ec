"""The formats of users' own files, and which of them a file has."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from encoderlab.errors import DataError, closest


class Format(Enum):
    """How a file holds its examples; `auto` goes by its name."""

    auto = "auto"
    csv = "csv"
    tsv = "tsv"
    jsonl = "jsonl"
    parquet = "parquet"
    txt = "txt"
    conll = "conll"
    folder = "folder"


class Quoting(Enum):
    """What a double quote means in csv and tsv.

    `double`: a cell may stand in quotes, and a quote inside it is doubled (RFC 4180). `literal`: a quote is a character like any
    other. `auto`: csv as `double`, tsv as `literal`, and both refused where the rows could be read either way.
    """

    auto = "auto"
    double = "double"
    literal = "literal"


_SUFFIXES = {
    ".csv": Format.csv,
    ".tsv": Format.tsv,
    ".tab": Format.tsv,
    ".jsonl": Format.jsonl,
    ".ndjson": Format.jsonl,
    ".parquet": Format.parquet,
    ".txt": Format.txt,
    ".conll": Format.conll,
    ".conllu": Format.conll,
    ".iob": Format.conll,
    ".iob2": Format.conll,
    ".bio": Format.conll,
}
_BINARY = (Format.parquet, Format.folder)


def format_of(path: Path, chosen: Format) -> Format:
    """The format of the file or folder at `path`, from its name unless it is `chosen`.

    Raises DataError where nothing is there, the name tells no format, or a folder stands where a file is meant (or a file where a
    folder is).
    """
    _refuse_missing(path)
    found = Format.folder if path.is_dir() else (_by_name(path) if chosen is Format.auto else chosen)
    if found is Format.folder and chosen not in (Format.auto, Format.folder):
        raise DataError(f"{path} is a folder", allowed=f"a {chosen.name} file", remedy="Name the file inside it")
    if found is Format.folder and not path.is_dir():
        raise DataError(f"{path} is a file", allowed="a folder with one sub-folder per label", remedy="Leave dataset.format out")
    if found in _BINARY and path.suffix == ".gz":
        raise DataError(f"{path} is compressed", allowed="csv, tsv, jsonl, txt or conll under .gz", remedy=f"Run gunzip {path}")
    return found


def _by_name(path: Path) -> Format:
    name = path.with_suffix("") if path.suffix == ".gz" else path
    if name.suffix.lower() not in _SUFFIXES:
        raise DataError(
            f"The name of {path} does not tell its format",
            allowed=f"{', '.join(_SUFFIXES)}, or a folder",
            remedy="Set dataset.format=csv, or whichever it is, or rename the file",
        )
    return _SUFFIXES[name.suffix.lower()]


def _refuse_missing(path: Path) -> None:
    if path.exists():
        return
    names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    near = closest(path.name, names)
    remedy = f"Did you mean {path.with_name(near)}?" if near else f"Paths start from {Path.cwd()}, unless they begin with /"
    raise DataError(f"{path} does not exist", remedy=remedy)
