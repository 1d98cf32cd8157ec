"""The labels of a dataset's rows: which are refused, their order and ids, and the split built from rows and labels."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from encoderlab.data.columns import CARRIED, RawRows, flat, is_list, is_number, listed, mapped, missing
from encoderlab.data.examples import Split
from encoderlab.errors import DataError, SettingError
from encoderlab.metrics.entities import EntityLabels, entity_labels, repaired

SEPARATORS = ("|", ";", ",")  # of several labels in a cell, tried in this order if none is set
_MOST_STEPS = 20  # distinct decimal numbers that may still be classes, such as half stars


@dataclass(frozen=True)
class Labels:
    """The names of labels in the order of their ids, and the id of each value in the data."""

    names: list[str]
    id_of: dict[str, int]

    @classmethod
    def of(cls, names: list[str], values: Iterable[str] | None = None) -> Labels:
        """Return labels that stand in the data by name, or as `values` in the same order."""
        return cls(names, {value: id_ for id_, value in enumerate(names if values is None else values)})

    def ids(self, rows: RawRows) -> pa.ChunkedArray:
        """Return the id of each label; null stays null. Raises DataError at a label whose id is not known."""
        known, known_ids = pa.array(list(self.id_of), pa.string()), pa.array(self.id_of.values(), pa.int64())
        ids = mapped(rows.labels, lambda values: known_ids.take(pc.index_in(values, value_set=known)))
        if flat(ids).null_count > flat(rows.labels).null_count:
            by_row = enumerate(rows.labels.to_pylist())
            each = ((row, one) for row, label in by_row for one in (label if isinstance(label, list) else [label]))
            row, value = next((row, one) for row, one in each if one is not None and one not in self.id_of)
            wrong = f"{rows.where(row)} has the label {value!r}, which neither dataset.label_names nor training has"
            near = next((name for name in self.id_of if name.casefold() == value.casefold()), None)
            remedy = f"Write it as {near!r}" if near else "Correct the row, or name its label in dataset.label_names"
            raise DataError(wrong, allowed=listed(self.id_of), remedy=remedy)
        if is_list(ids) and not is_list(rows.table["text"]) and len(self.names) < len(self.id_of):
            sets = [row and [*dict.fromkeys(row)] for row in ids.to_pylist()]  # two labels may have become one
            ids = pa.chunked_array([pa.array(sets, ids.type)])
        return ids


def as_split(rows: RawRows, labels: Labels | None) -> Split:
    """Return the rows as a split; without `labels`, targets are numbers if the rows have some, otherwise unknown."""
    words = is_list(rows.table["text"])
    if labels is not None:
        targets = labels.ids(rows)
    elif "label" in rows.table.column_names and pa.types.is_floating(rows.labels.type):
        targets = rows.labels
    else:
        targets = pa.nulls(len(rows.table), pa.list_(pa.int64()) if words else pa.int64())
    texts = rows.table.select([name for name in ("text", "text_pair") if name in rows.table.column_names])
    further = [name for name in rows.table.column_names if name.startswith(CARRIED)]
    carried = rows.table.select(further).rename_columns([name.removeprefix(CARRIED) for name in further])
    if words:
        texts = texts.rename_columns(["words"])
    return Split(texts.append_column("labels" if words else "label", targets), rows.where, carried if further else None)


def refuse_missing_labels(rows: RawRows, name: str) -> None:
    """Raise DataError if rows have an empty label, with their number and the first of them."""
    if is_list(rows.labels):
        lacking = np.array([row is None or not all(row) for row in rows.labels.to_pylist()], bool)
    else:
        lacking = missing(rows.labels)
    if not lacking.any():
        return
    others = f", and so do {lacking.sum() - 1:,} more rows" if lacking.sum() > 1 else ""
    wrong = f"{rows.where(int(lacking.argmax()))} has no label in column {name!r}{others}"
    raise DataError(wrong, remedy="Fill it in, or set dataset.on_missing=drop to drop such rows")


def refuse_other_targets(train: RawRows, name: str) -> None:
    """Raise DataError if the labels of whole texts are measurements, or if a cell holds several labels."""
    if is_list(train.labels):
        return
    values = train.labels.unique().drop_null().to_pylist()
    fraction = next((value for value in values if re.fullmatch(r"\s*[+-]?[0-9]*\.[0-9]*[1-9][0-9]*\s*", value)), None)
    if len(values) > _MOST_STEPS and fraction and all(map(is_number, values)):
        place = f"{train.where(train.labels.to_pylist().index(fraction))} has {fraction!r} in column {name!r}"
        remedy = "Use task=regression, or list the classes in dataset.label_names"
        raise DataError(f"{place}, which holds {len(values)} different numbers", allowed="classes", remedy=remedy)
    for separator in SEPARATORS:
        single = {value for value in values if separator not in value}
        several = next((value for value in values if separator in value and {*value.split(separator)} <= single), None)
        if several is not None:
            first = train.where(train.labels.to_pylist().index(several))
            wrong = f"{first} has the label {several!r}, whose parts are labels of other rows"
            remedy = "Use task=multilabel, or list the labels in dataset.label_names"
            raise DataError(wrong, allowed="one label in each row", remedy=remedy)


def with_label_sets(rows: Mapping[str, RawRows], separator: str | None) -> dict[str, RawRows]:
    """Return the rows of each split with a list of labels in each row, each label once.

    A cell is split at `separator`, or at the first of SEPARATORS that occurs in training. A row without a label has an
    empty list.
    """
    train = rows["train"].labels
    if separator is None and not is_list(train):
        separator = next((one for one in SEPARATORS if pc.any(pc.match_substring(train, one)).as_py()), None)

    def as_set(cell: str | list[str] | None) -> list[str]:
        labels = cell if isinstance(cell, list) else (cell or "").split(separator) if separator else [cell or ""]
        return list(dict.fromkeys(stripped for label in labels if (stripped := (label or "").strip())))

    sets = {name: pa.array(map(as_set, part.labels.to_pylist()), pa.list_(pa.string())) for name, part in rows.items()}
    return {name: part.with_labels(pa.chunked_array([sets[name]])) for name, part in rows.items()}


def name_labels(
    train: RawRows, label_names: list[str] | dict[str, str] | None, class_names: list[str] | None
) -> Labels:
    """Return the labels of a dataset, in order.

    `class_names` names values 0, 1, ... if the source knows names. The user's `label_names` put values in order, name
    values 0, 1, ..., or map values (or class names) to names; without them, whole numbers are sorted as numbers and
    anything else as strings. Raises DataError if training has fewer than two labels, SettingError if `label_names` do
    not fit.
    """
    numbers = [str(number) for number in range(len(label_names or class_names or ()))]
    if isinstance(label_names, dict):
        if class_names and set(label_names) <= set(class_names):
            label_names = {str(class_names.index(name)): new for name, new in label_names.items()}
        names = list(dict.fromkeys(label_names.values()))
        return Labels(names, {value: names.index(name) for value, name in label_names.items()})
    values = sorted(flat(train.labels).unique().drop_null().to_pylist())
    if label_names is None:
        if len(values) < 2:
            has = f"only the label {values[0]!r}" if values else "no labels"
            raise DataError(f"The training rows have {has}", remedy="At least two are needed: check dataset.label")
        if class_names is not None:
            return Labels.of(class_names, numbers)
        if all(re.fullmatch(r"-?[0-9]{1,40}", value) for value in values):
            values.sort(key=int)
        return Labels.of(values)
    if class_names is None:
        by_name = set(values) <= set(label_names) or not values[0].isdecimal()
        return Labels.of(label_names, None if by_name else numbers)
    if len(label_names) != len(class_names):
        wrong = f"dataset.label_names=[{listed(label_names)}] does not name the labels in the data"
        raise SettingError(wrong, allowed=f"all of {listed(class_names)}, in any order")
    in_order = sorted(label_names) == sorted(class_names)
    return Labels.of(label_names, [str(class_names.index(name)) for name in label_names] if in_order else numbers)


def with_valid_entities(rows: dict[str, RawRows], labels: Labels) -> tuple[dict[str, RawRows], Labels]:
    """Return the rows with valid BIO or BIOES labels, and the labels; labels that are not entities stay as they are.

    Invalid sequences, such as IOB1's, are read as conlleval reads them, with a line on standard error.
    """
    entities = entity_labels(labels.names)
    if entities is None or not is_list(rows["train"].table["text"]):
        return rows, labels
    valid = {name: _with_valid_entities(part, labels, entities) for name, part in rows.items()}
    values = {value for part in valid.values() for value in flat(part.labels).unique().to_pylist()}
    names = [*labels.names, *sorted(values - {*labels.names, None})]
    names = sorted(names) if labels.names == sorted(labels.names) else names
    return valid, Labels.of(names)


def _with_valid_entities(rows: RawRows, labels: Labels, entities: EntityLabels) -> RawRows:
    column = pa.concat_arrays(labels.ids(rows).chunks)
    lengths = np.asarray(pc.list_value_length(column).fill_null(0), np.int64)
    ids = np.asarray(pc.list_flatten(column).fill_null(-1), np.int64)
    valid = repaired(entities, ids, lengths)
    changed = [word for word, name in enumerate(valid) if ids[word] >= 0 and labels.names[ids[word]] != name]
    if changed:
        row = int(np.searchsorted(np.cumsum(lengths), changed[0], side="right"))
        print(
            f"encoderlab: {len(changed)} labels cannot follow those before them and are read as conlleval reads them; "
            f"the first, {labels.names[ids[changed[0]]]!r} at {rows.where(row)}, as {valid[changed[0]]!r}",
            file=sys.stderr,
        )
    return rows.with_labels(mapped(pa.chunked_array([column]), lambda _: pa.array(valid, pa.string())))
