"""Tables with a word in each row and a column that tells its sentence, such as Kaggle's `Sentence #`, as sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from encoderlab.system.messages import say_once
from encoderlab.tables.annotation_tools import Record

_ROWS_LOOKED_AT = 500
_NAME = re.compile(
    r"sent(ence)?s?[ _.]?(#|ids?|idx|index|no|nr|num|number|key)?|(doc|document)[ _.]?ids?", re.IGNORECASE
)
_NUMBERED = re.compile(r"(\S+ )?\S*[0-9]\S*")  # 7, s-7 or Sentence: 7
_LEAST_WORDS = 2  # columns besides that of the sentence: words and their labels


def as_sentences(records: Iterator[Record], path: Path) -> Iterator[Record]:
    """Return the records as they are, or of a table with a word in each row a record for each sentence, which is said.

    The columns of a sentence are lists with a cell for each word.
    """
    first = list(islice(records, _ROWS_LOOKED_AT))
    column = sentence_column([record for _, record in first])
    records = chain(first, records)
    if column is None:
        return records
    say_once(f"{path}: a word in each row, and its sentence in column {column!r}")
    return _sentences(records, column)


def sentence_column(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the column that tells which sentence each row belongs to; None if the rows are not single words.

    Its name says so, its values are numbers, and several rows follow each other with the same one (or with none below
    the first). The cells of at least two other columns are words.
    """
    if len(rows) < 2:
        return None
    names = [*rows[0]]
    words = [name for name in names if all(_is_word(row.get(name)) for row in rows)]
    for name in names:
        values = [_filled(row.get(name)) for row in rows]
        goes_on = any(value in ("", before) for before, value in zip(values, values[1:], strict=False))
        others = [word for word in words if word != name]
        are_numbered = bool(values[0]) and all(map(_NUMBERED.fullmatch, filter(None, values)))
        if _NAME.fullmatch(name.strip()) and are_numbered and goes_on and len(others) >= _LEAST_WORDS:
            return name
    return None


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and len(value.split()) == 1


def _filled(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _sentences(records: Iterator[Record], column: str) -> Iterator[Record]:
    """Yield a record for each sentence, with the number of its first row."""
    first = 0
    current = ""
    words: list[dict[str, Any]] = []
    for number, record in records:
        value = _filled(record.get(column))
        if words and value not in ("", current):
            yield first, _as_lists(words, column)
            words = []
        if not words:
            first = number
        current = value or current
        words.append(record)
    if words:
        yield first, _as_lists(words, column)


def _as_lists(words: Sequence[Mapping[str, Any]], column: str) -> dict[str, Any]:
    lists: dict[str, Any] = {name: [word.get(name) for word in words] for name in words[0] if name != column}
    return {column: words[0][column]} | lists
