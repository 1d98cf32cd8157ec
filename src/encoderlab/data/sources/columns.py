"""Columns of texts and labels as Arrow arrays: what they may hold, the ids of their labels, and the split they make."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from encoderlab.data.examples import Split
from encoderlab.errors import DataError, SettingError, closest

Where = Callable[[int], str]  # how messages name a row, from its index


@dataclass(frozen=True)
class Wanted:
    """The columns to read, by the names the user gives them; None where a column is not asked for.

    `typed` is what the user types to name one, {} standing for text, text_pair or label.
    """

    text: str
    text_pair: str | None
    label: str | None
    typed: str = "dataset.{}"

    def settings(self) -> dict[str, str]:
        """Each column by the setting that names it."""
        named = {"text": self.text, "text_pair": self.text_pair, "label": self.label}
        return {setting: name for setting, name in named.items() if name is not None}


@dataclass(frozen=True)
class Rows:
    """Rows as a source holds them: `text` (string, or a list of words), `text_pair`, `label` (string, or one per word)."""

    columns: dict[str, pa.ChunkedArray]
    where: Where


@dataclass(frozen=True)
class Labels:
    """The names of labels in the order of their ids, and the value that stands for each of them in the data."""

    names: list[str]
    values: list[str]

    def ids(self, column: pa.ChunkedArray, where: Where) -> pa.ChunkedArray:
        """The id of each label; null stays null. Raises DataError at a label that is none of `values`."""
        known = pa.array(self.values, pa.string())
        ids = mapped(column, lambda flat: pc.index_in(flat, value_set=known).cast(pa.int64()))
        if flat_values(ids).null_count > flat_values(column).null_count:
            row, value = next(found for found in _labels_by_row(column) if found[1] not in self.values)
            raise DataError(
                f"{where(row)} has the label {value!r}, which no training row has",
                allowed=listed(self.values),
                remedy="Mend the row, or name every label in dataset.label_names",
            )
        return ids


def is_words(column: pa.ChunkedArray) -> bool:
    """Whether each row is a list."""
    return pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type)


def flat_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values of all rows, lists one after the other."""
    return pc.list_flatten(column) if is_words(column) else column


def mapped(column: pa.ChunkedArray, function: Callable[[pa.Array], pa.Array]) -> pa.ChunkedArray:
    """The column with `function` applied to its values, lists kept as lists."""
    if not is_words(column):
        return pa.chunked_array([function(chunk) for chunk in column.chunks] or [function(pa.array([], column.type))])
    return pa.chunked_array([_mapped_lists(chunk, function) for chunk in column.chunks])


def _mapped_lists(chunk: pa.Array, function: Callable[[pa.Array], pa.Array]) -> pa.Array:
    lengths = pc.list_value_length(chunk).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), function(chunk.flatten()), mask=chunk.is_null())


def texts(column: pa.ChunkedArray, name: str, where: Where, typed: str) -> pa.ChunkedArray:
    """The column as strings or lists of strings; `typed` is the setting that chose it.

    Raises DataError where it holds anything else, or nothing in some row.
    """
    values = flat_values(column)
    if pa.types.is_dictionary(values.type):
        column = mapped(column, lambda flat: flat.cast(flat.type.value_type))
        values = flat_values(column)
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        raise DataError(f"Column {name!r} holds {column.type}, not text ({where(0)})", remedy=f"Choose another with {typed}=COLUMN")
    if column.null_count:
        row = pc.index(column.is_null(), True).as_py()
        raise DataError(f"{where(row)} has nothing in column {name!r}", remedy='An empty text is written ""')
    if values.null_count:
        row = next(row for row, words in enumerate(column) if None in words.as_py())
        raise DataError(f"{where(row)} has an empty place among the words of column {name!r}")
    return column


def split_into_words(rows: Rows) -> Rows:
    """The rows with each text split at white space."""
    words = [[text.split() for text in chunk.to_pylist()] for chunk in rows.columns["text"].chunks]
    return Rows({"text": pa.chunked_array([pa.array(chunk, pa.list_(pa.string())) for chunk in words])}, rows.where)


def label_values(column: pa.ChunkedArray, name: str, where: Where) -> pa.ChunkedArray:
    """The labels as strings, numbers as they are written. Raises DataError where they are neither names nor numbers."""
    kind = flat_values(column).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    types = pa.types
    names_or_numbers = (
        types.is_string,
        types.is_large_string,
        types.is_integer,
        types.is_boolean,
        types.is_floating,
        types.is_null,
    )
    if not any(test(kind) for test in names_or_numbers):
        raise DataError(f"Column {name!r} holds {kind}, no labels ({where(0)})", allowed="strings, whole numbers, true and false")
    return mapped(column, lambda flat: _without_nan(flat.cast(kind)).cast(pa.string()))


def _without_nan(values: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_nan(values), None, values) if pa.types.is_floating(values.type) else values


