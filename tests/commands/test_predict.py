"""encoderlab predict: one row out for each row in, in order, in the requested format."""

import csv
import io
import json
import re
import sys

import openpyxl
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import encoderlab
from encoderlab.commands.predict import EMPTY, show_predictions
from encoderlab.config.commands import PredictionFormat
from encoderlab.errors import DataError, SettingError
from encoderlab.models.row_files import WRITERS
from encoderlab.tables.columns import MissingColumnError
from tests.experiment_models import BRACKETS_MODEL, REVERSE_MODEL


def typed(text):
    """Make `text` the standard input."""
    return io.TextIOWrapper(io.BytesIO(text if isinstance(text, bytes) else text.encode()))


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_a_text_with_unusual_characters_comes_back_unchanged(command, brackets_run, capsys):
    text = 'It\'s "great", ${really}: (())\\ [x]={y}'
    command("predict", f"run={brackets_run}", f"text={text}")
    (row,) = rows_of(capsys.readouterr().out)
    assert row["text"] == text
    assert row["predicted"] in ("balanced", "unbalanced")


def test_predictions_equal_those_of_the_report(command, brackets_run, capsys):
    command("predict", f"run={brackets_run}", "split=test", "format=jsonl", "probabilities=all")
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    with (brackets_run / "predictions.csv").open(encoding="utf-8", newline="") as file:
        reported = list(csv.DictReader(file))
    found = {answer["text"]: answer for answer in answers}
    for row in reported:
        assert found[row["text"]]["predicted"] == row["predicted"]
        assert found[row["text"]]["probabilities"]["balanced"] == pytest.approx(
            float(row["probability_balanced"]), abs=1e-5
        )


