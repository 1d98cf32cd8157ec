"""Inputs of an estimator: texts or pairs in any container, a target for each, and a ValueError for anything else."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from encoderlab.data.examples import TextExample
from encoderlab.estimators.text_estimators import texts_of


@given(st.lists(st.text(max_size=5), max_size=5))
def test_texts_are_read_from_any_container(texts):
    wanted = [TextExample(text) for text in texts]
    series = pd.Series(texts, dtype=object)
    for container in (texts, tuple(texts), iter(texts), np.array(texts, object), series, series.to_frame("text")):
        assert texts_of(container) == wanted


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), min_size=1, max_size=5))
def test_pairs_are_tuples_lists_or_two_columns(pairs):
    wanted = [TextExample(*pair) for pair in pairs]
    frame = pd.DataFrame(pairs, columns=["premise", "hypothesis"], dtype=object)
    for container in (pairs, list(map(list, pairs)), frame, frame.to_numpy()):
        assert texts_of(container) == wanted


@pytest.mark.parametrize(
    ("X", "refusal"),
    [
        (csr_matrix((2, 2)), "X is not a list of texts|Row 0 of X is"),
        (
            "one text",
            "X is not a list of texts: 'one text'. Allowed: an iterable with a text in each row, or a pair of texts",
        ),
        (7, "X is not a list of texts: 7"),
        (["a", None], "Row 1 of X is None"),
        ([("a", "b", "c")], r"Row 0 of X is \('a', 'b', 'c'\)"),
        (pd.DataFrame({"a": ["x"], "b": [3]}), r"Row 0 of X is \['x', 3\]"),
        (["a", ("b", "c")], "X contains both single texts and pairs of texts. Allowed: one of the two"),
    ],
)
def test_rows_that_are_not_texts_are_refused(X, refusal):
    with pytest.raises(ValueError, match=refusal) as refused:
        texts_of(X)
    assert "\n" not in str(refused.value)