def checked(rows: Rows, wanted: Wanted) -> Rows:
    """The rows, their columns made strings or lists of strings.

    Raises DataError where a column holds something else, nothing, or not one label for each word. Labels may be null.
    """
    columns = dict(rows.columns)
    for setting, name in wanted.settings().items():
        if setting == "label":
            columns[setting] = label_values(columns[setting], name, rows.where)
        else:
            columns[setting] = texts(columns[setting], name, rows.where, wanted.typed.format(setting))
    shapes = {is_words(column) for column in columns.values()}
    if len(shapes) > 1 or ("text_pair" in columns and shapes == {True}):
        held = ", ".join(f"{wanted.settings()[setting]!r} holds {column.type}" for setting, column in columns.items())
        raise DataError(
            f"The columns do not go together: {held} ({rows.where(0)})",
            allowed="texts with one label each, or lists of words with lists of as many labels",
        )
    if shapes == {True} and "label" in columns:
        _refuse_uneven(columns["text"], columns["label"], rows.where)
    return Rows(columns, rows.where)


def _refuse_uneven(words: pa.ChunkedArray, labels: pa.ChunkedArray, where: Where) -> None:
    counts = zip(pc.list_value_length(words).to_pylist(), pc.list_value_length(labels).to_pylist(), strict=True)
    for row, (n_words, n_labels) in enumerate(counts):
        if n_labels is not None and n_words != n_labels:
            raise DataError(f"{where(row)} has {n_words} words and {n_labels} labels", allowed="one label for each word")


def refuse_missing_labels(rows: Rows, name: str) -> None:
    """Raise DataError at the first row with an empty label."""
    column = rows.columns["label"]
    values = flat_values(column)
    if not (column.null_count or values.null_count or pc.any(pc.equal(pc.utf8_trim_whitespace(values), "")).as_py()):
        return
    row = next(row for row, value in enumerate(column) if _lacks(value.as_py()))
    raise DataError(f"{rows.where(row)} has no label in column {name!r}", remedy="Fill it in, or take the row out")


def _lacks(label: str | list[str] | None) -> bool:
    values = label if isinstance(label, list) else [label]
    return any(value is None or not value.strip() for value in values)


def refuse_labels_alike(parts: Iterable[Rows]) -> None:
    """Raise DataError where two labels of a dataset's rows differ by nothing but the white space around them."""
    seen: dict[str, tuple[str, Rows]] = {}
    for part in parts:
        for value in flat_values(part.columns["label"]).unique().drop_null().to_pylist():
            other, holder = seen.setdefault(value.strip(), (value, part))
            if other != value:
                raise DataError(
                    f"{_first_with(other, holder)} has the label {other!r}, and {_first_with(value, part)} has {value!r}",
                    allowed="labels that differ by more than white space around them",
                    remedy="Write both alike",
                )


def _first_with(label: str, rows: Rows) -> str:
    return rows.where(next(row for row, value in _labels_by_row(rows.columns["label"]) if value == label))


def name_labels(found: Iterable[str], label_names: list[str] | None, class_names: list[str] | None = None) -> Labels:
    """The labels of a dataset, in order.

    `found` are the values in the training split. `class_names` names values 0, 1, ... where the source knows names. The user's
    `label_names` put values in order, or name values 0, 1, ...; without them numbers are sorted as numbers, anything else as
    strings. Raises DataError where training has no label, or one alone and no `label_names` that say which others there are;
    SettingError where `label_names` do not fit.
    """
    values = sorted(set(found), key=str)
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
    raise SettingError(
        f"dataset.label_names=[{listed(label_names)}] does not name the {len(known)} labels there are",
        allowed=f"all of {listed(known)}, in any order",
        remedy="Leave dataset.label_names out to use these names",
    )


def as_split(rows: Rows, labels: Labels | None) -> Split:
    """The rows as a split; without `labels` every answer is unknown."""
    import datasets

    columns = dict(rows.columns)
    words = is_words(columns["text"])
    unknown = pa.nulls(len(columns["text"]), pa.list_(pa.int64()) if words else pa.int64())
    ids = unknown if labels is None else labels.ids(columns["label"], rows.where)
    if words:
        table = pa.table({"words": columns["text"], "labels": ids})
    else:
        pair = {"text_pair": columns["text_pair"]} if "text_pair" in columns else {}
        table = pa.table({"text": columns["text"], **pair, "label": ids})
    # Without a fingerprint of ours, `datasets` hashes the whole table to make one: seconds for a large one.
    return Split(datasets.Dataset(table, fingerprint=uuid.uuid4().hex[:16]))


def listed(names: Iterable[str], most: int = 20) -> str:
    """Names side by side, for messages."""
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def no_such_column(where: str, wanted: Wanted, setting: str, existing: list[str]) -> DataError:
    """The error of a wanted column that is not there."""
    name, typed = wanted.settings()[setting], wanted.typed.format(setting)
    near = closest(name, existing)
    remedy = f"Type {typed}={near}" if near else f"Choose with {typed}=COLUMN"
    return DataError(f"{where} has no column {name!r}", allowed=listed(existing), remedy=remedy)


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def _sorted(values: list[str]) -> Labels:
    whole = all(re.fullmatch(r"-?[0-9]+", value) for value in values)
    ordered = sorted(values, key=lambda value: (int(value), value)) if whole else values
    return Labels(ordered, ordered)


def _labels_by_row(column: pa.ChunkedArray) -> Iterator[tuple[int, str]]:
    """Each known label, and its row."""
    for row, scalar in enumerate(column):
        label = scalar.as_py()
        values = label if isinstance(label, list) else [label]
        yield from ((row, value) for value in values if value is not None)
