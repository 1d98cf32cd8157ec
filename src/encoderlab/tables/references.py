"""Lists of references for screening: RIS, and PubMed's nbib, with the columns that ASReview reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from encoderlab.errors import DataError
from encoderlab.tables.annotation_tools import Record
from encoderlab.tables.formats import text_lines

_FIELD = re.compile(r"([A-Z][A-Z0-9]{1,3}) {0,2}- ?(.*)")  # TI  - A title, in both formats
_COLUMNS = {
    "title": ("TI", "T1"),
    "abstract": ("AB", "N2"),
    "keywords": ("KW", "OT"),
    "authors": ("AU", "A1"),
    "year": ("PY", "Y1", "DP"),
    "doi": ("DO", "LID"),
    "pmid": ("PMID", "AN"),
}
_LABEL = re.compile(r"ASReview_(relevant|irrelevant|not_seen)")  # notes of ASReview, in N1
_LABEL_OF = {"relevant": "1", "irrelevant": "0"}


def reference_rows(path: Path, encoding: str) -> Iterator[Record]:
    """Yield a row for each reference, with the number of its first line. Raises DataError if a file has none."""
    first = 0
    fields: dict[str, list[str]] = {}
    last = ""
    for number, line in enumerate(text_lines(path, encoding), start=1):
        match = _FIELD.match(line.lstrip("\ufeff"))
        tag = match[1] if match else ""
        if tag in ("TY", "PMID") and fields:  # a reference begins: the end of the one before may be missing
            yield first, _row(fields)
            fields = {}
        if match is None:
            if fields and line[:1].isspace() and line.strip() and last:
                fields[last][-1] += f" {line.strip()}"  # the field goes on
            continue
        if not fields:
            first = number
        if tag != "ER":
            fields.setdefault(tag, []).append(match[2].strip())
            last = tag
    if fields:
        yield first, _row(fields)
    elif not first:
        raise DataError(f"{path} holds no references", allowed="RIS, or PubMed's nbib")


def _row(fields: dict[str, list[str]]) -> dict[str, Any]:
    """Return the columns of a reference; `included` is what ASReview has noted."""
    row: dict[str, Any] = {}
    for column, tags in _COLUMNS.items():
        values = next((fields[tag] for tag in tags if fields.get(tag)), [])
        row[column] = "; ".join(values)
    notes = _LABEL.search(" ".join(fields.get("N1", [])))
    row["included"] = _LABEL_OF.get(notes[1], "") if notes else ""
    return row
