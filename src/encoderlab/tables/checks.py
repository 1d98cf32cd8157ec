"""The checks that turn columns of a table into texts, words and targets, and refuse a row that holds something else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from encoderlab.errors import DataError
from encoderlab.settings import typed
from encoderlab.system.messages import say
from encoderlab.tables.columns import JOINT, NO, YES, Columns, Where, choices_named, listed_names
from encoderlab.tables.label_cells import NAMES_OF_LABELS
from encoderlab.tables.markup import without_html
from encoderlab.tables.raw_rows import flat, is_list, mapped_array, plain
from encoderlab.tables.word_files import with_words

LONGEST_TEXT = 10_000_000  # bytes in UTF-8: a novel has one, and tokenising ten takes seconds
types = pa.types


def checked(batch: dict[str, pa.Array], columns: Columns, where: Where) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Return text, text_pair and label of a batch of rows given by column name, and which rows are kept: bool [rows].

    Texts become strings or lists of strings, labels strings or lists of strings. All rows are kept unless
    `columns.drop`. Raises DataError at the first row that holds something else, a missing text, or not one label for
    each word.
    """
    # Each column by itself: texts are texts, labels are labels, and no cell is longer than a novel.
    settings = columns.by_setting()
    arrays = {}
    for setting, name in settings.items():
        array = plain(batch[name])
        try:
            array.validate(full=True)  # parquet files claim that their strings are UTF-8, and no reader checks
        except pa.ArrowInvalid as error:
            problem = f"{where(0)} or a row after it has invalid text in column {name!r}: {error}"
            raise DataError(problem, allowed="text in UTF-8") from error
        is_label = setting.startswith("label")
        arrays[setting] = _labels(array, name, where) if is_label else _texts(array, name, where, columns)
        if not columns.documents:
            lengths = np.asarray(pc.binary_length(flat(arrays[setting])).fill_null(0))
            longest = int(lengths.argmax()) if len(lengths) else 0
            place = f"{where(0)} or a row after it" if is_list(array) else where(longest)
            refuse_long(int(lengths.max(initial=0)), place, name)

    # Rows that lack something are left out if the user wants that, and otherwise refused below.
    kept = np.ones(len(next(iter(arrays.values()))), bool)
    if columns.drop:
        for setting, array in arrays.items():
            may_lack = setting.startswith("label") and columns.target == "label_set"
            if not may_lack:
                kept &= ~missing(array)
        arrays = {setting: array.filter(pa.array(kept)) for setting, array in arrays.items()}
        where = _where_among(np.flatnonzero(kept), where)

    # Several columns may make one text, and several columns of 0 and 1 a set of labels.
    if len(columns.parts) > 1:
        arrays = _with_joined_texts(arrays, where)
    if columns.target == "label" and "label" in arrays and not is_list(arrays["text"]):
        arrays["label"] = _without_lists_of_one(arrays["label"])
    arrays = with_words(arrays, columns, where)
    _refuse_shapes(arrays, columns, where)
    if columns.label_columns:
        named = {name: arrays.pop(setting) for setting, name in settings.items() if setting.startswith("label")}
        arrays["label"] = _indicated(named, where)
    return arrays, kept


def blank_rows(batch: dict[str, pa.Array], columns: Columns) -> np.ndarray:
    """Return which rows have neither a text nor a label, where labels are read for training: bool [rows]."""
    n_rows = len(next(iter(batch.values())))
    blank = np.zeros(n_rows, bool)
    targets = [columns.label] if columns.label is not None else [*columns.label_columns]
    if not targets or not columns.setting.startswith("dataset."):
        return blank

    # Labels come first: in most files each row has one, and no text has to be looked at.
    for place, name in enumerate([*targets, *columns.texts()]):
        array = plain(batch[name])
        kind = flat(array).type
        is_text = types.is_string(kind) or types.is_large_string(kind)
        lacks = missing(array) if is_text and not is_list(array) else np.asarray(array.is_null())
        if is_text and name in columns.label_columns:  # formulas below the rows give a 0 for each label
            lacks |= np.asarray(pc.is_in(pc.utf8_lower(array), value_set=pa.array(NO, kind)))
        blank = lacks if place == 0 else blank & lacks
        if not blank.any():
            break
    return blank


