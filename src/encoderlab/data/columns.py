"""The columns that a user names or that are guessed, and the checks that turn them into texts, words and targets."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from encoderlab.errors import DataError, closest

if TYPE_CHECKING:
    from encoderlab.batch import TargetKind

_LONGEST_NAME = 40  # characters of a column's name; longer ones are probably texts
CARRIED = "+"  # before the names of columns that are only carried along
JOINT = " | "  # between the columns that make up a text
_YES, _NO = ("1", "1.0", "true"), ("0", "0.0", "false")
Where = Callable[[int], str]  # returns how messages name a row, given its index
types = pa.types


@dataclass(frozen=True)
class Columns:
    """The columns to read, by the user's names; None if a column is not needed."""

    text: str | Sequence[str]  # several are joined
    text_pair: str | None = None
    label: str | None = None
    setting: str = "dataset.{}"  # the setting that names a column, with {} for text, text_pair or label
    target: TargetKind = "label"  # what the label column is read for
    label_columns: tuple[str, ...] = ()  # instead of `label`: columns of 0 and 1, one for each label
    others: bool = False  # further columns of single values are carried along
    drop: bool = False  # rows may lack a text or a label
    documents: bool = False  # a row of a .txt file ends at a blank line, not at every line

    def sibling(self, setting: str) -> str:
        """Return another setting of the same command: dataset.quoting, or quoting for `predict`."""
        return f"dataset.{setting}" if self.setting.startswith("dataset.") else setting

    def by_setting(self) -> dict[str, str]:
        """Return each column by the setting that names it."""
        texts = {f"text[{index}]": name for index, name in enumerate(self.parts)}
        texts = {"text": self.parts[0]} if len(self.parts) == 1 else texts
        named = {**texts, "text_pair": self.text_pair, "label": self.label}
        named |= {f"label_columns[{index}]": name for index, name in enumerate(self.label_columns)}
        return {setting: name for setting, name in named.items() if name is not None}

    def texts(self) -> list[str]:
        """Return the names of the columns that hold texts."""
        return [name for name in (*self.parts, self.text_pair) if name is not None]

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the columns that make up a row's text."""
        return (self.text,) if isinstance(self.text, str) else tuple(self.text)

    def to_read(self, existing: Sequence[str], where: str) -> list[str]:
        """Return the columns to read out of the `existing`, in order. DataError if one is missing or occurs twice."""
        used = self.by_setting()
        for setting, name in used.items():
            if name not in existing:
                near = closest(name, existing, cutoff=0.65)
                remedy = f"Set {shlex.quote(self.setting.format(setting) + '=' + (near or 'COLUMN'))}"
                if not near and any(len(one) > _LONGEST_NAME for one in existing):
                    remedy += ". If these are not column names, add a first line with the names"
                raise MissingColumnError(f"{where} has no column {name!r}", allowed=listed(existing), remedy=remedy)
            if existing.count(name) > 1:
                raise DataError(f"{where} has more than one column {name!r}", remedy="Give each column its own name")
        others = {name for name in existing if existing.count(name) == 1} if self.others else set()
        return [name for name in dict.fromkeys(existing) if name in {*used.values(), *others}]


class MissingColumnError(DataError):
    """A file lacks a column of texts or labels."""


@dataclass(frozen=True)
class RawRows:
    """The rows of a split before its labels have ids.

    `table` has the columns `text` (string, or a list of words), `text_pair` and `label` (string, a list of strings, or
    a number), as far as they were named. Columns that are carried along have their own names behind CARRIED.
    """

    table: pa.Table
    where: Where

    @property
    def labels(self) -> pa.ChunkedArray:
        """Return the label column."""
        return self.table["label"]

    def with_labels(self, column: pa.ChunkedArray) -> RawRows:
        """Return the rows with this label column."""
        table = self.table.drop_columns("label") if "label" in self.table.column_names else self.table
        return replace(self, table=table.append_column("label", column))


