"""The labels of a dataset's rows: which are refused, their order and ids, and the split built from rows and labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from encoderlab.data.columns import Rows, Where, flat, is_list, is_number, listed, mapped
from encoderlab.data.examples import Split
from encoderlab.errors import DataError, SettingError
from encoderlab.metrics.entities import EntityLabels, entity_labels, first_invalid, repaired

SEPARATORS = ("|", ";", ",")  # of several labels in a cell, tried in this order if none is set
_MOST_STEPS = 20  # distinct decimal numbers that may still be classes, such as half stars


@dataclass(frozen=True)
class Labels:
    """The names of labels in the order of their ids, and the value of each in the data."""

    names: list[str]
    values: list[str]

    def ids(self, column: pa.ChunkedArray, where: Where) -> pa.ChunkedArray:
        """Return the id of each label; null stays null. Raises DataError at a label that is not among `values`."""
        known = pa.array(self.values, pa.string())
        ids = mapped(column, lambda values: pc.index_in(values, value_set=known).cast(pa.int64()))
        if flat(ids).null_count > flat(column).null_count:
            row, value = next(one for one in _labels_by_row(column) if one[1] not in self.values)
            raise DataError(
                f"{where(row)} has the label {value!r}, which no training row has",
                allowed=listed(self.values),
                remedy=_correction(value, self.values),
            )
        return ids


def as_split(rows: Rows, labels: Labels | None) -> Split:
    """Return the rows as a split; without `labels`, targets are numbers if the rows have some, otherwise unknown."""
    words = is_list(rows.table["text"])
    if labels is not None:
        targets = labels.ids(rows.labels, rows.where)
    elif "label" in rows.table.column_names and pa.types.is_floating(rows.labels.type):
        targets = rows.labels
    else:
        targets = pa.nulls(len(rows.table), pa.list_(pa.int64()) if words else pa.int64())
    texts = rows.table.select([name for name in ("text", "text_pair") if name in rows.table.column_names])
    if words:
        return Split(texts.rename_columns(["words"]).append_column("labels", targets), rows.where, rows.carried)
    return Split(texts.append_column("label", targets), rows.where, rows.carried)


def refuse_missing_labels(rows: Rows, name: str) -> None:
    """Raise DataError at the first row with an empty label."""
    values = flat(rows.labels)
    if not (
        rows.labels.null_count or values.null_count or pc.any(pc.equal(pc.utf8_trim_whitespace(values), "")).as_py()
    ):
        return
    labels = (row if isinstance(row, list) else [row] for row in rows.labels.to_pylist())
    row = next(row for row, values in enumerate(labels) if any(not (value or "").strip() for value in values))
    raise DataError(
        f"{rows.where(row)} has no label in column {name!r}",
        remedy="Fill it in, or set dataset.on_missing=drop to drop such rows",
    )


def refuse_labels_alike(parts: Iterable[Rows]) -> None:
    """Raise DataError if two labels differ only in the white space around them, or are two spellings of one number."""
    seen: dict[str, tuple[str, Rows]] = {}
    for part in parts:
        for value in flat(part.labels).unique().drop_null().to_pylist():
            other, holder = seen.setdefault(_normalized(value), (value, part))
            if other != value:
                raise DataError(
                    f"{_first_with(other, holder)} has the label {other!r}, and {_first_with(value, part)} has "
                    f"{value!r}",
                    allowed="labels that differ by more than white space or the form of a number",
                    remedy="Write both the same way",
                )


def _normalized(label: str) -> str:
    """Return the label without white space around it, and a number without needless zeros: 1 for 01, 1.0 and +1."""
    label = label.strip()
    try:
        return str(Decimal(label).normalize()) if label[:1] in "+-.0123456789" and len(label) < 20 else label
    except InvalidOperation:
        return label


def refuse_other_targets(train: Rows, name: str) -> None:
    """Raise DataError if the labels of whole texts are measurements, or if a cell holds several labels."""
    if is_list(train.labels):
        return
    values = train.labels.unique().drop_null().to_pylist()
    fraction = next((value for value in values if re.fullmatch(r"\s*[+-]?[0-9]*\.[0-9]*[1-9][0-9]*\s*", value)), None)
    if len(values) > _MOST_STEPS and fraction and all(map(is_number, values)):
        raise DataError(
            f"{_first_with(fraction, train)} has {fraction!r} in column {name!r}, which holds {len(values)} "
            "different numbers",
            allowed="classes",
            remedy="Use task=regression, or list the classes in dataset.label_names",
        )
    for separator in SEPARATORS:
        single = {value for value in values if separator not in value}
        several = next((value for value in values if separator in value and {*value.split(separator)} <= single), None)
        if several is not None:
            raise DataError(
                f"{_first_with(several, train)} has the label {several!r}, whose parts are labels of other rows",
                allowed="one label in each row",
                remedy="Use task=multilabel, or list the labels in dataset.label_names",
            )


def with_label_sets(rows: Mapping[str, Rows], separator: str | None) -> dict[str, Rows]:
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

    def as_sets(column: pa.ChunkedArray) -> pa.ChunkedArray:
        return pa.chunked_array([pa.array(map(as_set, column.to_pylist()), pa.list_(pa.string()))])

    return {name: part.with_labels(as_sets(part.labels)) for name, part in rows.items()}


def name_labels(train: Rows, label_names: list[str] | None, class_names: list[str] | None = None) -> Labels:
    """Return the labels of a dataset, in order.

    `class_names` names values 0, 1, ... if the source knows names. The user's `label_names` put values in order, or
    name values 0, 1, ...; without them, whole numbers are sorted as numbers and anything else as strings. Raises
    DataError if training has fewer than two labels, or one beyond `label_names`; SettingError if those do not fit.
    """
    values = sorted(flat(train.labels).unique().drop_null().to_pylist())
    if not values or (len(values) < 2 and label_names is None):
        has = f"only the label {values[0]!r}" if values else "no labels"
        raise DataError(f"The training rows have {has}", allowed="at least two labels", remedy="Check dataset.label")
    if class_names is None and all(re.fullmatch(r"-?[0-9]{1,40}", value) for value in values):
        values.sort(key=int)
    if label_names is None:
        return Labels(class_names, _numbered(class_names)) if class_names else Labels(values, values)
    numbers = _numbered(label_names)
    if class_names:
        if sorted(label_names) == sorted(class_names):
            return Labels(label_names, [str(class_names.index(name)) for name in label_names])
        if len(label_names) == len(class_names):
            return Labels(label_names, numbers)
    elif set(values) <= set(label_names):
        return Labels(label_names, label_names)
    elif set(values) <= set(numbers):
        return Labels(label_names, numbers)
    else:
        _refuse_beyond(train, values, label_names, numbers)
    known = class_names or values
    raise SettingError(
        f"dataset.label_names=[{listed(label_names)}] does not name the {len(known)} labels in the data",
        allowed=f"all of {listed(known)}, in any order",
        remedy="Remove dataset.label_names to use these names, or rename each: "
        f"dataset.label_names={{{known[0]}:NAME,...}}",
    )


def _refuse_beyond(train: Rows, values: list[str], label_names: list[str], numbers: list[str]) -> None:
    """Raise DataError at a label that is not among those named, if some of the others are."""
    for known in (label_names, numbers):
        beyond = [value for value in values if value not in known]
        if len(beyond) < len(values) and (known is numbers or len(values) != len(label_names)):
            raise DataError(
                f"{_first_with(beyond[0], train)} has the label {beyond[0]!r}, which dataset.label_names does not name",
                allowed=listed(known),
                remedy=_correction(beyond[0], known),
            )


def _numbered(names: list[str]) -> list[str]:
    return [str(number) for number in range(len(names))]


def _correction(label: str, known: Iterable[str]) -> str:
    """Return what to do about an unknown label: write it as one of the `known` if only its case or spaces differ."""
    near = next((name for name in known if name.strip().casefold() == label.strip().casefold()), None)
    return "Correct the row, or list every label in dataset.label_names" if near is None else f"Write it as {near!r}"


def with_mapped_labels(rows: Rows, names: dict[str, str], class_names: list[str] | None = None) -> Rows:
    """Return the rows with each label replaced by its name; unknown ones stay unknown.

    `names` may also map `class_names`, which name the values 0, 1, ... Raises DataError at a label it does not map.
    """
    if class_names and set(names) <= set(class_names):
        names = {str(class_names.index(name)): new for name, new in names.items()}
    old, new = pa.array(list(names), pa.string()), pa.array(list(names.values()), pa.string())
    column = mapped(rows.labels, lambda values: new.take(pc.index_in(values, value_set=old)))
    if flat(column).null_count > flat(rows.labels).null_count:
        row, value = next(one for one in _labels_by_row(rows.labels) if one[1] not in names)
        raise DataError(
            f"{rows.where(row)} has the label {value!r}, which dataset.label_names does not map",
            allowed=listed(names),
            remedy="Correct the row, or map its label too",
        )
    if is_list(column) and not is_list(rows.table["text"]):  # two labels of a row may have become one
        column = pa.chunked_array(
            [pa.array([row and [*dict.fromkeys(row)] for row in column.to_pylist()], column.type)]
        )
    return rows.with_labels(column)


def with_valid_entities(rows: dict[str, Rows], labels: Labels, *, repair: bool) -> tuple[dict[str, Rows], Labels]:
    """Return the rows with valid BIO or BIOES labels, and the labels; labels that are not entities stay as they are.

    With `repair`, invalid sequences are read as conlleval reads them. Otherwise raises DataError at the first of them.
    """
    entities = entity_labels(labels.names)
    if entities is None or not is_list(rows["train"].table["text"]):
        return rows, labels
    valid = {name: _with_valid_entities(part, labels, entities, repair) for name, part in rows.items()}
    if not repair:
        return rows, labels
    values = {value for part in valid.values() for value in flat(part.labels).unique().to_pylist()}
    names = [*labels.names, *sorted(values - {*labels.names, None})]
    names = sorted(names) if labels.names == sorted(labels.names) else names
    return valid, Labels(names, names)


def _with_valid_entities(rows: Rows, labels: Labels, entities: EntityLabels, repair: bool) -> Rows:
    column = labels.ids(rows.labels, rows.where).combine_chunks()
    column = column if isinstance(column, pa.Array) else column.chunk(0)
    lengths = np.asarray(pc.list_value_length(column).fill_null(0), np.int64)
    ids = np.asarray(pc.list_flatten(column).fill_null(-1), np.int64)
    if repair:
        names = pa.array(repaired(entities, ids, lengths), pa.string())
        return rows.with_labels(mapped(pa.chunked_array([column]), lambda _: names))
    if (invalid := first_invalid(entities, ids, lengths)) is not None:
        row = int(np.searchsorted(np.cumsum(lengths), invalid[0], side="right"))
        word = int(invalid[0] - lengths[:row].sum())
        raise DataError(
            f"{rows.where(row)}: word {word + 1}, {rows.table['text'][row].as_py()[word]!r}, has the label "
            f"{labels.names[ids[invalid[0]]]!r} {invalid[1]}",
            allowed="S-TYPE, or B-TYPE, I-TYPE and E-TYPE in this order"
            if entities.bioes
            else "I-TYPE only after B-TYPE or I-TYPE",
            remedy="Correct it, or set dataset.on_invalid_tags=repair to read labels as conlleval does (it turns "
            "IOB1 into BIO)",
        )
    return rows


def _first_with(label: str, rows: Rows) -> str:
    return rows.where(next(row for row, value in _labels_by_row(rows.labels) if value == label))


def _labels_by_row(column: pa.ChunkedArray) -> Iterator[tuple[int, str]]:
    """Yield each known label, and its row."""
    for row, scalar in enumerate(column):
        label = scalar.as_py()
        values = label if isinstance(label, list) else [label]
        yield from ((row, value) for value in values if value is not None)
