"""What is handed to an estimator: texts, targets and weights, checked and written as the rows of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from io import IOBase
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.utils import assert_all_finite, check_array, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from encoderlab.data.examples import TextExample
from encoderlab.errors import DataError, one_line
from encoderlab.models.model import is_blank

TEXTS = "an iterable with a text in each row, or a pair of texts"
TEXT = "text"  # columns of the rows
TEXT_PAIR = "text_pair"
LABEL = "label"
WEIGHT = "sample_weight"


class InputError(DataError, ValueError):
    """Rows that an estimator cannot learn from or predict. It is a ValueError too, as scikit-learn expects."""


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """The rows that an estimator learns from.

    `targets` are [rows]: names of classes or numbers; or 0 and 1 for each of several labels, [rows, labels]. `names`
    are those of the classes or labels, in order (None: the targets are numbers). `weights` are [rows] (None: all
    alike).
    """

    examples: list[TextExample]
    targets: np.ndarray
    names: list[str] | None
    weights: np.ndarray | None

    @property
    def has_several_labels(self) -> bool:
        return self.targets.ndim == 2

    @property
    def label_columns(self) -> list[str] | None:
        """Return the names of the columns of several labels; None if there is a single target."""
        if not self.has_several_labels:
            return None
        return [f"{LABEL} {number}" for number in range(self.targets.shape[1])]

    @property
    def label_names(self) -> Any:
        """Return the names of the classes in order, or of several labels by their columns; None for numbers."""
        if self.label_columns is None or self.names is None:
            return self.names
        return dict(zip(self.label_columns, self.names, strict=True))

    def write(self, path: Path) -> None:
        """Write the rows as a parquet file."""
        columns: dict[str, Any] = {TEXT: pa.array([example.text for example in self.examples], pa.large_string())}
        if self.examples[0].text_pair is not None:
            columns[TEXT_PAIR] = pa.array([example.text_pair for example in self.examples], pa.large_string())
        if self.label_columns is None:
            columns[LABEL] = pa.array(self.targets.tolist())
        else:
            for name, marks in zip(self.label_columns, self.targets.T, strict=True):
                columns[name] = pa.array(marks.astype(np.int64))
        if self.weights is not None:
            columns[WEIGHT] = pa.array(self.weights)
        pq.write_table(pa.table(columns), path)


def examples_of(X: Any) -> list[TextExample]:
    """Return the rows of X: an iterable of texts or of pairs of texts, or a table of one or two columns of texts.

    Raises InputError for anything else, and if only some rows are pairs.
    """
    if hasattr(X, "__array__"):
        table = np.asarray(X, dtype=object)
        X = (table[:, 0] if table.ndim == 2 and table.shape[1] == 1 else table).tolist()
    # The letters of a text, the names of a dictionary, the lines of a file and the order of a set are no rows.
    if isinstance(X, str | bytes | Mapping | Set | IOBase) or not isinstance(X, Iterable):
        raise InputError(f"X is not a list of texts: {one_line(repr(X))[:80]}", allowed=TEXTS)
    examples = []
    for row, value in enumerate(X):
        texts = [value] if isinstance(value, str) else value
        is_row = isinstance(texts, tuple | list) and len(texts) in (1, 2)
        if not is_row or not all(isinstance(text, str) for text in texts):
            raise InputError(f"Row {row} of X is {one_line(repr(value))[:80]}", allowed=TEXTS)
        examples.append(TextExample(str(texts[0]), str(texts[1]) if len(texts) == 2 else None))
    if len({example.text_pair is None for example in examples}) > 1:
        raise InputError("X contains both single texts and pairs of texts", allowed="one of the two")
    return examples


def refuse_blanks(examples: Sequence[TextExample]) -> None:
    """Raise InputError for a blank text, from which nothing can be learned or predicted."""
    for row, example in enumerate(examples):
        if is_blank(example):
            raise InputError(f"Row {row} of X has a blank text", allowed="texts that are not blank")


def single_targets(y: Any, n_rows: int, estimator: str) -> np.ndarray:
    """Return the targets, [rows]. Raises ValueError unless there is one for each of several rows."""
    _refuse_missing(y, n_rows, estimator)
    targets = column_or_1d(_without_nullable_type(y), warn=True)
    values = targets.tolist()
    if None in values:
        raise InputError(f"Row {values.index(None)} of y is None", allowed="a target for each row")
    assert_all_finite(targets, input_name="y")
    check_consistent_length(range(n_rows), targets)
    return targets


def _without_nullable_type(y: Any) -> Any:
    """Return a complete column of pandas' nullable type, such as Int64, as NumPy's: scikit-learn makes floats of it."""
    kind = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
    if kind is None or kind.kind not in "biuf" or y.isna().any():
        return y
    return y.to_numpy(dtype=kind)


def classes_of(y: Any, n_rows: int, estimator: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes, sorted, and the class id of each row. Raises ValueError unless there are two and more."""
    targets = single_targets(y, n_rows, estimator)
    check_classification_targets(targets)
    classes, ids = np.unique(targets, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"y has {len(classes)} class", allowed="at least two classes")
    return classes, ids


def has_several_labels(y: Any) -> bool:
    """Return whether y is a table of two columns or more."""
    shape = np.shape(y) if y is not None else ()
    return len(shape) == 2 and shape[1] > 1


def label_sets(y: Any, n_rows: int, estimator: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels, the columns' names or their numbers, and 0 or 1 for each row and label: [rows, labels].

    Raises ValueError for anything else.
    """
    _refuse_missing(y, n_rows, estimator)
    labels = np.array(y.columns) if hasattr(y, "columns") else np.arange(np.shape(y)[1])
    marks = check_array(y, dtype="numeric", input_name="y")
    if not np.isin(marks, (0, 1)).all():
        raise InputError("y has several columns, and other values than 0 and 1", allowed="0 or 1 for each label")
    check_consistent_length(range(n_rows), marks)
    return labels, marks.astype(np.int64)


def row_weights(sample_weight: Any, n_rows: int) -> np.ndarray | None:
    """Return what each row weighs, [rows]; None: all alike. Raises InputError for weights that mean nothing."""
    if sample_weight is None:
        return None
    weights = column_or_1d(sample_weight).astype(np.float64)
    if len(weights) != n_rows:
        raise InputError(f"sample_weight has {len(weights):,} weights for {n_rows:,} rows", allowed="one for each row")
    if not np.isfinite(weights).all() or weights.min() < 0 or not weights.any():
        problem = "sample_weight has weights that are negative or not finite, or all are 0"
        raise InputError(problem, allowed="numbers of 0 and more, at least one above 0")
    return weights


def _refuse_missing(y: Any, n_rows: int, estimator: str) -> None:
    """Raise InputError without targets, or with fewer than two rows."""
    if y is None:
        raise InputError(f"{estimator} requires y to be passed, but the target y is None")
    if n_rows < 2:
        raise InputError(f"X has {n_rows} sample{'' if n_rows else 's'}", allowed="at least two")