def concatenated(parts: Sequence[RawRows]) -> RawRows:
    """Return the rows of several files, one after another; further columns are texts if a type differs between files.

    Raises DataError if the types of texts or labels do not go together.
    """
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(part.table) for part in parts)])

    def where(row: int) -> str:
        part = int(np.searchsorted(starts, row, side="right")) - 1
        return parts[part].where(row - int(starts[part]))

    def as_text(field: pa.Field) -> pa.Field:
        return field.with_type(pa.large_string()) if field.name.startswith(CARRIED) else field

    tables = [part.table for part in parts]
    with suppress(pa.ArrowException):
        return RawRows(pa.concat_tables(tables, promote_options="permissive"), where)
    try:
        texts = [table.cast(pa.schema(map(as_text, table.schema))) for table in tables]
        return RawRows(pa.concat_tables(texts, promote_options="permissive"), where)
    except pa.ArrowException as error:
        wrong = f"{parts[0].where(0)} and the other files cannot be combined: {error}"
        raise DataError(wrong, remedy="Give a column the same type in every file") from error


def is_list(column: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether each row is a list."""
    return types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type)


def flat(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return the values of all rows, lists one after the other."""
    return pc.list_flatten(column) if is_list(column) else column


def mapped(column: pa.ChunkedArray, function: Callable[[pa.Array], pa.Array]) -> pa.ChunkedArray:
    """Return the column with `function` applied to its values; lists stay lists."""
    chunks = [_mapped(chunk, function) for chunk in column.chunks]
    return pa.chunked_array(chunks or [_mapped(pa.array([], column.type), function)])


def _mapped(array: pa.Array, function: Callable[[pa.Array], pa.Array]) -> pa.Array:
    if not is_list(array):
        return function(array)
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, function(array.flatten()), mask=array.is_null())


def can_be_carried(kind: pa.DataType) -> bool:
    """Return whether a column holds texts, numbers, truth values or times."""
    kind = kind.value_type if types.is_dictionary(kind) else kind
    tests = (types.is_string, types.is_large_string, types.is_string_view, types.is_primitive, types.is_null)
    return any(test(kind) for test in (*tests, types.is_decimal))


def checked(batch: dict[str, pa.Array], columns: Columns, where: Where) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Return text, text_pair and label of a batch of rows given by column name, and which rows are kept: bool [rows].

    Texts become strings or lists of strings; labels strings, lists of strings, or float64 if `columns.target` is a
    number. All rows are kept unless `columns.drop`. Raises DataError at the first row that holds something else, a
    missing text, or not one label for each word.
    """
    settings = columns.by_setting()
    arrays = {}
    for setting, name in settings.items():
        array = plain(batch[name])
        try:
            array.validate(full=True)  # parquet files claim that their strings are UTF-8, and no reader checks
        except pa.ArrowInvalid as error:
            wrong = f"{where(0)} or a row after it has invalid text in column {name!r}: {error}"
            raise DataError(wrong, allowed="text in UTF-8") from error
        is_label = setting.startswith("label")
        arrays[setting] = _labels(array, name, where) if is_label else _texts(array, name, where, columns)
    kept = np.ones(len(next(iter(arrays.values()))), bool)
    if columns.drop:
        for setting, array in arrays.items():
            if not (setting.startswith("label") and columns.target == "label_set"):
                kept &= ~missing(array)
        arrays = {setting: array.filter(pa.array(kept)) for setting, array in arrays.items()}
        rows, all_rows = np.flatnonzero(kept), where
        where = lambda row: all_rows(int(rows[row]))  # noqa: E731
    if len(columns.parts) > 1:
        texts = [arrays.pop(setting) for setting in list(arrays) if setting.startswith("text[")]
        if any(map(is_list, texts)):
            raise DataError(f"dataset.text joins columns of texts, and these are lists of words ({where(0)})")
        arrays["text"] = pc.binary_join_element_wise(
            *(part.cast(pa.large_string()) for part in texts), pa.scalar(JOINT, pa.large_string())
        )
    _refuse_shapes(arrays, columns, where)
    if columns.label_columns:
        named = {name: arrays.pop(setting) for setting, name in settings.items() if setting.startswith("label")}
        arrays["label"] = _indicated(named, where)
    elif columns.target == "number" and "label" in arrays:
        arrays["label"] = _numbers(arrays["label"], settings["label"], where)
    return arrays, kept


def missing(array: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return which rows have no value: null, blank, or a list that is empty or has a null. bool [rows]."""
    if is_list(array):
        return np.array([not row or None in row for row in array.to_pylist()], bool)
    return np.asarray(pc.equal(pc.utf8_trim_whitespace(array), "").fill_null(True), bool)