def test_standard_input_is_predicted_line_by_line_with_blank_lines(command, brackets_run, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", typed("(())\n\n)(\r\nno newline at the end"))
    command("predict", f"run={brackets_run}")
    assert [row["text"] for row in rows_of(capsys.readouterr().out)] == ["(())", "", ")(", "no newline at the end"]


@pytest.mark.slow
def test_a_run_on_joined_columns_predicts_a_file_with_its_columns(command, tmp_path, capsys, monkeypatch):
    rows = [f"{n},{'good' if n % 2 else 'bad'} film,story {n},{'yes' if n % 2 else 'no'}" for n in range(60)]
    (tmp_path / "two.csv").write_text("\n".join(["id,title,body,verdict", *rows]) + "\n", encoding="utf-8")
    columns = ("dataset.text=[title,body]", "dataset.label=verdict", "tokenizer.vocabulary_size=100")
    command("train", "two.csv", *columns, *BRACKETS_MODEL, "training=smoke", "baselines=false", "run_dir=joined")
    capsys.readouterr()
    command("predict", "run=joined", "input=two.csv")
    row = rows_of(capsys.readouterr().out)[1]
    assert list(row) == ["id", "title", "body", "verdict", "predicted", "probability"] and row["body"] == "story 1"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    command("predict", "run=joined", "input=two.csv")
    assert capsys.readouterr().out.splitlines()[1].endswith("good film | story 1")

    # Half of each text is not enough, and two blank cells are a blank text.
    (tmp_path / "half.csv").write_text("id,title\n1,good film\n", encoding="utf-8")
    with pytest.raises(DataError, match="body"):
        command("predict", "run=joined", "input=half.csv")
    (tmp_path / "blank.csv").write_text("title,body\n , \n", encoding="utf-8")
    command("predict", "run=joined", "input=blank.csv", "output=out.csv")
    assert rows_of((tmp_path / "out.csv").read_text())[0]["predicted"] == ""


def test_a_column_is_found_whatever_its_case(command, brackets_run, tmp_path, capsys):
    (tmp_path / "new.csv").write_text("Note,Text\na longer note than the text,( )\n", encoding="utf-8")
    command("predict", f"run={brackets_run}", "new.csv", "output=out.csv")
    command("predict", f"run={brackets_run}", "text=( )", "output=one.csv")
    one, row = (rows_of((tmp_path / name).read_text())[0] for name in ("one.csv", "out.csv"))
    assert row["probability"] == one["probability"]


@pytest.mark.slow
def test_a_model_says_that_it_has_never_seen_such_a_length(command, tmp_path, capsys):
    digits = ("task=reverse", "dataset.length=8", "dataset.limit=100", "training=smoke", "baselines=false")
    command("train", *digits, *REVERSE_MODEL, "run_dir=run")
    (tmp_path / "new.txt").write_text("1 2 3 4 5 6 7 8\n" + "1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6\n", encoding="utf-8")
    capsys.readouterr()
    command("predict", "run=run", "input=new.txt")
    out, errors = capsys.readouterr()
    assert len(rows_of(out)) == 2
    assert "1 of 2 rows are much longer than any that the model was trained on" in errors
    command("predict", "run=run", "text=1 2 3 4 5 6 7")
    assert "longer" not in capsys.readouterr().err


def test_nothing_is_predicted_for_a_blank_text_wherever_it_comes_from(command, brackets_run, tmp_path, capsys):
    (tmp_path / "new.csv").write_text('text\n"  "\n"(())"\n', encoding="utf-8")
    (tmp_path / "new.jsonl").write_text('{"text": null}\n{"text": "(())"}\n', encoding="utf-8")
    (tmp_path / "new.txt").write_text(" \n(())\n", encoding="utf-8")
    for name in ("new.csv", "new.jsonl", "new.txt"):
        command("predict", f"run={brackets_run}", f"input={name}", "format=jsonl")
        blank, other = map(json.loads, capsys.readouterr().out.splitlines())
        assert (blank["predicted"], blank["probability"]) == (None, None) and other["predicted"] is not None
    command("predict", f"run={brackets_run}", "input=new.csv", "format=jsonl", "probabilities=all")
    blank = json.loads(capsys.readouterr().out.splitlines()[0])
    assert set(blank["probabilities"].values()) == {None}
    command("predict", f"run={brackets_run}", "input=new.csv", "output=out.parquet")
    assert pd.read_parquet(tmp_path / "out.parquet")["probability"].notna().tolist() == [False, True]
    command("predict", f"run={brackets_run}", "text= ")
    assert rows_of(capsys.readouterr().out)[0]["predicted"] == ""
    blank, other = encoderlab.load(brackets_run).predict(["", "(())"])
    assert {blank["predicted"], *blank["probabilities"].values()} == {None} and other["predicted"] is not None


def test_a_file_is_predicted_row_by_row_into_a_new_file(command, pairs_run, tmp_path):
    texts = [("one", 'a "quoted", cell'), ("two", "two\nlines"), ("", ""), ("three", "x" * 3000)]
    with (tmp_path / "new.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("id", "title", "body"), *((n, *pair) for n, pair in enumerate(texts))])
    command("predict", f"run={pairs_run}", "input=new.csv", "output=answers.csv")
    answers = rows_of((tmp_path / "answers.csv").open(newline="", encoding="utf-8").read())
    assert [(row["title"], row["body"]) for row in answers] == texts
    assert list(answers[0]) == ["id", "title", "body", "predicted", "probability"]


def test_a_text_column_of_another_name_is_guessed_and_named_unless_one_is_set(command, brackets_run, tmp_path, capsys):
    (tmp_path / "new.csv").write_text("id,date,message\n1,2024-01-01,(()) is it\n2,2024-01-01,)( is it\n")
    command("predict", f"run={brackets_run}", "input=new.csv")
    printed = capsys.readouterr()
    assert "'message' (text_column)" in printed.err
    assert [list(row)[:4] for row in rows_of(printed.out)] == [["id", "date", "message", "predicted"]] * 2
    with pytest.raises(DataError, match="no column 'body'"):
        command("predict", f"run={brackets_run}", "input=new.csv", "text_column=body")


def test_a_split_that_has_lost_its_column_is_refused_as_such(command, brackets_run, monkeypatch):
    def lost(*_):
        raise MissingColumnError("data.csv has no column 'text'")

    monkeypatch.setattr("encoderlab.models.inputs.split_examples", lost)
    with pytest.raises(DataError, match="data.csv has no column 'text'"):
        command("predict", f"run={brackets_run}", "split=test")


def test_pairs_on_standard_input_are_separated_by_a_tab(command, pairs_run, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", typed("one\ttwo\n"))
    command("predict", f"run={pairs_run}")
    assert rows_of(capsys.readouterr().out)[0]["text_pair"] == "two"
    monkeypatch.setattr(sys, "stdin", typed("one\ttwo\nno tab\n"))
    with pytest.raises(DataError, match="Line 2 of standard input has no tab"):
        command("predict", f"run={pairs_run}")


def test_every_word_is_predicted_and_truncated_ones_are_marked(command, reverse_run, capsys):
    command("predict", f"run={reverse_run}", "text=1 2 3")
    (row,) = rows_of(capsys.readouterr().out)
    assert len(row["predicted"].split()) == 3
    long = " ".join("7" * 200)
    command("predict", f"run={reverse_run}", f"text={long}")
    (row,) = rows_of(capsys.readouterr().out)
    answers = row["predicted"].split()
    assert len(answers) == 200
    assert answers[-1] == "?"
    assert answers[0] != "?"


def test_one_text_and_a_pair_are_not_taken_for_each_other(command, brackets_run, pairs_run):
    with pytest.raises(DataError, match="trained on pairs of texts, but one text was given. Add text_pair"):
        command("predict", f"run={pairs_run}", "text=a")
    with pytest.raises(DataError, match="trained on single texts, but a pair was given. Remove text_pair"):
        command("predict", f"run={brackets_run}", "text=a", "text_pair=b")


def test_a_split_is_predicted_whole_even_if_training_was_limited(command, brackets_run, tmp_path):
    command("predict", f"run={brackets_run}", "split=test", "format=csv", "output=all.csv")
    assert len((tmp_path / "all.csv").read_text().splitlines()) == 4001


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "txt", "xlsx"])
def test_the_extension_of_the_output_selects_its_format(command, brackets_run, tmp_path, ending):
    command("predict", f"run={brackets_run}", "text=(())", f"output=out.{ending}")
    read = {
        "csv": lambda path: rows_of(path.read_text()),
        "jsonl": lambda path: [json.loads(path.read_text())],
        "parquet": lambda path: pq.read_table(path).to_pylist(),
        "txt": lambda path: rows_of(path.read_text()),
        "xlsx": lambda path: pd.read_excel(path).to_dict("records"),
    }
    (row,) = read[ending](tmp_path / f"out.{ending}")
    assert row["text"] == "(())"
    assert row["predicted"] in ("balanced", "unbalanced")


def test_an_output_is_replaced_only_on_request(command, brackets_run, tmp_path):
    line = ("predict", f"run={brackets_run}", "text=()", "output=out.csv", "probabilities=all")
    command(*line)
    (tmp_path / "out.csv").write_text("mine")
    with pytest.raises(SettingError, match="overwrite=true"):
        command(*line)
    command(*line, "overwrite=true")
    (row,) = rows_of((tmp_path / "out.csv").read_text())
    assert list(row) == ["text", "predicted", "probability", "probability_unbalanced", "probability_balanced"]
    assert row["probability"] == row[f"probability_{row['predicted']}"]


@pytest.mark.parametrize("form", PredictionFormat)
@settings(max_examples=20, deadline=None)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=5))
def test_any_text_comes_back_unchanged_from_every_format(form, texts):
    file = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="")
    rows = ({"text": text, "predicted": "good", "probability": 0.5} for text in texts)
    WRITERS[form](file, rows, {}, EMPTY)
    file.flush()
    file.buffer.seek(0)
    read = {
        "csv": lambda: [row["text"] for row in csv.DictReader(io.StringIO(file.buffer.read().decode(), newline=""))],
        "jsonl": lambda: [json.loads(line)["text"] for line in file.buffer.read().split(b"\n")[:-1]],
        "parquet": lambda: pq.read_table(file.buffer)["text"].to_pylist(),
        "xlsx": lambda: [row[0] or "" for row in openpyxl.load_workbook(file.buffer).active.values][1:],
    }
    if form is PredictionFormat.xlsx:  # which holds line feeds, and no other control characters than tabs
        texts = [re.sub("[^\t\n -\ufffd\U00010000-\U0010ffff]", "\ufffd", re.sub("\r\n?", "\n", one)) for one in texts]
    assert read[form.name]() == texts