def missing(array: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return which rows have no value: null, blank, or a list that is empty or has a null. bool [rows]."""
    if is_list(array):
        return np.array([not row or None in row for row in array.to_pylist()], bool)
    return np.asarray(pc.equal(pc.utf8_trim_whitespace(array), "").fill_null(True), bool)


def refuse_long(n_bytes: int, place: str, name: str) -> None:
    """Raise DataError if a cell is longer than any text that a model could read."""
    if n_bytes > LONGEST_TEXT:
        problem = f"{place} has a text of {n_bytes:,} bytes in column {name!r}"
        raise DataError(problem, allowed=f"{LONGEST_TEXT:,} bytes", remedy="Divide it into several rows")


def _where_among(rows: np.ndarray, where: Where) -> Where:
    """Return how messages name a row, given its index among these rows."""
    return lambda row: where(int(rows[row]))


def _texts(array: pa.Array, name: str, where: Where, columns: Columns) -> pa.Array:
    """Return texts, or lists of words. A missing text is empty where nothing is learned from it."""
    setting = columns.setting.format("text" if name in columns.parts else "text_pair")
    kind = flat(array).type
    if types.is_null(kind):
        kind = pa.string()
        array = array.cast(kind)
    if not (types.is_string(kind) or types.is_large_string(kind)):
        fields = [f"{name}.{field.name}" for field in kind] if types.is_struct(kind) and not is_list(array) else []
        holds = f"objects with the fields {listed_names(fields)}" if fields else str(array.type)
        problem = f"Column {name!r} holds {holds}, not text ({where(0)})"
        raise DataError(problem, remedy=f"Set {typed(setting, fields[0])}" if fields else f"Set {setting}=COLUMN")
    for_training = columns.setting.startswith("dataset.")
    if not for_training and not is_list(array):
        array = array.fill_null("")  # as an empty cell of csv, for which nothing is predicted
    if columns.strip_html:
        array = mapped_array(array, _without_html)
    has_null_words = is_list(array) and flat(array).null_count
    lacking = missing(array) if has_null_words else np.asarray(array.is_null())
    if lacking.any() and not columns.drop:
        problem = f"{where(int(lacking.argmax()))} has no value in column {name!r}"
        instead = ", or set dataset.on_missing=drop" if setting.startswith("dataset.") else ""
        raise DataError(problem, remedy=f'Write an empty text as ""{instead}')
    return array


def _without_html(texts: pa.Array) -> pa.Array:
    stripped = [None if text is None else without_html(text) for text in texts.to_pylist()]
    return pa.array(stripped, texts.type)


def _labels(array: pa.Array, name: str, where: Where) -> pa.Array:
    """Return labels as strings, numbers as written, without white space around them; NaN is a missing label."""
    kind = flat(array).type
    if types.is_struct(kind):  # an object stands for a label by its name, as in JSON
        named = next((field for field in NAMES_OF_LABELS if kind.get_field_index(field) >= 0), None)
        array = array if named is None else mapped_array(array, lambda values: pc.struct_field(values, named))
        kind = flat(array).type
    tests = (types.is_string, types.is_large_string, types.is_integer, types.is_boolean, types.is_floating)
    if not (types.is_null(kind) or any(test(kind) for test in tests)):
        allowed = "strings, whole numbers, true and false"
        raise DataError(f"Column {name!r} holds {kind}, not labels ({where(0)})", allowed=allowed)
    if types.is_floating(kind):
        array = mapped_array(array, lambda values: pc.if_else(pc.is_nan(values), None, values))
    written = mapped_array(array, lambda values: values.cast(pa.string()))
    trimmed = mapped_array(written, pc.utf8_trim_whitespace)
    n_changed = pc.sum(pc.not_equal(flat(written), flat(trimmed))).as_py() or 0
    if n_changed:
        first = int(np.argmax(pc.not_equal(flat(written), flat(trimmed)).to_numpy(zero_copy_only=False)))
        of_row = where(first if len(flat(written)) == len(written) else 0)
        say(f"{of_row}: spaces around labels are ignored ({n_changed:,} label{'s' * (n_changed != 1)})")
    return trimmed


def _without_lists_of_one(labels: pa.Array) -> pa.Array:
    """Return lists of at most one label as labels, and anything else as it is."""
    if not is_list(labels) or (pc.max(pc.list_value_length(labels)).as_py() or 0) > 1:
        return labels
    return pa.array([row[0] if row else None for row in labels.to_pylist()], flat(labels).type)


def _with_joined_texts(arrays: dict[str, pa.Array], where: Where) -> dict[str, pa.Array]:
    """Return the arrays with one text instead of its parts."""
    parts = [array for setting, array in arrays.items() if setting.startswith("text[")]
    if any(map(is_list, parts)):
        raise DataError(f"dataset.text joins columns of texts, and these are lists of words ({where(0)})")
    others = {setting: array for setting, array in arrays.items() if not setting.startswith("text[")}
    texts = [part.cast(pa.large_string()) for part in parts]
    joined = pc.binary_join_element_wise(*texts, pa.scalar(JOINT, pa.large_string()))
    lengths = [pc.utf8_length(pc.utf8_trim_whitespace(text)) for text in texts]
    are_blank = pc.equal(pc.max_element_wise(*lengths, skip_nulls=False), 0)  # no separator makes up a text
    return others | {"text": pc.if_else(are_blank, pa.scalar("", pa.large_string()), joined)}


def _refuse_shapes(arrays: dict[str, pa.Array], columns: Columns, where: Where) -> None:
    """Raise DataError if texts, pairs and labels do not go together."""
    words = is_list(arrays["text"])
    label = arrays.get("label")
    paired = "text_pair" in arrays and (words or is_list(arrays["text_pair"]))
    if paired or (words and columns.target not in ("label", "words") and len(arrays) > 1):
        raise DataError(f"The rows are lists of words ({where(0)})", allowed="texts", remedy="Use task=tagging")
    if columns.target not in ("label", "words") or label is None:
        return
    if is_list(label) != words:
        problem = f"The {'texts' if words else 'labels'} are lists, and the {'labels' if words else 'texts'} are not"
        remedy = "Use task=multilabel for several labels of a text"
        raise DataError(f"{problem} ({where(0)})", allowed="one label per text or word", remedy=remedy)
    if words:
        n_words = pc.list_value_length(arrays["text"])
        n_labels = pc.list_value_length(label)
        uneven = np.asarray(pc.not_equal(n_words, n_labels).fill_null(False))
        if uneven.any():
            row = int(uneven.argmax())
            problem = f"{where(row)} has {n_words[row]} words and {n_labels[row]} labels"
            raise DataError(problem, allowed="one label for each word")


def _indicated(columns: dict[str, pa.Array], where: Where) -> pa.Array:
    """Return for each row the list of those columns that hold a 1."""
    marks = []
    for name, column in columns.items():
        cells = pc.utf8_lower(pc.utf8_trim_whitespace(column.fill_null("")))
        yes = np.asarray(pc.is_in(cells, value_set=pa.array(YES)))
        yes |= np.asarray(pc.is_in(cells, value_set=pa.array(choices_named(name))))
        no = np.asarray(pc.is_in(cells, value_set=pa.array(NO)))
        if not no.any():  # a column of crosses, where none stands
            no = np.asarray(pc.equal(cells, ""))
        known = yes | no
        if not known.all():
            row = int(np.argmin(known))
            problem = f"{where(row)} has {cells[row].as_py()[:60]!r} in column {name!r}"
            raise DataError(problem, allowed="0 or 1, no or yes, blank or x: whether the label applies")
        marks.append(yes)
    names = np.array(list(columns))
    labels = [names[row_marks].tolist() for row_marks in np.stack(marks, axis=1)]
    return pa.array(labels, pa.list_(pa.string()))
