"""A file of texts of which some have a label: what is labelled, what may be chosen, and what is written back."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from encoderlab.apps.labelling.selection import UNLABELLED, Chosen
from encoderlab.apps.labelling.settings import PoolConfig
from encoderlab.data.examples import Split, key_of
from encoderlab.data.files import read_unlabelled
from encoderlab.data.selected import SELECTED, Reason
from encoderlab.errors import DataError, SettingError
from encoderlab.models import inputs
from encoderlab.models.model import Model, is_blank
from encoderlab.models.row_files import Row, Types, types_of
from encoderlab.reports.predictions import carried_names, cell
from encoderlab.tables.formats import Format, format_of, paths_of
from encoderlab.tables.label_cells import label_of_object
from encoderlab.tables.remote import local_file

_ROWS_AT_A_TIME = 1000
_WITH_OBJECTS = (Format.json, Format.jsonl, Format.parquet, Format.arrow)


@dataclass(frozen=True, slots=True)
class LabelledFile:
    """The rows of a file, the columns of their texts, the one of their labels (which it may lack), and these and why a
    row was chosen as texts, "" for none.
    """

    path: Path
    split: Split
    text_columns: list[str]
    label_column: str
    labels: list[str]
    marks: list[str]  # why a row was chosen in an earlier round


@dataclass(frozen=True, slots=True)
class Pool:
    """The rows that texts are chosen from.

    `labels` are the names of the classes, `ids` the class of each row, UNLABELLED without a label. `added` has the
    labels that other files give to rows without one. `candidates` are the rows that may be chosen: without a label, not
    blank, and with a text that no labelled or earlier row has.
    """

    file: LabelledFile
    labels: list[str]
    ids: np.ndarray
    added: Mapping[int, str]
    marks: list[str]
    candidates: np.ndarray
    n_repeated: int

    @property
    def split(self) -> Split:
        return self.file.split

    @property
    def labelled(self) -> np.ndarray:
        """Return the rows with a label."""
        return np.flatnonzero(self.ids != UNLABELLED)

    @property
    def drawn_at_random(self) -> np.ndarray:
        """Return which of the `labelled` rows were drawn at random in an earlier round."""
        return np.array([self.marks[row] == Reason.random.value for row in self.labelled], bool)


def read_pool(config: PoolConfig, model: Model) -> Pool:
    """Return the rows of `config.input`, with the labels that it and the files of `config.labelled` give them.

    Raises DataError if a file cannot be read, or nothing is left to choose.
    """
    assert config.input is not None
    file = _read_file(local_file(config.input, config.cache), config, model)
    keys = [key_of(example) for example in file.split]
    labels = list(file.labels)
    marks = list(file.marks)
    added: dict[int, str] = {}
    for path in paths_of(config.labelled, "labelled", config.cache) if config.labelled is not None else []:
        other = _read_file(path, config, model, labelled=True)
        added |= _taken_over(other, file.path, keys, labels, marks)

    names = sorted({label for label in labels if label})
    id_of = {name: id_ for id_, name in enumerate(names)} | {"": UNLABELLED}
    ids = np.array([id_of[label] for label in labels], np.int64)
    taken = {key for key, label in zip(keys, labels, strict=True) if label}
    candidates = []
    n_repeated = 0
    for row, example in enumerate(file.split):
        if ids[row] != UNLABELLED or is_blank(example):
            continue
        if keys[row] in taken:
            n_repeated += 1
            continue
        taken.add(keys[row])
        candidates.append(row)
    if not candidates and all(map(is_blank, file.split)):
        raise DataError(f"Every text of {file.path} is blank", remedy="Set text_column=COLUMN, or choose another file")
    if not candidates:
        labelled = f"has a label in column {file.label_column!r}, repeats one that has, or is blank"
        problem = f"Every text of {file.path} {labelled}"
        remedy = "Add texts, or set label_column=NAME for labels of another kind, in a new column"
        raise DataError(problem, remedy=remedy)
    return Pool(file, names, ids, added, marks, np.array(candidates, np.int64), n_repeated)


def _read_file(path: Path, config: PoolConfig, model: Model, *, labelled: bool = False) -> LabelledFile:
    """Return the rows of a file, with its labels; one that is `labelled` must have the column. Raises DataError."""
    kind = format_of(path)
    if kind in (Format.folder, Format.conll):
        problem = f"{path} holds no table of texts"
        raise DataError(problem, allowed="csv, tsv, xlsx, jsonl, json, parquet, txt", remedy="Choose a file of texts")
    file = inputs.new_file(path, config, model)
    cells = file.cells
    text = file.text
    pair = file.text_pair
    split = read_unlabelled(path, text=text, text_pair=pair, words=False, dialect=file.dialect, cache_dir=config.cache)

    # Labels are in a column; an object in it stands for a label by its name.
    carried = [] if split.carried is None else split.carried.column_names
    own_columns = {name: cells.get(name, ()) for name in carried} or cells
    label = _label_column(path, own_columns, config, model)
    is_field = label in cells and label not in own_columns
    if is_field or (labelled and label not in own_columns):
        problem = f"{path} has no column {label!r} of labels"
        raise DataError(problem, allowed=", ".join(own_columns), remedy="Set label_column=COLUMN")
    text_columns = [text] if isinstance(text, str) else list(text)
    if label in {SELECTED, pair, *text_columns}:
        problem = f"{label!r} cannot be the column of labels: texts, or why a row was chosen, are in it"
        raise SettingError(problem, remedy="Set label_column=NAME")
    labels = list(_column(split, label)) if label in own_columns else [""] * len(split)
    if file.kind in _WITH_OBJECTS:
        labels = [_name_of_object(path, label, value) for value in labels]
    marks = list(_column(split, SELECTED)) if SELECTED in cells else [""] * len(split)
    if not {*marks} <= {"", *(reason.value for reason in Reason)}:  # a column of the user's
        marks = [""] * len(split)
    return LabelledFile(path, split, text_columns, label, labels, marks)


def _label_column(path: Path, cells: Mapping[str, Sequence[str]], config: PoolConfig, model: Model) -> str:
    """Return the column of labels, perhaps a new one: set, as trained, `label`, or the only one with such a name."""
    from encoderlab.tables.columns import named_as_labels

    if config.label_column is not None:
        return config.label_column
    usual = [model.file_columns.label, "label"]
    for name in usual:
        if name in cells:
            return name
    named = named_as_labels(cells)
    if len(named) != 1:
        return "label"
    print(f"encoderlab: {path}: labels are read from {named[0]!r} (label_column)", file=sys.stderr)
    return named[0]


def _column(split: Split, name: str) -> Iterator[str]:
    """Yield the cells of a column that is carried along, as texts without white space around them."""
    assert split.carried is not None
    for batch in split.carried.select_columns([name]).iter(_ROWS_AT_A_TIME):
        values: Any = batch
        for value in values[name]:
            yield _as_label(value)


def _as_label(value: Any) -> str:
    """Return a cell as training reads it: "" for none, a whole number without a point."""
    if isinstance(value, float):
        if math.isnan(value):
            return ""
        value = int(value) if value.is_integer() else value
    return str(cell(value)).strip()


def _name_of_object(path: Path, column: str, cell: str) -> str:
    """Return the label that an object stands for, and any other as it is. Raises DataError if it has no name."""
    try:
        name = label_of_object(json.loads(cell)) if cell.startswith("{") else cell
    except ValueError:
        return cell
    if not isinstance(name, str):
        raise DataError(f"{path} has {cell[:60]} as a label in column {column!r}", remedy="Set label_column=COLUMN")
    return name


def _taken_over(
    other: LabelledFile, path: Path, keys: Sequence[int], labels: list[str], marks: list[str]
) -> dict[int, str]:
    """Put the labels of another file's rows into `labels`, where a row of the same text has none; return them by row.

    Labels of texts that the pool does not have are counted on standard error.
    """
    row_of: dict[int, int] = {}
    for row, key in enumerate(keys):
        row_of.setdefault(key, row)
    added = {}
    n_unknown = 0
    for example, label, mark in zip(other.split, other.labels, other.marks, strict=True):
        row = row_of.get(key_of(example))
        if not label:
            continue
        if row is None:
            n_unknown += 1
        elif not labels[row]:
            labels[row] = label
            marks[row] = mark
            added[row] = label
    if n_unknown:
        words = f"{n_unknown:,} labelled texts of {other.path} are not in {path}, and are left out"
        print(f"encoderlab: {words}", file=sys.stderr)
    return added


def rows_to_write(pool: Pool, chosen: Chosen, rows: Sequence[int] | np.ndarray) -> Iterator[Row]:
    """Yield these rows of the pool, with the input's columns, the label and why a row was chosen."""
    carried = pool.split.carried
    assert carried is not None
    reasons = dict(zip(chosen.rows.tolist(), chosen.reasons, strict=True))
    names = _output_names(pool)
    if len(rows) < len(pool.split):
        carried = carried.select(rows)
    first = 0
    for batch in carried.iter(_ROWS_AT_A_TIME):
        columns: Any = batch
        n_rows = len(next(iter(columns.values())))
        for place in range(n_rows):
            row = int(rows[first + place])
            cells = {names[name]: columns[name][place] for name in names}
            cells.setdefault(pool.file.label_column, None)
            if row in pool.added:
                cells[pool.file.label_column] = pool.added[row]
            cells[SELECTED] = reasons[row].value if row in reasons else pool.marks[row] or None
            yield cells
        first += n_rows


def types_to_write(pool: Pool) -> Types:
    """Return the types of the columns that are written as they were read."""
    names = _output_names(pool)
    ours = {SELECTED, *([pool.file.label_column] if pool.added else [])}
    types = {names[name]: kind for name, kind in types_of(pool.split.carried).items()}
    return {name: kind for name, kind in types.items() if name not in ours}


def _output_names(pool: Pool) -> dict[str, str]:
    """Return the output name of each column of the input; a column `selected` of the user's own gets another one."""
    assert pool.split.carried is not None
    columns = pool.split.carried.column_names
    is_ours = any(pool.file.marks) or SELECTED not in columns or not any(_column(pool.split, SELECTED))
    return dict(zip(columns, columns, strict=True)) if is_ours else carried_names(columns, [SELECTED])
