"""predictions.csv: every text comes back unchanged, with its label, prediction and probabilities."""

import csv

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.reports.outputs.predictions import write_predictions


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_row_has_text_label_prediction_and_a_probability_for_each_class(tmp_path):
    path = tmp_path / "predictions.csv"
    write_predictions(
        path,
        [("good", None), ("bad", None)],
        np.array([1, 0]),
        np.array([1, 1]),
        np.array([[0.25, 0.75], [1e-9, 1]]),
        ["no", "yes"],
    )
    assert path.read_text().splitlines()[0] == "text,label,predicted,probability_no,probability_yes"
    first, second = read(path)
    assert first == {
        "text": "good",
        "label": "yes",
        "predicted": "yes",
        "probability_no": "0.25",
        "probability_yes": "0.75",
    }
    assert float(second["probability_no"]) == 1e-9


def test_the_second_text_of_a_pair_has_its_own_column(tmp_path):
    path = tmp_path / "predictions.csv"
    write_predictions(path, [("a", "b"), ("c", None)], [0, 0], [0, 0], np.ones((2, 1)), ["x"])
    assert [(row["text"], row["text_pair"]) for row in read(path)] == [("a", "b"), ("c", "")]


def test_unknown_labels_are_empty(tmp_path):
    path = tmp_path / "predictions.csv"
    write_predictions(path, [("a", None)], None, [1], np.array([[0.5, 0.5]]), ["x", "y"])
    write_predictions(tmp_path / "some.csv", [("a", None), ("b", None)], [None, 0], [1, 0], None, ["x", "y"])
    assert read(path)[0]["label"] == ""
    assert [row["label"] for row in read(tmp_path / "some.csv")] == ["", "x"]


def test_tags_are_written_as_names_with_spaces(tmp_path):
    path = tmp_path / "predictions.csv"
    write_predictions(
        path,
        [("two words", None), ("", None)],
        [np.array([0, 1]), np.array([], dtype=int)],
        [[0, 0], []],
        None,
        ["N", "V"],
    )
    assert read(path) == [
        {"text": "two words", "label": "N V", "predicted": "N N"},
        {"text": "", "label": "", "predicted": ""},
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=5))
def test_any_text_comes_back_unchanged(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("any") / "predictions.csv"
    write_predictions(path, [(text, None) for text in texts], None, [0] * len(texts), None, ["x"])
    assert [row["text"] for row in read(path)] == texts


def test_a_failure_leaves_no_file_behind(tmp_path):
    with pytest.raises(ValueError, match="shorter"):
        write_predictions(tmp_path / "predictions.csv", [("a", None), ("b", None)], None, [0], None, ["x"])
    assert list(tmp_path.iterdir()) == []
