"""Checks the inputs of a text estimator: a text or a pair of texts in each row, and a target for each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d

from encoderlab.data.examples import TextExample
from encoderlab.errors import DataError, UserError, one_line

ALLOWED = "a text in each row, or a pair of texts"


class InputError(DataError, ValueError):
    """Rows that an estimator cannot learn from or predict. It is a ValueError too, as scikit-learn expects."""


def refuse(error: UserError) -> NoReturn:
    """Raise a refusal of the rows as an InputError; its remedy names settings of files, which an estimator does not
    have.
    """
    raise InputError(error.wrong, allowed=error.allowed) from error


def texts_of(X: Any) -> list[TextExample]:
    """Return the rows of X: an iterable of texts or of pairs of texts, or a table of one or two columns of texts.

    Raises InputError for anything else, and if only some rows are pairs.
    """
    if hasattr(X, "toarray"):
        raise InputError("X is a sparse matrix, which cannot contain texts", allowed=ALLOWED)
    if isinstance(X, str) or not isinstance(X, Iterable) or (isinstance(X, np.ndarray) and not X.ndim):
        raise InputError(f"X is not a list of texts: {one_line(repr(X))[:80]}", allowed=f"an iterable with {ALLOWED}")
    examples = [_example(row, value) for row, value in enumerate(_values(X))]
    if len({example.text_pair is None for example in examples}) > 1:
        raise InputError("X contains both single texts and pairs of texts", allowed="one of the two")
    return examples


def _values(X: Any) -> Iterable[Any]:
    """Return the rows of X; rows of a table become tuples, or single values if it has one column."""
    if not hasattr(X, "__array__"):
        return X
    table = np.asarray(X, dtype=object)
    if table.ndim == 2 and not table.shape[1]:
        raise InputError(f"X has 0 feature(s) (shape={table.shape}) while a minimum of 1 is required", allowed=ALLOWED)
    if table.ndim == 2 and table.shape[1] == 1:
        return table[:, 0]
    return table if table.ndim == 1 else map(tuple, table)


def _example(row: int, value: Any) -> TextExample:
    if isinstance(value, str):
        return TextExample(str(value))
    if isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(text, str) for text in value):
        return TextExample(str(value[0]), str(value[1]))
    if isinstance(value, complex) or (
        isinstance(value, tuple | list) and any(isinstance(one, complex) for one in value)
    ):
        raise InputError("Complex data not supported: X contains numbers", allowed=ALLOWED)
    raise InputError(f"Row {row} of X is {one_line(repr(value))[:80]}", allowed=ALLOWED)


def targets_of(y: Any, n_rows: int, estimator: str) -> np.ndarray:
    """Return the targets, [rows]. Raises ValueError if they are missing, not as many as the rows, not one column, or
    only one.
    """
    if y is None:
        raise InputError(f"{estimator} requires y to be passed, but the target y is None")
    if n_rows < 2:
        raise InputError(f"X has {n_rows} sample{'' if n_rows else 's'}", allowed="at least two")
    targets = column_or_1d(y, warn=True)
    missing = next((row for row, value in enumerate(targets.tolist()) if value is None), None)
    if missing is not None:
        raise InputError(f"Row {missing} of y is None", allowed="a target for each row")
    assert_all_finite(targets, input_name="y")
    check_consistent_length(range(n_rows), targets)
    return targets
