"""Predictions and vectors on disk: every text comes back unchanged, row by row, and no file is left half-written."""

import csv
import io
import json
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.errors import SettingError
from encoderlab.reports.predictions import (
    TEXT_FORMATS,
    Answered,
    Wanted,
    check_output,
    vector_file,
    write_csv,
    write_jsonl,
    write_parquet,
    write_predictions,
)

NAMES = ["bad", "good"]
any_text = st.text(st.characters(exclude_categories=["Cs"]))


def answer(labels, **values):
    nothing = dict.fromkeys(("probabilities", "word_confidences", "word_probabilities", "number"))
    return SimpleNamespace(labels=labels, **nothing | values)


def answered(text="a film", pair=None, label="good", probabilities=(0.25, 0.75), **carried):
    return Answered(text, pair, answer((label,), probabilities=probabilities), carried=carried)


def tagged(text, *labels, **of_words):
    return Answered(text, None, answer(labels, **of_words), len(text.split()))


def written(write, *rows, **wanted):
    file = io.StringIO()
    write(file, rows, Wanted(NAMES, **wanted))
    return file.getvalue()


def read_csv(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(any_text, any_text), min_size=1, max_size=5))
def test_any_pair_comes_back_unchanged_from_every_format(pairs):
    rows = [answered(*pair) for pair in pairs]
    assert [(row["text"], row["text_pair"]) for row in read_csv(written(write_csv, *rows))] == pairs
    lines = [json.loads(line) for line in written(write_jsonl, *rows).split("\n")[:-1]]
    assert [(line["text"], line["text_pair"]) for line in lines] == pairs
    file = io.BytesIO()
    write_parquet(file, rows, Wanted(NAMES))
    assert [(row["text"], row["text_pair"]) for row in pq.read_table(file).to_pylist()] == pairs


@pytest.mark.parametrize("write", TEXT_FORMATS.values(), ids=TEXT_FORMATS)
def test_a_row_is_written_before_the_next_is_computed(write):
    file, seen = io.StringIO(), []

    def rows():
        for number in range(3):
            seen.append(file.getvalue().count("\n"))
            yield answered(f"text {number}")

    write(file, rows(), Wanted(NAMES))
    assert np.diff(seen[1:]).tolist() == [1]


def test_a_table_has_a_probability_for_each_class_and_a_header_without_rows():
    assert written(write_csv, answered()).splitlines() == [
        "text,predicted,probability_bad,probability_good",
        '"a film","good",0.25,0.75',
    ]
    assert written(write_csv) == "text,predicted\n"
    line = json.loads(written(write_jsonl, answered("naïve")))
    assert line == {"text": "naïve", "predicted": "good", "probabilities": {"bad": 0.25, "good": 0.75}}


@pytest.mark.parametrize(
    ("row", "wanted", "cells", "line"),
    [
        (
            answered(),
            {"top_k": 1},
            {"top_1": "good", "top_1_probability": "0.75"},
            {"top": [{"label": "good", "probability": 0.75}]},
        ),
        (answered(), {"min_probability": 0.9}, {"predicted": ""}, {"predicted": None}),
        (answered(), {"min_probability": 0.9, "unsure": "ask"}, {"predicted": "ask"}, {"predicted": "ask"}),
        (tagged("the cat sat", "x", "y"), {}, {"predicted": "x y ?"}, {"predicted": "x y ?"}),
        (
            tagged("a b", "x", "y", word_confidences=(0.9, 0.4)),
            {"min_probability": 0.5},
            {"predicted": "x _"},
            {"predicted": "x _", "word_probabilities": [0.9, 0.4]},
        ),
        (
            tagged("a b", "good", word_probabilities=np.array([[0.4, 0.6]])),
            {"top_k": 1},
            {"top_1": "good ?", "top_1_probability": "0.6 ?"},
            {"top": [[{"label": "good", "probability": 0.6}]]},
        ),
        (Answered("a", None, answer((), number=2.5)), {"target": "number"}, {"predicted": "2.5"}, {"predicted": 2.5}),
        (
            Answered("a", None, answer(("bad", "good"), probabilities=(0.9, 0.9))),
            {"target": "label_set"},
            {"predicted": "bad|good"},
            {"predicted": ["bad", "good"]},
        ),
        (
            answered(predicted="mine", day=True),
            {},
            {"input_predicted": "mine", "day": "true"},
            {"input_predicted": "mine", "day": True},
        ),
    ],
)
def test_each_kind_of_prediction_in_a_table_and_as_json(row, wanted, cells, line):
    (read,) = read_csv(written(write_csv, row, **wanted))
    assert cells.items() <= read.items()
    found = json.loads(written(write_jsonl, row, **wanted))
    assert {name: found[name] for name in line} == line


def test_a_parquet_file_of_many_rows_keeps_their_order_and_types(monkeypatch):
    monkeypatch.setattr("encoderlab.reports.predictions.ROWS_IN_A_GROUP", 3)
    file = io.BytesIO()
    write_parquet(file, (answered(str(number)) for number in range(10)), Wanted(NAMES))
    table = pq.read_table(file)
    assert table["text"].to_pylist() == [str(number) for number in range(10)]
    assert table["probability_good"].to_pylist() == [0.75] * 10
    empty = io.BytesIO()
    write_parquet(empty, [], Wanted(NAMES, target="number"))
    assert pq.read_table(empty).schema.names == ["text", "predicted"]


@pytest.mark.parametrize(
    ("labels", "predicted", "names", "cells"),
    [
        (np.array([0, 1]), np.array([1, 1]), NAMES, [["bad", "good"], ["good", "good"]]),
        (None, np.array([1, 1]), NAMES, [["", "good"], ["", "good"]]),
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
    write_predictions(path, [('a "quoted"\ntext',), ("b\r",)], labels, predicted, None, names)
    rows = read_csv(path.read_bytes().decode())
    assert [row["text"] for row in rows] == ['a "quoted"\ntext', "b\r"]
    assert [[row["label"], row["predicted"]] for row in rows] == cells


def test_vectors_written_in_any_order_are_an_array_with_an_index(tmp_path):
    path = tmp_path / "vectors.npy"
    with vector_file(path, 2) as file:
        first, second = file.reserve([{"text": "a"}, {"text": "b"}], [1, 2])
        file.put(second, np.full((2, 2), 2.0))
        file.put(first, np.ones((1, 2)))
    assert np.load(path).tolist() == [[1, 1], [2, 2], [2, 2]]
    lines = [json.loads(line) for line in path.with_suffix(".index.jsonl").read_text().splitlines()]
    assert lines == [{"row": 0, "start": 0, "text": "a"}, {"row": 1, "start": 1, "text": "b"}]
    with pytest.raises(SettingError):
        check_output(str(path))
    with pytest.raises(SettingError):
        check_output("vectors.txt")


def test_an_error_leaves_neither_array_nor_index(tmp_path):
    with pytest.raises(RuntimeError), vector_file(tmp_path / "vectors.npy", 2) as file:
        file.reserve([{}])
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
