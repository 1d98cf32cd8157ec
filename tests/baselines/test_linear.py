"""What the linear baselines read: words, single symbols and pairs of neighbours, from as many rows as a quick fit
allows.
"""

import pyarrow as pa
import pytest

from encoderlab.baselines.linear import MOST_ROWS, cannot_read, joined, tfidf, too_many_cells
from encoderlab.data.examples import Split, TextExample


def split_of(texts, labels):
    return Split(pa.table({"text": texts, "label": labels}))


def test_words_single_symbols_and_pairs_of_neighbours_are_features():
    features = tfidf().fit(["Good film!", "()"]).vocabulary_
    assert set(features) == {"good", "film", "!", "good film", "film !", "(", ")", "( )"}


@pytest.mark.parametrize(("n_labels", "features"), [(1, 100_000), (200, 100_000), (5_000, 4_000)])
def test_one_regression_of_many_labels_has_fewer_features_so_that_it_fits_into_memory(n_labels, features):
    assert tfidf(n_labels).max_features == features


def test_rows_times_labels_are_bounded():
    assert too_many_cells(2, 3, 6) == ""
    assert "at most 6 rows times labels, but training has 9" in too_many_cells(3, 3, 6)


def test_both_texts_of_a_pair_are_one_text():
    assert joined(TextExample("one", None, 0)) == "one"
    assert joined(TextExample("one", "two", 0)) == "one two"


@pytest.mark.parametrize(
    ("texts", "labels", "reason"),
    [
        (["good", "bad"], [1, 0], ""),
        (["", " "], [1, 0], "every training text is empty"),
        (["good", "bad"], [None, None], "every training text is empty"),
    ],
)
def test_a_model_of_words_needs_labelled_texts_with_words(texts, labels, reason):
    found = cannot_read(split_of(texts, labels))
    assert reason in found and bool(found) == bool(reason)


def test_only_labelled_rows_count_towards_the_limit(monkeypatch):
    assert MOST_ROWS == 200_000
    monkeypatch.setattr("encoderlab.baselines.linear.MOST_ROWS", 2)
    assert cannot_read(split_of(["good", "bad", "new"], [1, 0, None])) == ""
    assert "at most 2 rows, but training has 3" in cannot_read(split_of(["good", "bad", "new"], [1, 0, 0]))
