"""Predictions for new texts: every text comes back unchanged, in every format, row by row."""

import csv
import io
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.reports.outputs import answers
from encoderlab.reports.outputs.answers import (
    TEXT_FORMATS,
    Answered,
    Wanted,
    write_csv,
    write_glue,
    write_jsonl,
    write_parquet,
)
from encoderlab.tasks.task import Answer

NAMES = ["bad", "good"]
any_text = st.text(st.characters(exclude_categories=["Cs"]))


def answered(text="a film", pair=None, label="good", chances=(0.25, 0.75)):
    return Answered(text, pair, Answer((label,), chances))


def tagged(text, *labels, **of_words):
    return Answered(text, None, Answer(labels, **of_words), len(text.split()))


def written(write, *rows, names=NAMES, **wanted):
    file = io.StringIO()
    write(file, rows, Wanted(names, **wanted))
    return file.getvalue()


def read_csv(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_a_table_row_has_text_prediction_and_a_probability_for_each_class():
    assert written(write_csv, answered(), answered("x", label="bad", chances=(1.0, 1e-9))).splitlines() == [
        "text,predicted,probability_bad,probability_good",
        '"a film","good",0.25,0.75',
        '"x","bad",1.0,1e-09',
    ]


def test_an_empty_table_has_its_header():
    assert written(write_csv) == "text,predicted\n"


@settings(max_examples=60, deadline=None)
@given(st.lists(any_text, min_size=1, max_size=5))
def test_any_text_comes_back_unchanged_from_the_table(texts):
    assert [row["text"] for row in read_csv(written(write_csv, *map(answered, texts)))] == texts


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(any_text, any_text), min_size=1, max_size=5))
def test_any_pair_comes_back_unchanged_from_every_format_with_texts(pairs):
    rows = [answered(*pair) for pair in pairs]
    found = read_csv(written(write_csv, *rows))
    assert [(row["text"], row["text_pair"]) for row in found] == pairs
    lines = [json.loads(line) for line in written(write_jsonl, *rows).split("\n")[:-1]]
    assert [(line["text"], line["text_pair"]) for line in lines] == pairs


def test_a_json_line_gives_the_probability_of_each_class():
    line = json.loads(written(write_jsonl, answered("naïve")))
    assert line == {"text": "naïve", "predicted": "good", "probabilities": {"bad": 0.25, "good": 0.75}}
    assert "naïve" in written(write_jsonl, answered("naïve"))


def test_words_are_labelled_in_order_and_truncated_ones_with_a_question_mark():
    rows = [tagged("the cat sat", "other", "noun"), tagged("cat", "noun"), tagged("")]
    assert [row["predicted"] for row in read_csv(written(write_csv, *rows))] == ["other noun ?", "noun", ""]
    assert list(read_csv(written(write_csv, *rows))[0]) == ["text", "predicted"]
    assert json.loads(written(write_jsonl, rows[0]).split("\n")[0]) == {
        "text": "the cat sat",
        "predicted": "other noun ?",
    }


def test_glue_files_have_tab_separated_index_and_label_id():
    rows = [answered(label="good"), answered("another\ttext\n", label="bad"), answered(label="good")]
    assert written(write_glue, *rows) == "index\tprediction\n0\t1\n1\t0\n2\t1\n"


@pytest.mark.parametrize("write", TEXT_FORMATS.values(), ids=TEXT_FORMATS)
def test_a_row_is_written_before_the_next_is_computed(write):
    file = io.StringIO()
    seen = []

    def rows():
        for number in range(3):
            seen.append(file.getvalue().count("\n"))
            yield answered(f"text {number}")

    write(file, rows(), Wanted(NAMES))
    header = 0 if write is write_jsonl else 1
    assert seen[1:] == [header + 1, header + 2]


def test_the_formats_are_those_the_settings_offer():
    from encoderlab.config.commands import PredictionFormat

    assert {*TEXT_FORMATS, "parquet"} == {form.value for form in PredictionFormat}


def parquet(*rows, names=NAMES, **wanted):
    file = io.BytesIO()
    write_parquet(file, rows, Wanted(names, **wanted))
    return pq.ParquetFile(io.BytesIO(file.getvalue()))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(any_text, any_text), min_size=1, max_size=5))
def test_any_pair_comes_back_unchanged_from_parquet(pairs):
    found = parquet(*(answered(*pair) for pair in pairs)).read().to_pylist()
    assert [(row["text"], row["text_pair"]) for row in found] == pairs


def test_parquet_has_the_columns_of_the_table():
    (row,) = parquet(answered()).read().to_pylist()
    assert row == {"text": "a film", "predicted": "good", "probability_bad": 0.25, "probability_good": 0.75}
    assert parquet().schema_arrow.names == ["text", "predicted"]


