"""A label column as people have it: cells become labels, each in one spelling, and codes for "no answer" none."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from encoderlab.errors import DataError
from encoderlab.settings import typed_list
from encoderlab.system.messages import say
from encoderlab.tables.columns import listed
from encoderlab.tables.label_cells import CellFormat, CellKind, cell_format, doubts, vector_length, vector_of
from encoderlab.tables.raw_rows import RawRows, flat, is_list, mapped
from encoderlab.tables.spellings import (
    WHOLE,
    codes_for_no_answer,
    form,
    one_spelling,
    same_numbers,
    spelled_out,
    whole_number,
)

_MOST_LAST_ROWS = 5  # of a total and notes below a table


def with_label_sets(
    rows: Mapping[str, RawRows], separator: str | None, names: Sequence[str], column: str
) -> tuple[dict[str, RawRows], CellFormat | None]:
    """Return the rows of each split with a list of labels in each row, each label once, and what cells hold.

    The training rows decide how a cell becomes labels (see label_cells.py), which is said; the format is None where the
    file itself has lists. Vectors of 0 and 1 need `names`. A row without a label has an empty list. Raises DataError.
    """
    if is_list(rows["train"].labels):
        return {name: _with_sets(part, _as_set) for name, part in rows.items()}, None
    values = {value: count for value, count in counts_of(rows["train"]).items() if value.strip()}
    n_vector = vector_length(values) if separator is None else 0
    if n_vector:
        return _with_named_vectors(rows, n_vector, names, column)

    # Cells as texts: what one holds, and what may be misread.
    format = cell_format(values, separator)
    file = file_of(rows["train"])
    if separator is None and format.kind is not CellKind.one:
        remedy = " (dataset.label_separator)" if format.kind is CellKind.separated else ""
        say(f"{file}: cells of column {column!r} hold {format.described()}{remedy}")
    for note in doubts(values, format):
        say(f"{file}: column {column!r}: {note}")
    by_split = {name: _with_sets(part, lambda cell: format.labels_of(cell or "")) for name, part in rows.items()}
    return by_split, format


def _with_sets(rows: RawRows, labels_of: Callable[[Any], list[str]]) -> RawRows:
    """Return the rows with the labels that each cell holds."""
    sets = pa.array(map(labels_of, rows.labels.to_pylist()), pa.list_(pa.string()))
    return rows.with_labels(pa.chunked_array([sets]))


def _as_set(cell: list[str | None] | None) -> list[str]:
    """Return the labels of a list, each once, without blank ones."""
    stripped = [(label or "").strip() for label in cell or []]
    return [label for label in dict.fromkeys(stripped) if label]


def _with_named_vectors(
    rows: Mapping[str, RawRows], length: int, names: Sequence[str], column: str
) -> tuple[dict[str, RawRows], CellFormat]:
    """Return the rows with the labels that vectors of 0 and 1 mark, in the order of `names`. Raises DataError."""
    format = CellFormat(CellKind.list)
    if len(names) != length:
        example = next(value for value in counts_of(rows["train"]) if value.strip())
        problem = f"{file_of(rows['train'])} has vectors of 0 and 1 in column {column!r}, such as {example}"
        letters = ",".join(f"label_{number}" for number in range(1, length + 1))
        remedy = f"Name their {length} labels in order: 'dataset.label_names=[{letters}]'"
        raise DataError(problem, allowed="names of labels", remedy=remedy)

    def marked(cell: str | None) -> list[str]:
        marks = vector_of(cell or "") or []
        return [name for name, mark in zip(names, marks, strict=False) if float(mark) == 1]

    return {name: _with_sets(part, marked) for name, part in rows.items()}, format


def with_single_labels(rows: Mapping[str, RawRows], column: str) -> dict[str, RawRows]:
    """Return the rows with the label of each list of one, as a program wrote it into a cell, and say so."""
    train = rows["train"]
    if is_list(train.labels):
        return dict(rows)
    format = cell_format(counts_of(train))
    if format.kind not in (CellKind.list, CellKind.marks, CellKind.tags, CellKind.hashtags):
        return dict(rows)
    cells = (cell for part in rows.values() for cell in counts_of(part))
    several = next((cell for cell in cells if len(format.labels_of(cell)) > 1), None)
    if several is not None:
        problem = f"{file_of(train)} has the label {several!r} in column {column!r}, which is several"
        raise DataError(problem, allowed="one label in each row", remedy="Use task=multilabel")
    say(f"{file_of(train)}: cells of column {column!r} hold {format.described()}, of which each has one")

    def label_of(cell: str | None) -> str | None:
        return next(iter(format.labels_of(cell or "")), None)

    unwrapped = {}
    for name, part in rows.items():
        labels = pa.array(map(label_of, part.labels.to_pylist()), pa.string())
        unwrapped[name] = part.with_labels(pa.chunked_array([labels]))
    return unwrapped


def without_codes(rows: RawRows, codes: Collection[str]) -> RawRows:
    """Return the rows with no label where it is one of the `codes` for "no answer": -99 and -99.0 are one code."""
    if not codes or "label" not in rows.table.column_names:
        return rows
    numbers = {whole[1] for whole in map(WHOLE.fullmatch, codes) if whole}
    forms = {*map(form, codes)}  # N/A and n/a are one code, too
    values = [value for value in counts_of(rows) if form(value) in forms or whole_number(value) in numbers]
    known = pa.array(values, pa.string())

    def left(values: pa.Array) -> pa.Array:
        return pc.if_else(pc.is_in(values, value_set=known), None, values)

    return rows.with_labels(mapped(rows.labels, left))


def with_one_spelling(
    rows: Mapping[str, RawRows], fixed: Collection[str], column: str
) -> tuple[dict[str, RawRows], dict[str, str]]:
    """Return the rows with one spelling of each label, and the other spellings with it, which is said.

    `fixed` are spellings that the settings state.
    """
    train = rows["train"]
    if is_list(train.table["text"]):
        return dict(rows), {}
    counts = Counter[str]()
    for part in rows.values():
        counts.update(counts_of(part))
    spelling_of = one_spelling(counts, fixed)
    _say_spellings(train, counts, spelling_of, fixed, column)
    if not is_list(train.labels):
        _say_last_rows(train, counts)
    if not spelling_of:
        return dict(rows), {}

    # Each label in its own spelling.
    before = pa.array([*spelling_of], pa.string())
    after = pa.array([*spelling_of.values()], pa.string())

    def respelled(values: pa.Array) -> pa.Array:
        index = pc.index_in(values, value_set=before)
        return pc.coalesce(after.take(index), values)

    by_split = {}
    for name, part in rows.items():
        labels = mapped(part.labels, respelled)
        by_split[name] = part.with_labels(labels)
    return by_split, spelling_of


def _say_spellings(
    train: RawRows, counts: Mapping[str, int], spelling_of: Mapping[str, str], fixed: Collection[str], column: str
) -> None:
    """Say which spellings are one, which labels are the same number, and which are probably codes for "no answer"."""
    file = file_of(train)
    if spelling_of:
        notes = []
        for other, common in spelling_of.items():
            notes.append(f"{spelled_out(other, common)} ({counts[other]:,} times) is read as {common!r}")
        say(f"{file}: labels that differ in spelling are one: {listed(notes)}")
    for pair in same_numbers({*counts} - {*spelling_of} - {*fixed})[:1]:
        say(f"{file}: column {column!r} has the labels {pair[0]!r} and {pair[1]!r}, the same number; they stay apart")
    by_label = Counter[str]()
    for value, count in counts_of(train).items():
        by_label[spelling_of.get(value, value)] += count
    codes = [code for code in codes_for_no_answer(by_label) if code not in fixed]
    if codes:
        times = listed(f"{code!r} ({by_label[code]:,} times)" for code in codes)
        setting = shlex.quote(f"dataset.no_answer={typed_list(codes)}")
        say(f"{file}: column {column!r} has the label {times}. If that means no answer, set {setting}")


def _say_last_rows(train: RawRows, counts: Mapping[str, int]) -> None:
    """Say which rows at the end have labels of their own, as totals and legends below a table have."""
    labels = train.labels
    at_end = []
    for row in range(len(labels) - 1, max(len(labels) - 2 - _MOST_LAST_ROWS, -1), -1):
        if counts.get(labels[row].as_py()) != 1:
            break
        at_end.insert(0, row)
    if not 0 < len(at_end) <= min(_MOST_LAST_ROWS, len(counts) // 2):
        return
    first = train.where(at_end[0])
    text = str(train.table["text"][at_end[0]].as_py())
    row = f"{first} ({text[:40]!r}, {labels[at_end[0]].as_py()!r})"
    words = "is the last row, and has" if len(at_end) == 1 else f"is the first of {len(at_end)} at the end that have"
    say(f"{row} {words} a label that no other row has: remove it if it is a total or a note")


def refuse_splits_without_labels(rows: Mapping[str, RawRows]) -> None:
    """Raise DataError if a split besides training has the same code instead of a label in every row."""
    known = counts_of(rows["train"])
    for name, part in rows.items():
        values = counts_of(part)
        if name != "train" and len(values) == 1 and not {*values} & {*known}:
            (value,) = values
            if codes_for_no_answer({**known, value: 1}):
                raise without_labels(f"{file_of(part)} has the label {value!r} in every row", name)


def without_labels(problem: str, split: str) -> DataError:
    """Return the error for a split that is to be scored and has no labels."""
    remedy = f"Leave out dataset.{split}, and afterwards run encoderlab predict run=... with that file"
    return DataError(problem, allowed="a label in each row of a split that is scored", remedy=remedy)


def counts_of(rows: RawRows) -> dict[str, int]:
    """Return how often each value of the label column occurs."""
    entries = flat(rows.labels).drop_null().value_counts().to_pylist()
    return {entry["values"]: entry["counts"] for entry in entries}


def file_of(rows: RawRows) -> str:
    """Return the file of the first row, for messages."""
    return re.sub(r", (line|row|lines) [0-9].*$", "", rows.where(0), flags=re.DOTALL)
