"""Predictions on disk: every text comes back unchanged, row by row."""

import csv
import io

import numpy as np
import pytest

from encoderlab.metrics import scores_of_predictions
from encoderlab.reports.predictions import place_columns, write_predictions

NAMES = ["bad", "good"]


def read_csv(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.parametrize(
    ("labels", "predicted", "names", "cells"),
    [
        (np.array([0, 1]), np.array([1, 1]), NAMES, [["bad", "good"], ["good", "good"]]),
        (np.array([1.5, 2]), np.array([1.0, 3]), [], [["1.5", "1.0"], ["2.0", "3.0"]]),
        (
            [np.array([0, 1]), np.array([1])],
            [np.array([0, 0]), np.array([1])],
            NAMES,
            [["bad good", "bad bad"], ["good", "good"]],
        ),
        (
            np.array([[True, True], [False, False]]),
            np.array([[False, True]] * 2),
            NAMES,
            [["bad|good", "good"], ["", "good"]],
        ),
    ],
)
def test_predictions_csv_has_every_kind_of_label(tmp_path, labels, predicted, names, cells):
    path = tmp_path / "predictions.csv"
    scores = scores_of_predictions(labels, predicted, names, "")
    write_predictions(path, [('a "quoted"\ntext',), ("b\r",)], scores)
    rows = read_csv(path.read_bytes().decode())
    assert [row["text"] for row in rows] == ['a "quoted"\ntext', "b\r"]
    assert [[row["label"], row["predicted"]] for row in rows] == cells


@pytest.mark.parametrize(
    ("where", "columns"),
    [
        (["a.csv, line 2", "a.csv, lines 3 to 5"], {"line": [2, 3]}),
        (["a.csv, line 2", "my, b.xlsx, row 7"], {"file": ["a.csv", "my, b.xlsx"], "line": [2, 7]}),
        (["good/1.txt", "bad/1.txt"], {"file": ["good/1.txt", "bad/1.txt"]}),
    ],
)
def test_a_place_is_a_file_if_there_are_several_and_a_line(where, columns):
    assert place_columns(where) == columns and list(place_columns(where)) == list(columns)
