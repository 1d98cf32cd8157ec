"""Labelled words in files that are not CoNLL's by name: a word in each line of a table, or all words in a cell."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from encoderlab.errors import DataError
from encoderlab.tables.columns import Columns, Where, listed
from encoderlab.tables.formats import Format, encoding_of, text_lines
from encoderlab.tables.raw_rows import is_list

_LINES_LOOKED_AT = 200


def has_word_per_line(path: Path, kind: Format, encoding: str) -> bool:
    """Return whether a table or a text has CoNLL's shape: a word and its label in each line, blank lines between
    sentences, or an index that counts words.
    """
    if kind not in (Format.csv, Format.tsv, Format.txt):
        return False
    lines = list(islice(text_lines(path, encoding_of(path, encoding)), _LINES_LOOKED_AT))
    words = [line for line in lines if line.strip(" \t") and not line.startswith("#")]
    separator = "\t" if kind is Format.tsv else None
    rows = [line.split(separator) for line in words]
    widths = {len(row) for row in rows}
    if len(widths) != 1 or widths <= {0, 1} or any(" " in cell.strip(" ") for row in rows for cell in row):
        return False
    ends = any(not line.strip(" \t") for line in lines[:-1])
    return ends or any(line.startswith("#") for line in lines) or _are_tags({row[-1] for row in rows})


def _are_tags(values: set[str]) -> bool:
    from encoderlab.metrics.entities import entity_labels

    return entity_labels(sorted(values)) is not None


def guess_words(columns: Mapping[str, pa.Array], where: str, *, text: str | None, label: str | None) -> dict[str, str]:
    """Return the columns of words and of their labels, as far as `text` and `label` do not name them.

    They are lists, or cells with the same number of words in every row. Raises DataError with the candidates.
    """
    lists = {name: as_words(array) for name, array in columns.items() if _may_hold_words(array)}
    words = {name: array for name, array in lists.items() if name not in (label, "lemmas")}
    guesses: dict[str, str] = {}
    if text is None:
        known = [name for name in ("tokens", "words", "text", "sentence") if name in words]
        candidates = known or sorted(words, key=lambda name: -_n_letters(words[name]))
        if not candidates:
            problem = f"{where} has no column of words"
            raise DataError(problem, allowed="lists of words, or texts with a label for each word")
        guesses["text"] = text = candidates[0]
    if label is None:
        lengths = pc.list_value_length(lists[text]) if text in lists else None
        fitting = []
        for name, array in lists.items():
            if name != text and lengths is not None and pc.all(pc.equal(pc.list_value_length(array), lengths)).as_py():
                fitting.append(name)
        if len(fitting) != 1:
            held = "; ".join(f"{name} holds {listed(_values(lists[name]), most=5)}" for name in fitting)
            problem = f"{where} does not show which column holds the labels of the words in {text!r}"
            remedy = f"Set dataset.text={text} dataset.label={(fitting or ['COLUMN'])[0]}"
            raise DataError(problem, allowed=held or "a label for each word", remedy=remedy)
        guesses["label"] = fitting[0]
    return guesses


def _may_hold_words(array: pa.Array) -> bool:
    kind = array.type
    return is_list(array) or pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _n_letters(array: pa.Array) -> int:
    return sum(map(str.isalpha, "".join(map(str, pc.list_flatten(array).to_pylist()))))


def _values(array: pa.Array) -> list[str]:
    return sorted({str(value) for value in pc.list_flatten(array).to_pylist()})


def as_words(array: pa.Array) -> pa.Array:
    """Return cells as lists of words: a literal list is what it says, and any other text is split at white space."""
    if is_list(array):
        return array
    cells = array.to_pylist()
    return pa.array([None if cell is None else _words_of(cell) for cell in cells], pa.list_(pa.string()))


def _words_of(cell: str) -> list[str]:
    if cell.startswith("[") and cell.endswith("]"):
        literal = _literal(cell)
        if isinstance(literal, list):
            return [value if isinstance(value, str) else json.dumps(value) for value in literal]
    return cell.split()


def _literal(cell: str) -> Any:
    """Return the list of JSON or of Python that a text is; numpy's lists lack commas. None if it is none."""
    for read in (json.loads, ast.literal_eval):
        try:
            literal = read(cell)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        joined_by_python = isinstance(literal, list) and len(literal) == 1 and cell.count("'") > 2
        return cell[1:-1].replace("'", " ").split() if joined_by_python else literal
    return None


def with_words(arrays: dict[str, pa.Array], columns: Columns, where: Where) -> dict[str, pa.Array]:
    """Return the arrays with lists of words and of labels if a tagging task needs them.

    Raises DataError if the labels are those of whole texts.
    """
    if columns.target != "words" or "text" not in arrays:
        return arrays
    text = as_words(arrays["text"])
    if "label" not in arrays:
        return arrays | {"text": text}
    label = as_words(arrays["label"])
    if not is_list(arrays["label"]) and not is_list(arrays["text"]):
        n_labels = np.asarray(pc.list_value_length(label).fill_null(0))
        n_words = np.asarray(pc.list_value_length(text).fill_null(0))
        if (n_labels <= 1).all() and (n_words > 1).any():
            problem = f"The rows are texts with one label each ({where(0)}), but a tagging task needs one for each word"
            raise DataError(problem, remedy="Set task=classification, or choose a file of labelled words")
    return arrays | {"text": text, "label": label}
