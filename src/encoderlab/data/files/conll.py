"""Sentences in CoNLL-style files: a word per line with its columns, a blank line between sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from encoderlab.data.files.tables import RowsOfFile
from encoderlab.data.files.text_files import place, plain_lines
from encoderlab.data.sources.columns import Rows, Wanted, listed, no_such_column
from encoderlab.data.spool import Spool
from encoderlab.errors import DataError

_CONLLU = [
    "id",
    "form",
    "lemma",
    "upos",
    "xpos",
    "feats",
    "head",
    "deprel",
    "deps",
    "misc",
]  # universaldependencies.org/format
_NAMED = "# global.columns ="  # CoNLL-U Plus names its columns on the first line
_LOOKED_AT = 1000  # lines
_DEFAULTS = {
    "text": ("text", 0),
    "label": ("label", -1),
}  # in files without column names: the word is first, its label last


@dataclass(frozen=True)
class _Layout:
    separator: str | None  # None: runs of spaces and tabs
    width: int
    names: list[str]
    header: int  # the line that names the columns; 0 if none does
    conllu: bool = False


def read_conll(path: Path, wanted: Wanted, encoding: str, spool: Spool) -> Rows:
    """Read the sentences of a file. Columns go by name if the file names them, otherwise by number (0 is the first, -1
    the last).

    Comments (lines that begin with # and are narrower or wider than the others), -DOCSTART- lines, and the ranges and
    empty nodes of CoNLL-U (ids 3-4, 5.1) are skipped. Raises DataError at any other line of a different width.
    """
    if wanted.text_pair is not None:
        raise DataError(f"{path} holds single sentences, not pairs", remedy="Set dataset.text_pair=null")
    layout = _layout(path, wanted, encoding)
    columns = [_column(path, layout, wanted, setting) for setting in wanted.settings()]
    rows = RowsOfFile(path, spool, list(wanted.settings()))
    for line, sentence in _sentences(path, layout, encoding):
        rows.add(line, [[cells[column] for cells in sentence] for column in columns])
    return rows.finish()


def holds_columns(path: Path, encoding: str) -> bool:
    """Return whether a text file's first lines look like words with equally many columns, and blank lines between
    sentences.
    """
    blank, widths = False, set()
    for _, line in islice(plain_lines(path, encoding), _LOOKED_AT):
        if not line.strip(" \t"):
            blank = True
        elif not line.startswith("#"):
            widths.add(len(_cells(line, "\t" if "\t" in line else None)))
    return blank and len(widths) == 1 and 1 not in widths


def _sentences(path: Path, layout: _Layout, encoding: str) -> Iterator[tuple[int, list[list[str]]]]:
    """Yield each sentence as its words' cells, with the line of its first word."""
    begin, sentence = 0, []
    for number, line in plain_lines(path, encoding):
        if line.strip(" \t"):  # a no-break space or a form feed is a word
            cells = _cells(line, layout.separator)
            if number == layout.header or _no_word(cells, layout):
                continue
            if len(cells) != layout.width or "" in cells:
                found = f"an empty column among {len(cells)}" if "" in cells else f"{len(cells)} columns"
                raise DataError(
                    f"{place(path, number)} has {found}", allowed=f"{layout.width} columns, like the first word"
                )
            begin = begin if sentence else number
            sentence.append(cells)
        elif sentence:
            yield begin, sentence
            sentence = []
    if sentence:
        yield begin, sentence


def _no_word(cells: list[str], layout: _Layout) -> bool:
    comment = cells[0].startswith("#") and len(cells) != layout.width
    return (
        comment
        or cells[0] == "-DOCSTART-"
        or (layout.conllu and re.fullmatch(r"[0-9]+[-.][0-9]+", cells[0]) is not None)
    )


def _layout(path: Path, wanted: Wanted, encoding: str) -> _Layout:
    named_so = ".conllu" in path.suffixes[-2:]  # also in .gz or .zst
    names = _CONLLU if named_so else []
    for number, line in plain_lines(path, encoding):
        if line.startswith(_NAMED):
            names = line.removeprefix(_NAMED).lower().split()
        if not line.strip(" \t") or line.startswith("#"):
            continue
        separator = "\t" if "\t" in line else None
        cells = _cells(line, separator)
        if not names and set(wanted.settings().values()) <= set(cells):
            return _Layout(separator, len(cells), cells, number)
        conllu = named_so or (not names and separator is not None and _is_conllu(cells))
        return _Layout(separator, len(cells), _CONLLU if conllu else names, 0, conllu)
    raise DataError(f"{path} has no sentences", allowed="a word and its label per line, a blank line between sentences")


def _is_conllu(cells: list[str]) -> bool:
    """Return whether the first line of words is CoNLL-U, whatever the file's name: ten columns, with an id in the
    first.
    """
    return len(cells) == len(_CONLLU) and re.fullmatch(r"1|1-[0-9]+|0\.1", cells[0]) is not None


def _cells(line: str, separator: str | None) -> list[str]:
    return line.split("\t") if separator else re.split(r"[ \t]+", line.strip(" \t"))


def _column(path: Path, layout: _Layout, wanted: Wanted, setting: str) -> int:
    """Return the index of the column that a setting names."""
    name = wanted.settings()[setting]
    default, index = _DEFAULTS[setting]
    if name.lower() in layout.names or name in layout.names:
        return layout.names.index(name if name in layout.names else name.lower())
    if re.fullmatch(r"-?[0-9]+", name) and -layout.width <= int(name) < layout.width:
        return int(name)
    if name == default and layout.names == _CONLLU:
        return _CONLLU.index("form" if setting == "text" else "upos")
    if name == default and not layout.names:
        return index
    numbers = [str(number) for number in range(layout.width)]
    if layout.names:
        raise no_such_column(str(path), wanted, setting, [*layout.names, *numbers])
    raise DataError(
        f"{path} does not name its columns, so there is no column {name!r}",
        allowed=listed([*numbers, "-1 for the last"]),
        remedy=f"Set {wanted.typed.format(setting)}={layout.width - 1 if setting == 'label' else 0}",
    )