def test_spreadsheets_compute_nothing_in_xlsx_nor_in_csv_on_request(command, brackets_run, tmp_path):
    for output, words in (("out.xlsx", []), ("out.csv", ["escape_formulas=true"])):
        command("predict", f"run={brackets_run}", "text==1+1", f"output={output}", *words)
    assert openpyxl.load_workbook(tmp_path / "out.xlsx").active["A2"].data_type == "s"
    assert rows_of((tmp_path / "out.csv").read_text())[0]["text"] == "'=1+1"


def test_a_terminal_shows_the_label_the_most_probable_classes_and_no_control_characters(
    command, brackets_run, capsys, monkeypatch
):
    text = "\x1b[31m(\a\u202e)"
    monkeypatch.setattr(sys, "stdin", typed(f"{text}\n"))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    command("predict", f"run={brackets_run}", "input=-")
    shown = capsys.readouterr().out
    assert re.fullmatch(r"(un)?balanced  \((un)?balanced 0\.\d{3}, (un)?balanced 0\.\d{3}\)  \S+\n", shown)
    for form in ("csv", "jsonl"):
        command("predict", f"run={brackets_run}", f"text={text}", f"format={form}")
        shown += capsys.readouterr().out
    assert not set(shown) & set("\x1b\a\u202e")


def test_a_terminal_shows_zero_as_a_number_and_nothing_certain_as_unsure(capsys):
    rows = [{"text": "a", "predicted": 0.0}, {"text": "b", "predicted": None}, {"text": "", "predicted": None}]
    show_predictions(iter(rows), "text")
    assert capsys.readouterr().out.splitlines() == ["0.0  a", "unsure  b", "no text"]


def test_uncertain_predictions_stay_open_and_no_row_is_lost(command, brackets_run, capsys):
    command("predict", f"run={brackets_run}", "split=test", "format=jsonl")
    sure = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    least = sorted(row["probability"] for row in sure)[2000]
    command("predict", f"run={brackets_run}", "split=test", "format=jsonl", f"min_probability={least}")
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for before, after in zip(sure, rows, strict=True):
        assert after == before | {"predicted": before["predicted"] if before["probability"] >= least else None}
    assert None in {row["predicted"] for row in rows}


def test_uncertain_words_stay_open(reverse_run, printed):
    answer = printed("predict", f"run={reverse_run}", "text=1 2 3", "min_probability=1", "format=jsonl")
    assert answer["predicted"] == "_ _ _"
    assert len(answer["probability"]) == 3
