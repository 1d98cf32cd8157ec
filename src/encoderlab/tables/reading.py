"""How a file of rows is read: what decides it is found by pure functions of its first rows, and is kept with the run.

The rules are in the modules of each decision: the container (formats.py), the grammar and the header of a grid
(csv_files.py, headers.py), the columns (columns.py), what a cell holds (label_cells.py), and spellings and codes of
labels (spellings.py). A `Reading` is what they decided about a file, for people and for the run's folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from encoderlab.system.messages import as_named
from encoderlab.tables.columns import Columns
from encoderlab.tables.csv_files import grammar_of, header_of_file
from encoderlab.tables.formats import LIBRARY_OF, Dialect, Format, encoding_of

_MOST_NAMES = 12
ENCODINGS = {"utf-8-sig": "UTF-8", "utf-16": "UTF-16", "cp1252": "Windows-1252"}
OF_TEXT = (Format.csv, Format.tsv, Format.jsonl, Format.json, Format.txt, Format.fasttext, Format.conll)


@dataclass(frozen=True)
class Reading:
    """What was decided about a file; a line for each decision.

    `labels` says what a cell of the label column holds, `spellings` has the spelling that each other one is read as,
    `no_answer` the values that mean no label.
    """

    file: str
    container: str
    header: str
    texts: list[str]
    text_pair: str | None = None
    label: str | None = None
    labels: str = "one label"
    spellings: dict[str, str] = field(default_factory=dict)
    no_answer: list[str] = field(default_factory=list)
    not_read: list[str] = field(default_factory=list)

    def lines(self) -> list[tuple[str, str]]:
        """Return what was decided, and how, for people; without what no file of this kind has."""
        others = self.not_read[:_MOST_NAMES] + ["..."] * (len(self.not_read) > _MOST_NAMES)
        spellings = [f"{other!r} as {label!r}" for other, label in self.spellings.items()]
        lines = [
            ("file", as_named(self.file)),
            ("container", self.container),
            ("header", self.header),
            ("texts", " and ".join(self.texts)),
            ("second text", self.text_pair or ""),
            ("labels", self.label or ""),
            ("a cell of labels", self.labels if self.label else ""),
            ("read as other labels", ", ".join(spellings[:_MOST_NAMES])),
            ("no answer", ", ".join(self.no_answer)),
            ("not read", ", ".join(others)),
        ]
        return [(name, value) for name, value in lines if value]

    def as_json(self) -> dict[str, Any]:
        """Return what is kept with the run: what the file has, without what it lacks."""
        return {name: value for name, value in asdict(self).items() if value not in (None, [], {}, "")}


def reading_of(
    path: Path, kind: Format, columns: Columns, dialect: Dialect, names: Sequence[str], decided: Mapping[str, Any]
) -> Reading:
    """Return how a file is read. `names` are all its columns; `decided` is what its labels decided.

    Raises DataError as reading it does.
    """
    container = kind.value
    header = "names of its own"
    if kind in OF_TEXT:
        encoding = encoding_of(path, dialect.encoding)
        container += f", {ENCODINGS.get(encoding, encoding)}"
    if kind in (Format.csv, Format.tsv):
        grammar = grammar_of(path, kind, columns, dialect, encoding)
        container += f", {grammar.described()}"
        header = header_of_file(path, grammar, columns, dialect).described()
    if kind is Format.excel:
        container = f"sheet {dialect.sheet!r}" if dialect.sheet else "the only sheet"
        header = "the first row with the names" if dialect.header == "auto" else f"row {dialect.header}"
    if kind not in OF_TEXT:
        container += f", read by {LIBRARY_OF[kind]}"
    used = {*columns.by_setting().values()}
    return Reading(
        file=str(path),
        container=container,
        header=header,
        texts=list(columns.parts),
        text_pair=columns.text_pair,
        label=columns.label or ", ".join(columns.label_columns) or None,
        not_read=[name for name in names if name not in used],
        **decided,
    )
