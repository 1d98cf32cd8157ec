"""Answers for new texts: every text comes back as it was, in each of the three forms, row by row."""

import csv
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.reports.answers import ANSWER_FORMATS, Answered, write_csv, write_glue, write_jsonl

NAMES = ["bad", "good"]
any_text = st.text(st.characters(exclude_categories=["Cs"]))


def answered(text="a film", pair=None, label="good", chances=(0.25, 0.75)):
    return Answered(text, pair, (label,), chances, 1)


def tagged(text, *labels):
    return Answered(text, None, labels, None, len(text.split()))


def written(write, *rows, names=NAMES):
    file = io.StringIO()
    write(file, rows, names)
    return file.getvalue()


def read_csv(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_a_row_of_the_table_holds_text_answer_and_a_chance_for_each_class():
    assert written(write_csv, answered(), answered("x", label="bad", chances=(1.0, 1e-9))).splitlines() == [
        "text,predicted,probability_bad,probability_good",
        '"a film","good",0.25,0.75',
        '"x","bad",1.0,1e-09',
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(any_text, min_size=1, max_size=5))
def test_any_text_comes_back_out_of_the_table_as_it_was(texts):
    assert [row["text"] for row in read_csv(written(write_csv, *map(answered, texts)))] == texts


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(any_text, any_text), min_size=1, max_size=5))
def test_any_pair_comes_back_out_of_every_form_that_holds_texts(pairs):
    rows = [answered(*pair) for pair in pairs]
    found = read_csv(written(write_csv, *rows))
    assert [(row["text"], row["text_pair"]) for row in found] == pairs
    lines = [json.loads(line) for line in written(write_jsonl, *rows).split("\n")[:-1]]
    assert [(line["text"], line["text_pair"]) for line in lines] == pairs


def test_a_json_line_names_the_chance_of_each_class():
    line = json.loads(written(write_jsonl, answered("naïve")))
    assert line == {"text": "naïve", "predicted": "good", "probabilities": {"bad": 0.25, "good": 0.75}}
    assert "naïve" in written(write_jsonl, answered("naïve"))


def test_words_are_answered_in_their_order_and_those_that_did_not_fit_with_a_question_mark():
    rows = [tagged("the cat sat", "other", "noun"), tagged("cat", "noun"), tagged("")]
    assert [row["predicted"] for row in read_csv(written(write_csv, *rows))] == ["other noun ?", "noun", ""]
    assert list(read_csv(written(write_csv, *rows))[0]) == ["text", "predicted"]
    assert json.loads(written(write_jsonl, rows[0]).split("\n")[0]) == {"text": "the cat sat", "predicted": "other noun ?"}


def test_glue_gets_index_and_label_id_with_tabs():
    rows = [answered(label="good"), answered("another\ttext\n", label="bad"), answered(label="good")]
    assert written(write_glue, *rows) == "index\tprediction\n0\t1\n1\t0\n2\t1\n"


@pytest.mark.parametrize("write", ANSWER_FORMATS.values(), ids=ANSWER_FORMATS)
def test_a_row_is_written_before_the_next_is_asked_for(write):
    file = io.StringIO()
    seen = []

    def rows():
        for number in range(3):
            seen.append(file.getvalue().count("\n"))
            yield answered(f"text {number}")

    write(file, rows(), NAMES)
    header = 0 if write is write_jsonl else 1
    assert seen[1:] == [header + 1, header + 2]


def test_the_forms_are_those_the_settings_offer():
    from encoderlab.command_settings import PredictionFormat

    assert set(ANSWER_FORMATS) == {form.value for form in PredictionFormat}
