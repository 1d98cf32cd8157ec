"""The formats of users' own files: how a file's format is found, and the settings that say how it is read."""

from __future__ import annotations

import glob
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from encoderlab.errors import DataError, SettingError, closest

AUTO = "auto"
DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}  # characters special to a shell or Hydra
COMPRESSED = (".gz", ".zst", ".bz2")


class Format(Enum):
    """How a file stores its examples; `auto` goes by its name."""

    auto = "auto"
    csv = "csv"
    tsv = "tsv"
    jsonl = "jsonl"
    json = "json"
    parquet = "parquet"
    arrow = "arrow"
    excel = "excel"
    txt = "txt"
    conll = "conll"
    folder = "folder"


class Quoting(Enum):
    """What a double quote means in csv and tsv.

    `double`: a cell may be enclosed in quotes, and a quote inside it is doubled (RFC 4180). `literal`: a quote is a
    character like any other. `auto`: `double`, but a file is refused if stray quotes may have merged its rows.
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
    delimiter: str = AUTO
    encoding: str = AUTO
    sheet: str | None = None


_SUFFIXES = {
    Format.csv: (".csv",),
    Format.tsv: (".tsv", ".tab"),
    Format.jsonl: (".jsonl", ".ndjson"),
    Format.json: (".json",),
    Format.parquet: (".parquet",),
    Format.arrow: (".arrow",),
    Format.excel: (".xlsx",),
    Format.txt: (".txt",),
    Format.conll: (".conll", ".conllu", ".iob", ".iob2", ".bio"),
}
_BY_SUFFIX = {suffix: kind for kind, suffixes in _SUFFIXES.items() for suffix in suffixes}


def refuse_unusable(delimiter: str, setting: str) -> None:
    """Raise SettingError for a delimiter that cannot separate cells."""
    if delimiter != AUTO and delimiter not in DELIMITERS and (len(delimiter) != 1 or delimiter in '"\r\n\0 '):
        raise SettingError(f"{setting} is {delimiter!r}", allowed=f"auto, {', '.join(DELIMITERS)}, or one character")


def refuse_unknown(encoding: str, setting: str) -> None:
    """Raise SettingError if Python has no text encoding of that name."""
    try:
        known = encoding == AUTO or "".encode(encoding) is not None
    except (LookupError, ValueError):
        known = False
    if not known:
        allowed = "auto, utf-8, utf-16, cp1252, latin-1, shift_jis, ..."
        raise SettingError(f"{setting}={encoding} is not an encoding", allowed=allowed)


def absolute(path: Any, setting: str) -> str | list[str]:
    """Return a file, folder or pattern, or a list of them, as absolute paths. Raises SettingError for anything else."""
    paths = [path] if isinstance(path, str) else path
    if not isinstance(paths, list) or not paths or not all(isinstance(one, str) and one for one in paths):
        allowed = "a file, a folder, a pattern such as data/*.csv, or a list of files"
        raise SettingError(f"{setting} is {path!r}", allowed=allowed)
    found = [str(Path(one).expanduser().absolute()) for one in paths]
    return found[0] if isinstance(path, str) else found


def paths_of(paths: str | list[str], setting: str) -> list[Path]:
    """Return the files and folders that a path, a pattern or a list of them matches, sorted by name within a pattern.

    Those inside the working folder are relative to it, so that messages are short. Raises DataError for a pattern
    without a match.
    """
    found: list[Path] = []
    for one in [paths] if isinstance(paths, str) else paths:
        path, is_pattern = Path(one), glob.has_magic(one) and not Path(one).exists()
        pattern = path.relative_to(path.anchor)
        matches = sorted(Path(path.anchor).glob(str(pattern))) if is_pattern else [path]
        if not matches:
            remedy = f"Patterns start from {Path.cwd()}, unless they begin with /"
            raise DataError(f"{setting}={one} matches no file", remedy=remedy)
        found += matches
    here = Path.cwd()
    return [one.relative_to(here) if one.is_relative_to(here) else one for one in found]


def format_of(path: Path, kind: Format = Format.auto) -> Format:
    """Return the format of the file or folder at `path`, by its name unless `kind` says it.

    Raises DataError if nothing is there, the name does not tell the format, or it is a folder where a file is expected
    (or a file where a folder is).
    """
    if not path.exists():
        near = closest(path.name, [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else [])
        remedy = f"Did you mean {path.with_name(near)}?" if near else f"Relative paths start from {Path.cwd()}"
        raise DataError(f"{path} does not exist", remedy=remedy)
    if path.is_dir() or kind is Format.folder:
        if kind not in (Format.auto, Format.folder) or not path.is_dir():
            is_what = "a folder" if path.is_dir() else "a file"
            raise DataError(f"{path} is {is_what}", allowed=f"dataset.format={kind.name}", remedy="Choose another path")
        return Format.folder
    name = path.with_suffix("") if path.suffix in COMPRESSED else path
    if kind is Format.auto:
        if name.suffix.lower() not in _BY_SUFFIX:
            raise DataError(
                f"The extension of {path} does not tell its format",
                allowed=f"{', '.join(_BY_SUFFIX)}, or a folder",
                remedy="Set dataset.format (csv, tsv, ...), rename the file, or save it in one of these formats",
            )
        kind = _BY_SUFFIX[name.suffix.lower()]
    if kind in (Format.parquet, Format.arrow, Format.excel) and path.suffix in COMPRESSED:
        raise DataError(f"{path} is compressed", allowed="csv, tsv, jsonl, txt or conll", remedy="Unpack it first")
    return kind