def plain(array: pa.Array) -> pa.Array:
    """Return the array with dictionaries and string views written out, in types of which any rows can be taken."""
    kind = flat(array).type
    if types.is_dictionary(kind):
        array = _mapped(array, lambda values: values.cast(kind.value_type))
        kind = kind.value_type
    return _mapped(array, lambda values: values.cast(pa.large_string())) if types.is_string_view(kind) else array


def _texts(array: pa.Array, name: str, where: Where, columns: Columns) -> pa.Array:
    setting = columns.setting.format("text" if name in columns.parts else "text_pair")
    kind = flat(array).type
    if types.is_null(kind):
        array, kind = array.cast(pa.string()), pa.string()
    if not (types.is_string(kind) or types.is_large_string(kind)):
        wrong = f"Column {name!r} holds {array.type}, not text ({where(0)})"
        raise DataError(wrong, remedy=f"Choose another with {setting}=COLUMN")
    if not columns.setting.startswith("dataset.") and not is_list(array):
        array = array.fill_null("")  # as an empty cell of csv, for which nothing is predicted
    lacking = missing(array) if is_list(array) and flat(array).null_count else np.asarray(array.is_null())
    if lacking.any() and not columns.drop:
        wrong = f"{where(int(lacking.argmax()))} has no value in column {name!r}"
        raise DataError(wrong, remedy='Write an empty text as ""')
    return array


def _labels(array: pa.Array, name: str, where: Where) -> pa.Array:
    """Return labels as strings, numbers as written, without white space around them; NaN is a missing label."""
    kind = flat(array).type
    tests = (types.is_string, types.is_large_string, types.is_integer, types.is_boolean, types.is_floating)
    if not (types.is_null(kind) or any(test(kind) for test in tests)):
        allowed = "strings, whole numbers, true and false"
        raise DataError(f"Column {name!r} holds {kind}, not labels ({where(0)})", allowed=allowed)
    if types.is_floating(kind):
        array = _mapped(array, lambda values: pc.if_else(pc.is_nan(values), None, values))
    written = _mapped(array, lambda values: values.cast(pa.string()))
    trimmed = _mapped(written, pc.utf8_trim_whitespace)
    if (changed := pc.sum(pc.not_equal(flat(written), flat(trimmed))).as_py() or 0) > 0:
        print(f"encoderlab: {where(0)}: spaces around labels are ignored ({changed:,} labels)", file=sys.stderr)
    return trimmed


def _refuse_shapes(arrays: dict[str, pa.Array], columns: Columns, where: Where) -> None:
    """Raise DataError if texts, pairs and labels do not go together."""
    words, label = is_list(arrays["text"]), arrays.get("label")
    paired = "text_pair" in arrays and (words or is_list(arrays["text_pair"]))
    if paired or (words and columns.target != "label" and len(arrays) > 1):
        raise DataError(f"The rows are lists of words ({where(0)})", allowed="texts", remedy="Use task=tagging")
    if columns.target != "label" or label is None:
        return
    if is_list(label) != words:
        wrong = f"The {'texts' if words else 'labels'} are lists, and the {'labels' if words else 'texts'} are not"
        remedy = "Use task=multilabel for several labels of a text"
        raise DataError(f"{wrong} ({where(0)})", allowed="one label per text or word", remedy=remedy)
    if words:
        n_words, n_labels = pc.list_value_length(arrays["text"]), pc.list_value_length(label)
        uneven = np.asarray(pc.not_equal(n_words, n_labels).fill_null(False))
        if uneven.any():
            row = int(uneven.argmax())
            wrong = f"{where(row)} has {n_words[row]} words and {n_labels[row]} labels"
            raise DataError(wrong, allowed="one label for each word")