def test_parquet_is_written_group_by_group_in_constant_memory(monkeypatch):
    monkeypatch.setattr(answers, "ROWS_IN_A_GROUP", 3)
    monkeypatch.setattr(answers, "CHARACTERS_IN_A_GROUP", 100)
    target, held = io.BytesIO(), []

    def rows():
        for number in range(8):
            held.append(target.tell())
            yield answered(f"text {number}" if number < 6 else "x" * 200)

    write_parquet(target, rows(), Wanted(NAMES))
    assert held[0] == held[2] < held[3] == held[5] < held[6] < held[7]
    file = pq.ParquetFile(io.BytesIO(target.getvalue()))
    assert [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)] == [3, 3, 1, 1]
    assert [row["text"][:6] for row in file.read().to_pylist()] == [
        *(f"text {n}" for n in range(6)),
        "xxxxxx",
        "xxxxxx",
    ]


THREE = {"names": ["bad", "fair", "good"]}


def test_top_classes_are_ordered_by_probability_and_ties_by_class():
    row = answered(label="good", chances=(0.2, 0.2, 0.6))
    assert written(write_csv, row, top_k=2, **THREE).splitlines() == [
        "text,predicted,top_1,top_1_probability,top_2,top_2_probability",
        '"a film","good","good",0.6,"bad",0.2',
    ]
    top = [{"label": "good", "probability": 0.6}, {"label": "bad", "probability": 0.2}]
    assert json.loads(written(write_jsonl, row, top_k=2, **THREE)) == {
        "text": "a film",
        "predicted": "good",
        "top": top,
    }
    assert parquet(answered(), top_k=1).read().to_pylist()[0]["top"] == [{"label": "good", "probability": 0.75}]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.data())
def test_the_top_k_are_the_first_k_of_all_classes_sorted(chances, data):
    names = [str(n) for n in range(len(chances))]
    k = data.draw(st.integers(1, len(names)))
    found = Wanted(names, k).top(chances)
    assert found == Wanted(names, len(names)).top(chances)[:k]
    assert sorted((chance for _, chance in Wanted(names).top(chances)), reverse=True) == sorted(chances, reverse=True)
    assert all(chances[int(name)] == chance for name, chance in found)


@given(chance=st.floats(0.5, 1), least=st.floats(0, 1))
def test_exactly_the_predictions_below_the_requested_probability_are_left_open(chance, least):
    row = answered(chances=(1 - chance, chance))
    assert Wanted(NAMES, min_probability=least).predicted(row) == ("good" if chance >= least else None)
    assert Wanted(NAMES, min_probability=least, unsure="ask").predicted(row) == ("good" if chance >= least else "ask")


def test_an_open_prediction_is_empty_null_or_the_chosen_word_and_keeps_its_probabilities():
    assert read_csv(written(write_csv, answered(), min_probability=0.8))[0] == {
        "text": "a film",
        "predicted": "",
        "probability_bad": "0.25",
        "probability_good": "0.75",
    }
    assert json.loads(written(write_jsonl, answered(), min_probability=0.8))["predicted"] is None
    assert parquet(answered(), min_probability=0.8).read().to_pylist()[0]["predicted"] is None
    assert read_csv(written(write_csv, answered(), min_probability=0.8, unsure="ask"))[0]["predicted"] == "ask"


def test_words_below_the_requested_probability_are_left_open_one_by_one():
    row = tagged("the cat sat down", "other", "noun", "verb", word_confidences=(0.9, 0.5, 0.8))
    assert read_csv(written(write_csv, row, min_probability=0.8))[0]["predicted"] == "other _ verb ?"
    line = json.loads(written(write_jsonl, row, min_probability=0.8, unsure="ask"))
    assert line == {"text": "the cat sat down", "predicted": "other ask verb ?", "word_probabilities": [0.9, 0.5, 0.8]}
    assert parquet(row).read().to_pylist()[0]["word_probabilities"] == [0.9, 0.5, 0.8]


def test_the_top_k_of_words_are_side_by_side_and_a_truncated_word_has_none():
    chances = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    row = tagged("a film b", "bad", "good", word_confidences=(0.5, 0.7), word_probabilities=chances)
    assert written(write_csv, row, top_k=2, **THREE).splitlines() == [
        "text,predicted,top_1,top_1_probability,top_2,top_2_probability",
        '"a film b","bad good ?","bad good ?","0.5 0.7 ?","fair fair ?","0.3 0.2 ?"',
    ]
    first = [{"label": "bad", "probability": 0.5}, {"label": "fair", "probability": 0.3}]
    found = json.loads(written(write_jsonl, row, top_k=2, **THREE))
    assert (found["top"][0], len(found["top"])) == (first, 2)
    assert parquet(row, top_k=2, **THREE).read().to_pylist()[0]["top"] == found["top"]
    assert "top" not in json.loads(written(write_jsonl, row, **THREE))
