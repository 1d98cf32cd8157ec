"""The labels of a dataset's rows: which are refused, their order and ids, and the split built from rows and labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from encoderlab.data.examples import Split
from encoderlab.data.sources.columns import Rows, Where, flat_values, is_words, listed, mapped
from encoderlab.errors import DataError, SettingError
from encoderlab.metrics.entities import EntityLabels, entity_labels, first_invalid, repaired

_MOST_STEPS = 20  # distinct decimal numbers that may still be classes, such as half stars
_LONGEST_NUMBER = 40  # digits; anything longer is a name
_NUMBER = re.compile(r"([+-]?)0*([0-9]+?)(?:\.([0-9]*?)0*)?", re.ASCII)


@dataclass(frozen=True)
class Labels:
    """The names of labels in the order of their ids, and the value of each in the data."""

    names: list[str]
    values: list[str]

    def ids(self, column: pa.ChunkedArray, where: Where) -> pa.ChunkedArray:
        """Return the id of each label; null stays null. Raises DataError at a label that is not among `values`."""
        known = pa.array(self.values, pa.string())
        ids = mapped(column, lambda flat: pc.index_in(flat, value_set=known).cast(pa.int64()))
        if flat_values(ids).null_count > flat_values(column).null_count:
            row, value = next(found for found in _labels_by_row(column) if found[1] not in self.values)
            raise DataError(
                f"{where(row)} has the label {value!r}, which no training row has",
                allowed=listed(self.values),
                remedy=_correction(value, self.values),
            )
        return ids


def _correction(label: str, known: Iterable[str]) -> str:
    """Return what to do about an unknown label: write it as one of the `known` if only its case or the space around it
    differs.
    """
    meant = next((name for name in known if name.strip().casefold() == label.strip().casefold()), None)
    return "Correct the row, or list every label in dataset.label_names" if meant is None else f"Write it as {meant!r}"


def refuse_missing_labels(rows: Rows, name: str) -> None:
    """Raise DataError at the first row with an empty label."""
    column = rows.columns["label"]
    values = flat_values(column)
    if not (column.null_count or values.null_count or pc.any(pc.equal(pc.utf8_trim_whitespace(values), "")).as_py()):
        return
    row = next(row for row, value in enumerate(column) if _lacks(value.as_py()))
    raise DataError(
        f"{rows.where(row)} has no label in column {name!r}",
        remedy="Fill it in, or set dataset.on_missing=drop to drop such rows",
    )


def _lacks(label: str | list[str] | None) -> bool:
    values = label if isinstance(label, list) else [label]
    return any(value is None or not value.strip() for value in values)


def refuse_labels_alike(parts: Iterable[Rows]) -> None:
    """Raise DataError if two labels differ only in the white space around them, or are two spellings of one number."""
    seen: dict[str, tuple[str, Rows]] = {}
    for part in parts:
        for value in flat_values(part.columns["label"]).unique().drop_null().to_pylist():
            other, holder = seen.setdefault(_meant(value), (value, part))
            if other != value:
                spaced = value.strip() == other.strip()
                raise DataError(
                    f"{_first_with(other, holder)} has the label {other!r}, and {_first_with(value, part)} has {value!r}",
                    allowed="labels that differ by more than white space around them"
                    if spaced
                    else "one form of each number",
                    remedy="Write both the same way",
                )


def _meant(label: str) -> str:
    """Return the label without white space around it, and a number without needless zeros: 1 for 01, 1.0 and +1."""
    label = label.strip()
    number = _NUMBER.fullmatch(label) if len(label) <= _LONGEST_NUMBER else None
    if number is None:
        return label
    sign, whole, fraction = number.groups(default="")
    value = f"{whole}.{fraction}" if fraction else whole
    return f"-{value}" if sign == "-" and value != "0" else value


def _first_with(label: str, rows: Rows) -> str:
    return rows.where(next(row for row, value in _labels_by_row(rows.columns["label"]) if value == label))


def name_labels(train: Rows, label_names: list[str] | None, class_names: list[str] | None = None) -> Labels:
    """Return the labels of a dataset, in order.

    `train` are the rows of the training split. `class_names` names values 0, 1, ... if the source knows names. The
    user's `label_names` put values in order, or name values 0, 1, ...; without them, numbers are sorted as numbers and
    anything else as strings. Raises DataError if training has no label, or only one and no `label_names`, or a number
    beyond those that `label_names` name; SettingError if `label_names` do not fit.
    """
    values = sorted(flat_values(train.columns["label"]).unique().drop_null().to_pylist())
    if not values or (len(values) < 2 and label_names is None):
        has = f"only the label {values[0]!r}" if values else "no labels"
        raise DataError(f"The training rows have {has}", allowed="at least two labels", remedy="Check dataset.label")
    known = class_names or _sorted(values).values
    if label_names is None:
        return Labels(class_names, _numbers(len(class_names))) if class_names else _sorted(values)
    if class_names and sorted(label_names) == sorted(class_names):
        return Labels(label_names, [str(class_names.index(name)) for name in label_names])
    if not class_names and set(values) <= set(label_names):
        return Labels(label_names, label_names)
    numbers = _numbers(len(label_names))
    if len(class_names) == len(numbers) if class_names else set(values) <= set(numbers):
        return Labels(label_names, numbers)
    beyond = [value for value in values if value not in numbers]
    if not class_names and len(beyond) < len(values) and not set(values) & set(label_names):
        raise DataError(
            f"{_first_with(beyond[0], train)} has the label {beyond[0]!r}, and dataset.label_names names {listed(numbers)}",
            allowed=listed(numbers),
            remedy="Correct the row, or name all labels",
        )
    unknown = [value for value in values if value not in label_names]
    if not class_names and len(unknown) < len(values) != len(label_names):  # otherwise they rename the existing labels
        raise DataError(
            f"{_first_with(unknown[0], train)} has the label {unknown[0]!r}, which is not a known label",
            allowed=listed(label_names),
            remedy=_correction(unknown[0], label_names),
        )
    raise SettingError(
        f"dataset.label_names=[{listed(label_names)}] does not name the {len(known)} labels in the data",
        allowed=f"all of {listed(known)}, in any order",
        remedy=f"Remove dataset.label_names to use these names, or rename each: dataset.label_names={{{known[0]}:NAME,...}}",
    )


def refuse_other_targets(train: Rows, name: str) -> None:
    """Raise DataError if the labels of whole texts are measurements, or if a cell holds several labels."""
    column = train.columns["label"]
    if is_words(column):
        return
    values = column.unique().drop_null().to_pylist()
    fraction = next((value for value in values if "." in value and not _meant(value).lstrip("-").isdigit()), None)
    if len(values) > _MOST_STEPS and fraction and all(_NUMBER.fullmatch(value.strip()) for value in values):
        raise DataError(
            f"{_first_with(fraction, train)} has {fraction!r} in column {name!r}, which holds {len(values)} different numbers",
            allowed="classes",
            remedy="Use task=regression, or list the classes in dataset.label_names",
        )
    for separator in "|;,":
        whole = {value for value in values if separator not in value}
        joined = next((value for value in values if separator in value and {*value.split(separator)} <= whole), None)
        if joined is not None:
            raise DataError(
                f"{_first_with(joined, train)} has the label {joined!r}, whose parts are labels of other rows",
                allowed="one label in each row",
                remedy="Use task=multilabel, or list the labels in dataset.label_names",
            )


def with_valid_entities(rows: dict[str, Rows], labels: Labels, *, repair: bool) -> tuple[dict[str, Rows], Labels]:
    """Return the rows with valid BIO or BIOES labels, and the labels' names; labels that are not entities stay as they
    are.

    With `repair`, invalid sequences are read as conlleval reads them. Otherwise raises DataError at the first of them.
    """
    entities = entity_labels(labels.names)
    if entities is None or not is_words(rows["train"].columns["label"]):
        return rows, labels
    found = {name: _valid_entities(part, labels, entities, repair) for name, part in rows.items()}
    if not repair:
        return rows, labels
    values = {value for part in found.values() for value in flat_values(part.columns["label"]).unique().to_pylist()}
    added = sorted(values - {*labels.names, None})
    names = sorted([*labels.names, *added]) if labels.names == sorted(labels.names) else [*labels.names, *added]
    return found, Labels(names, names)


def _valid_entities(rows: Rows, labels: Labels, entities: EntityLabels, repair: bool) -> Rows:
    column = pa.chunked_array([pa.concat_arrays(labels.ids(rows.columns["label"], rows.where).chunks)])
    lengths = np.asarray(pc.list_value_length(column).fill_null(0), np.int64)
    ids = np.asarray(pc.list_flatten(column).fill_null(-1), np.int64)
    wrong = first_invalid(entities, ids, lengths)
    if wrong is not None and not repair:
        row = int(np.searchsorted(np.cumsum(lengths), wrong[0], side="right"))
        place = int(wrong[0] - lengths[:row].sum())
        raise DataError(
            f"{rows.where(row)}: word {place + 1}, {rows.columns['text'][row].as_py()[place]!r}, has the label "
            f"{labels.names[ids[wrong[0]]]!r} {wrong[1]}",
            allowed="S-TYPE, or B-TYPE, I-TYPE and E-TYPE in this order"
            if entities.bioes
            else "I-TYPE only after B-TYPE or I-TYPE",
            remedy="Correct it, or set dataset.on_invalid_tags=repair to read labels as conlleval does (it turns IOB1 into BIO)",
        )
    names = pa.array(repaired(entities, ids, lengths) if repair else [], pa.string())
    return replace(rows, columns=rows.columns | {"label": mapped(column, lambda _: names)}) if repair else rows


def mapped_labels(rows: Rows, names: dict[str, str], class_names: list[str] | None = None) -> Rows:
    """Return the rows with each label replaced by its name; unknown ones stay unknown.

    `names` may also map `class_names`, which name the values 0, 1, ... Raises DataError at a label that `names` does
    not map.
    """
    if class_names and set(names) <= set(class_names):
        names = {str(class_names.index(name)): wanted for name, wanted in names.items()}
    known, wanted = pa.array(list(names), pa.string()), pa.array(list(names.values()), pa.string())
    column = rows.columns["label"]
    found = mapped(column, lambda flat: wanted.take(pc.index_in(flat, value_set=known)))
    if flat_values(found).null_count > flat_values(column).null_count:
        row, value = next(one for one in _labels_by_row(column) if one[1] not in names)
        raise DataError(
            f"{rows.where(row)} has the label {value!r}, which dataset.label_names does not map",
            allowed=listed(names),
            remedy="Correct the row, or map its label too",
        )
    if is_words(found) and not is_words(rows.columns["text"]):  # two labels of a row may have become one
        found = pa.chunked_array([pa.array([one and [*dict.fromkeys(one)] for one in found.to_pylist()], found.type)])
    return replace(rows, columns=rows.columns | {"label": found})


def as_split(rows: Rows, labels: Labels | None) -> Split:
    """Return the rows as a split; without `labels`, targets are numbers if the rows have some, otherwise unknown."""
    columns = dict(rows.columns)
    words = is_words(columns["text"])
    unknown = pa.nulls(len(columns["text"]), pa.list_(pa.int64()) if words else pa.int64())
    numbers = columns["label"] if "label" in columns and pa.types.is_floating(columns["label"].type) else unknown
    ids = numbers if labels is None else labels.ids(columns["label"], rows.where)
    if words:
        table = pa.table({"words": columns["text"], "labels": ids})
    else:
        pair = {"text_pair": columns["text_pair"]} if "text_pair" in columns else {}
        table = pa.table({"text": columns["text"], **pair, "label": ids})
    return Split(table, rows.where, _carried(rows))


def _carried(rows: Rows) -> pa.Table | None:
    """Return the carried columns as a table, in types of which Arrow can take any rows."""
    if not rows.carried:
        return None
    view = pa.string_view()
    return pa.table(
        {name: column.cast(pa.string()) if column.type == view else column for name, column in rows.carried.items()}
    )


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def _sorted(values: list[str]) -> Labels:
    whole = all(re.fullmatch(r"-?[0-9]+", value) and len(value) <= _LONGEST_NUMBER for value in values)
    ordered = sorted(values, key=lambda value: (int(value), value)) if whole else values
    return Labels(ordered, ordered)


def _labels_by_row(column: pa.ChunkedArray) -> Iterator[tuple[int, str]]:
    """Yield each known label, and its row."""
    for row, scalar in enumerate(column):
        label = scalar.as_py()
        values = label if isinstance(label, list) else [label]
        yield from ((row, value) for value in values if value is not None)
