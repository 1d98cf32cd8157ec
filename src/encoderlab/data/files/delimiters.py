"""The delimiter of a csv or tsv file: set by the user, or found from its first line."""

from __future__ import annotations

import csv
from collections.abc import Collection
from pathlib import Path

from encoderlab.data.files.text_files import numbered_lines
from encoderlab.errors import SettingError

AUTO = "auto"
NAMED = {
    "comma": ",",
    "semicolon": ";",
    "tab": "\t",
    "pipe": "|",
}  # characters with a meaning of their own to a shell or Hydra
_EXCEL = "sep="  # the first line of a file may tell Excel its delimiter


def refuse_unusable(delimiter: str, setting: str) -> None:
    """Raise SettingError for a delimiter that cannot separate cells."""
    if delimiter != AUTO and delimiter not in NAMED and (len(delimiter) != 1 or delimiter in '"\r\n\0 '):
        raise SettingError(f"{setting} is {delimiter!r}", allowed=f"auto, {', '.join(NAMED)}, or one character")


def excel_delimiter(line: str) -> str | None:
    """Return the delimiter that a first line such as `sep=;` names; None for any other line."""
    text = line.rstrip("\r\n").strip('"')
    rest = text[len(_EXCEL) :] if text.lower().startswith(_EXCEL) else ""
    return rest if len(rest) == 1 else None


def delimiter_of(path: Path, encoding: str, chosen: str, usual: str, columns: Collection[str]) -> str:
    """Return the character that separates the cells of a file.

    With `auto` it is the one in its line `sep=`; otherwise `usual`, or the one of NAMED that gives the header all
    wanted `columns`; if none does, one that occurs in the header.
    """
    if chosen != AUTO:
        return NAMED.get(chosen, chosen)
    first = next((line for _, line in numbered_lines(path, "", encoding)), "")
    stated = excel_delimiter(first)
    if stated is not None:
        return stated
    candidates = [usual, *(one for one in NAMED.values() if one != usual)]
    named = (one for one in candidates if set(columns) <= set(_cells(first, one)))
    return next(named, None) or next((one for one in candidates if one in first), usual)


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # a cell longer than the module's limit
        return []
