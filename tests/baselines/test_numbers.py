"""Baselines for numbers: the mean of training, and ridge regression on words."""

import pyarrow as pa
import pytest

from encoderlab.baselines.numbers import for_numbers
from encoderlab.data.examples import Split

ROWS = [("a cheap and small room", 10.0), ("a large room with a view", 30.0)] * 15


def split(rows):
    return Split(
        pa.table({"text": [text for text, _ in rows], "label": pa.array([number for _, number in rows], pa.float64())})
    )


def test_the_mean_is_that_of_training():
    found = for_numbers(split([("a", 1.0), ("b", 4.0)]), split([("c", 9.0), ("d", 9.5)]))["mean"]
    assert found.predicted.tolist() == [2.5, 2.5]
    assert found.figures["mae"] == pytest.approx(6.75) and found.figures["seconds"] >= 0


def test_words_predict_the_numbers():
    found = for_numbers(split(ROWS), split([("a cheap bed", 10.0), ("the view", 30.0), ("cheap, small", 9.0)]))
    cheap, view, small = found["tfidf_ridge"].predicted
    assert small < view > cheap
    assert found["tfidf_ridge"].figures["mae"] < found["mean"].figures["mae"]


def test_rows_without_a_number_are_predicted_but_neither_trained_on_nor_scored():
    found = for_numbers(split([("a", 1.0), ("b", None), ("c", 3.0)]), split([("a", None), ("b", 2.0)]))["mean"]
    assert found.predicted.tolist() == [2.0, 2.0] and found.figures["mae"] == 0.0


def test_texts_without_words_are_skipped_with_a_reason():
    found = for_numbers(split([(" ", 1.0), ("", 2.0)]), split([("a", 1.0), ("b", 2.0)]))
    assert "every training text is empty" in found["tfidf_ridge"].skipped and found["mean"].figures
