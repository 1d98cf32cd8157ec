"""Columns of texts and labels as Arrow arrays, and checks of their values."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from encoderlab.data.spool import count_read
from encoderlab.errors import DataError, closest

if TYPE_CHECKING:
    from encoderlab.batch import TargetKind

_LONGEST_NAME = 40  # characters of a column's name; longer ones are probably texts
Where = Callable[[int], str]  # returns how messages name a row, given its index


@dataclass(frozen=True)
class Wanted:
    """The columns to read, by the user's names; None if a column is not wanted.

    `target` says what the label column is read for. Alternatively there are `label_columns` of 0 and 1, one for each
    label. `typed` is the setting that names a column, with {} for text, text_pair or label. `others` are further
    columns to carry along, None for all that hold single values. With `nulls`, a row may lack any of them.
    """

    text: str
    text_pair: str | None
    label: str | None
    typed: str = "dataset.{}"
    target: TargetKind = "label"
    label_columns: tuple[str, ...] = ()
    others: tuple[str, ...] | None = ()
    nulls: bool = False

    def named(self, setting: str) -> str:
        """Return the setting that determines how a file is read, such as its quoting."""
        return f"dataset.{setting}" if self.typed.startswith("dataset.") else setting

    def carried(self, existing: Sequence[str], where: str) -> list[str]:
        """Return the further columns among the `existing` ones. Raises DataError if a named one is missing."""
        known = set(existing)
        missing = next((name for name in self.others or () if name not in known), None)
        if missing is not None:
            near = closest(missing, existing)
            remedy = f"Did you mean {near!r}?" if near else "Check dataset.carry and dataset.group"
            raise DataError(f"{where} has no column {missing!r}", allowed=listed(existing), remedy=remedy)
        used = self.settings().values()
        return [name for name in dict.fromkeys(existing if self.others is None else self.others) if name not in used]

    def settings(self) -> dict[str, str]:
        """Return each column by the setting that names it."""
        named = {"text": self.text, "text_pair": self.text_pair, "label": self.label}
        named |= {f"label_columns[{place}]": name for place, name in enumerate(self.label_columns)}
        return {setting: name for setting, name in named.items() if name is not None}

    def texts(self) -> list[str]:
        """Return the names of the columns that hold texts."""
        return [name for setting, name in self.settings().items() if not is_label(setting)]


def is_label(setting: str) -> bool:
    """Return whether a column of `Wanted.settings` holds labels."""
    return setting.startswith("label")


@dataclass(frozen=True)
class Rows:
    """Rows as a source holds them: `text` (string, or a list of words), `text_pair`, `label` (string, or one per word).

    `carried` are further columns, by their own names.
    """

    columns: dict[str, pa.ChunkedArray]
    where: Where
    carried: dict[str, pa.ChunkedArray] = field(default_factory=dict)


def is_words(column: pa.ChunkedArray) -> bool:
    """Return whether each row is a list."""
    return (
        pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type)
    )


def flat_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values of all rows, lists one after the other."""
    return pc.list_flatten(column) if is_words(column) else column


def mapped(column: pa.ChunkedArray, function: Callable[[pa.Array], pa.Array]) -> pa.ChunkedArray:
    """Return the column with `function` applied to its values; lists stay lists."""
    if not is_words(column):
        return pa.chunked_array([function(chunk) for chunk in column.chunks] or [function(pa.array([], column.type))])
    return pa.chunked_array([_mapped_lists(chunk, function) for chunk in column.chunks])


def _mapped_lists(chunk: pa.Array, function: Callable[[pa.Array], pa.Array]) -> pa.Array:
    lengths = pc.list_value_length(chunk).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), function(chunk.flatten()), mask=chunk.is_null())


def texts(column: pa.ChunkedArray, name: str, where: Where, typed: str) -> pa.ChunkedArray:
    """Return the column as strings or lists of strings; `typed` is the setting that chose it.

    Raises DataError if it holds anything else, or a row is null.
    """
    values = flat_values(column)
    if pa.types.is_dictionary(values.type):
        column = mapped(column, lambda flat: flat.cast(flat.type.value_type))
        values = flat_values(column)
    if pa.types.is_string_view(values.type):
        column = mapped(column, lambda flat: flat.cast(pa.large_string()))
        values = flat_values(column)
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        raise DataError(
            f"Column {name!r} holds {column.type}, not text ({where(0)})", remedy=f"Choose another with {typed}=COLUMN"
        )
    if column.null_count:
        row = pc.index(column.is_null(), True).as_py()
        raise DataError(f"{where(row)} has no value in column {name!r}", remedy='Write an empty text as ""')
    if values.null_count:
        row = next(row for row, words in enumerate(column) if None in words.as_py())
        raise DataError(f"{where(row)} has a missing word in column {name!r}")
    return column


def split_into_words(rows: Rows) -> Rows:
    """Return the rows with each text split at white space."""
    words = [[text.split() for text in chunk.to_pylist()] for chunk in rows.columns["text"].chunks]
    column = pa.chunked_array([pa.array(chunk, pa.list_(pa.string())) for chunk in words])
    return replace(rows, columns={"text": column})