def _numbers(array: pa.Array, name: str, where: Where) -> pa.Array:
    cells = array.to_pylist()
    row = next((row for row, cell in enumerate(cells) if cell is not None and not is_number(cell)), None)
    if row is not None:
        wrong = f"{where(row)} has {str(cells[row])[:60]!r} in column {name!r}, which is not a number"
        remedy = "Correct it (decimals have a point), or use task=classification if these are classes"
        raise DataError(wrong, allowed="a number in each row", remedy=remedy)
    return pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())


def is_number(text: Any) -> bool:
    """Return whether a text is a finite number."""
    try:
        return bool(np.isfinite(float(text)))
    except (ValueError, TypeError):
        return False


def _indicated(columns: dict[str, pa.Array], where: Where) -> pa.Array:
    """Return for each row the list of those columns that hold a 1."""
    marks = []
    for name, column in columns.items():
        cells = pc.utf8_lower(column.fill_null(""))
        yes, no = (np.asarray(pc.is_in(cells, value_set=pa.array(values))) for values in (_YES, _NO))
        if not (yes | no).all():
            row = int(np.argmin(yes | no))
            raise DataError(f"{where(row)} has neither 0 nor 1 in column {name!r}: {cells[row].as_py()[:60]!r}")
        marks.append(yes)
    names = np.array(list(columns))
    return pa.array([names[row].tolist() for row in np.stack(marks, axis=1)], pa.list_(pa.string()))


def listed(names: Iterable[str], most: int = 20) -> str:
    """Return names separated by commas, for messages."""
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


Cells = Sequence[str]  # the first values of a column
_TEXTS = "text review sentence content body comment message tweet query question utterance document abstract"
_DATE = re.compile(r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}")
_LABELS = "label class category target sentiment stars rating intent topic verdict polarity emotion grade score y"


def guess_text(columns: Mapping[str, Cells], where: str, setting: str = "dataset.text") -> str:
    """Return the column of texts: by its name, or the one with by far the most letters. Raises DataError in doubt."""
    letters = {name: sum(map(str.isalpha, "".join(cells))) for name, cells in columns.items()}
    pool = {name: letters[name] for name in _with_known_names(columns, _TEXTS) or columns}
    most = max(pool.values(), default=0)
    return _only([name for name, count in pool.items() if 2 * count > most], setting, columns, where)


def guess_label(columns: Mapping[str, Cells], target: TargetKind, where: str) -> str:
    """Return the column of labels (or numbers): by its name, or the only possible one. Raises DataError if in doubt.

    Dates are no labels, and neither is a column of mostly different values, such as an id.
    """
    distinct = {name: {cell for cell in cells if cell.strip()} for name, cells in columns.items()}
    possible = [name for name, values in distinct.items() if 1 < len(values) < max(len(columns[name]), 3)]
    if target == "number":
        possible = [name for name, values in distinct.items() if len(values) > 1 and all(map(is_number, values))]
    possible = [name for name in possible if not all(map(_DATE.match, distinct[name]))]
    few = [name for name in possible if target == "number" or 2 * len(distinct[name]) <= max(len(columns[name]), 4)]
    few.sort(key=lambda name: len(distinct[name]))
    return _only(_with_known_names(possible, _LABELS) or few, "dataset.label", columns, where)


def _only(names: Sequence[str], setting: str, candidates: Iterable[str], where: str) -> str:
    if len(names) != 1:
        wrong = f"{where} does not show which column holds the {'label' if 'label' in setting else 'text'}s"
        raise DataError(wrong, allowed=listed(candidates), remedy=f"Set {setting}={[*names, 'COLUMN'][0]}")
    return names[0]


def _with_known_names(columns: Iterable[str], known: str) -> list[str]:
    return [name for name in columns if {*re.split(r"[\W_]+", name.casefold())} & {*known.split()}]
