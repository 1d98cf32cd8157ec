"""Files of labelled words, as CoNLL's shared tasks have them: a word per line, blank lines between sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from encoderlab.data.annotation_tools import Record
from encoderlab.data.columns import Columns
from encoderlab.data.formats import text_lines
from encoderlab.errors import DataError


def conll_sentences(path: Path, encoding: str, columns: Columns) -> Iterator[Record]:
    """Yield the sentences of a CoNLL-style file: a word per line with its columns, blank lines between sentences.

    Columns go by number: 0 is the first, -1 the last. By default the word is the first and its label the last. Comments
    and -DOCSTART- lines are no words, nor are the ranges and empty nodes in the ten columns of CoNLL-U.
    """
    words = (line for line in text_lines(path, encoding) if line.strip(" \t") and not line.startswith("#"))
    first_word = next(words, "")
    separator = "\t" if "\t" in first_word else None
    width = len(_cells(first_word, separator))
    at = {name: _column(path, setting, name, width, columns) for setting, name in columns.by_setting().items()}
    first = 0
    sentence: list[list[str]] = []
    for number, line in enumerate(chain(text_lines(path, encoding), [""]), start=1):  # a blank line ends the last one
        if not line.strip(" \t"):  # a no-break space or a form feed is a word
            if sentence:
                yield first, {name: [cells[index] for cells in sentence] for name, index in at.items()}
            sentence = []
            continue
        cells = _cells(line, separator)
        is_comment = line.startswith("#") and len(cells) != width
        is_range = width == 10 and re.fullmatch(r"[0-9]+[-.][0-9]+", cells[0])  # or an empty node
        if is_comment or is_range or cells[0] == "-DOCSTART-":
            continue
        if len(cells) != width or "" in cells:
            what = f"an empty column among {len(cells)}" if "" in cells else f"{len(cells)} columns"
            raise DataError(f"{path}, line {number} has {what}", allowed=f"{width} columns, like the first word")
        first = first if sentence else number
        sentence.append(cells)


def _cells(line: str, separator: str | None) -> list[str]:
    return line.split(separator) if separator else re.split(r"[ \t]+", line.strip(" \t"))


def _column(path: Path, setting: str, name: str, width: int, columns: Columns) -> int:
    """Return the index of the column that a setting names. Raises DataError if there is none."""
    number = {"text": "0", "label": "-1"}.get(setting, name) if name == setting else name
    if not re.fullmatch(r"-?[0-9]+", number) or not -width <= int(number) < width:
        problem = f"{path} has no column {name!r} ({columns.setting.format(setting)})"
        raise DataError(problem, allowed=f"a number from 0 to {width - 1}, or -1 for the last")
    return int(number)