def label_values(column: pa.ChunkedArray, name: str, where: Where) -> pa.ChunkedArray:
    """Return the labels as strings, numbers as written. Raises DataError if they are neither names nor numbers."""
    kind = flat_values(column).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    types = pa.types
    names_or_numbers = (
        types.is_string,
        types.is_large_string,
        types.is_string_view,
        types.is_integer,
        types.is_boolean,
        types.is_floating,
        types.is_null,
    )
    if not any(test(kind) for test in names_or_numbers):
        raise DataError(
            f"Column {name!r} holds {kind}, not labels ({where(0)})", allowed="strings, whole numbers, true and false"
        )
    return mapped(column, lambda flat: _without_nan(flat.cast(kind)).cast(pa.string()))


def _without_nan(values: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_nan(values), None, values) if pa.types.is_floating(values.type) else values


def checked(rows: Rows, wanted: Wanted) -> Rows:
    """Return the rows, with their columns converted to strings or lists of strings.

    Raises DataError if a column holds something else, a missing value, or not one label for each word. Labels may be
    null.
    """
    columns = dict(rows.columns)
    for setting, name in wanted.settings().items():
        _refuse_broken(columns[setting], name, rows.where)
        if is_label(setting):
            columns[setting] = label_values(columns[setting], name, rows.where)
        else:
            columns[setting] = texts(columns[setting], name, rows.where, wanted.typed.format(setting))
    _refuse_labelled_words(columns, wanted, rows.where)
    if wanted.target == "label" and "label" in columns and is_words(columns["label"]) and not is_words(columns["text"]):
        raise several_labels(wanted.label or "", rows.where(0))
    own_shape = wanted.target != "label"  # a text may have a list of labels
    shapes = {is_words(column) for setting, column in columns.items() if not (own_shape and is_label(setting))}
    if len(shapes) > 1 or ("text_pair" in columns and shapes == {True}):
        held = ", ".join(f"{wanted.settings()[setting]!r} holds {column.type}" for setting, column in columns.items())
        raise DataError(
            f"The columns do not match: {held} ({rows.where(0)})",
            allowed="texts with one label each, or lists of words with lists of as many labels",
        )
    if shapes == {True} and "label" in columns:
        _refuse_uneven(columns["text"], columns["label"], rows.where)
    for name, column in rows.carried.items():
        _refuse_broken(column, name, rows.where)
    return replace(rows, columns=columns)


def several_labels(name: str, where: str) -> DataError:
    """Return the error for a text with a list of labels where one is expected."""
    return DataError(
        f"Column {name!r} holds lists of labels ({where})",
        allowed="one label for each text",
        remedy="Use task=multilabel",
    )


def _refuse_labelled_words(columns: dict[str, pa.ChunkedArray], wanted: Wanted, where: Where) -> None:
    """Raise DataError if the task predicts for whole texts but the rows are sequences of words."""
    if wanted.target != "label" and is_words(columns["text"]) and any(map(is_label, columns)):
        raise DataError(
            f"The rows are lists of labelled words ({where(0)})", allowed="texts", remedy="Use task=tagging"
        )


def _refuse_broken(column: pa.ChunkedArray, name: str, where: Where) -> None:
    """Raise DataError if a string is not UTF-8: parquet files claim that it is, and no reader checks."""
    try:
        for chunk in column.chunks:
            chunk.validate(full=True)
            count_read(chunk.nbytes)
    except pa.ArrowInvalid as error:
        row = next((row for row, value in enumerate(column) if not _is_readable(value)), 0)
        raise DataError(
            f"{where(row)} has invalid text in column {name!r}: {error}", allowed="text in UTF-8"
        ) from error


def _is_readable(value: pa.Scalar) -> bool:
    try:
        value.as_py()
    except UnicodeDecodeError:
        return False
    return True


def _refuse_uneven(words: pa.ChunkedArray, labels: pa.ChunkedArray, where: Where) -> None:
    counts = zip(pc.list_value_length(words).to_pylist(), pc.list_value_length(labels).to_pylist(), strict=True)
    for row, (n_words, n_labels) in enumerate(counts):
        if n_labels is not None and n_words != n_labels:
            raise DataError(
                f"{where(row)} has {n_words} words and {n_labels} labels", allowed="one label for each word"
            )


def listed(names: Iterable[str], most: int = 20) -> str:
    """Return names separated by commas, for messages."""
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def no_such_column(where: str, wanted: Wanted, setting: str, existing: list[str]) -> DataError:
    """Return the error for a wanted column that is missing."""
    name, typed = wanted.settings()[setting], wanted.typed.format(setting)
    near = closest(name, existing)
    if near and near.strip() == name:
        remedy = f"Remove the spaces around {near!r} in the data"
    elif near:
        remedy = f"Set {shlex.quote(f'{typed}={near}')}"
    elif _holds_no_names(existing, wanted):
        remedy = f"Set {typed}=COLUMN. If these are not column names, add a first line with the names"
    else:
        remedy = f"Set {typed}=COLUMN"
    return DataError(f"{where} has no column {name!r}", allowed=listed(existing), remedy=remedy)


def _holds_no_names(existing: list[str], wanted: Wanted) -> bool:
    """Return whether the first line of a table is probably not that of the column names: a text, or a title alone."""
    names = set(wanted.settings().values())
    return any(len(one) > _LONGEST_NAME for one in existing) or (len(existing) < len(names) and not names & {*existing})
