"""encoderlab predict: one row out for each row in, in order, in the requested format."""

import csv
import io
import json
import sys

import pyarrow.parquet as pq
import pytest

from encoderlab.errors import DataError, SettingError


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
    command("predict", f"run={brackets_run}", "split=test", "format=jsonl")
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


def test_a_file_is_predicted_row_by_row_into_a_new_file(command, pairs_run, tmp_path):
    texts = [("one", 'a "quoted", cell'), ("two", "two\nlines"), ("", ""), ("three", "x" * 3000)]
    with (tmp_path / "new.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("id", "title", "body"), *((n, *pair) for n, pair in enumerate(texts))])
    command("predict", f"run={pairs_run}", "input=new.csv", "output=answers.csv")
    answers = rows_of((tmp_path / "answers.csv").open(newline="", encoding="utf-8").read())
    assert [(row["text"], row["text_pair"]) for row in answers] == texts


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


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["text=a", "output=/dev/null/out.csv"], DataError, "output=/dev/null/out.csv cannot be written"),
        (["text=a", "input=b.csv"], SettingError, "text and input are given together"),
        (["text_pair=a"], SettingError, "text_pair is given without text"),
        (
            ["text=a", "format=parquet"],
            SettingError,
            "format=parquet cannot be written to standard output. Set output=FILE.parquet",
        ),
        (["text=a", "top_k=3"], SettingError, "top_k=3 is more than this model has classes. Allowed: at most 2"),
        (["text=a", "unsure=ask"], SettingError, "unsure has no effect without min_probability"),
        (
            ["text=a", "unsure=balanced", "min_probability=1"],
            SettingError,
            "unsure=balanced is one of the model's labels",
        ),
        (["input=missing.csv"], DataError, "missing.csv does not exist"),
        (["split=tset"], DataError, "split=tset is not in this dataset.*train, validation, test"),
        (
            ["text=a", "output=out.xlsx"],
            SettingError,
            "Predictions cannot be written as .xlsx .out.xlsx.. Allowed: .csv, .jsonl",
        ),
    ],
)
def test_invalid_input_is_refused(command, brackets_run, arguments, error, message):
    with pytest.raises(error, match=message):
        command("predict", f"run={brackets_run}", *arguments)


@pytest.mark.parametrize("damage", ["config", "weights", "tokenizer", "other weights"])
def test_a_damaged_model_is_refused_in_one_line(command, brackets_run, reverse_run, tmp_path, damage):
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(brackets_run / "model", broken)
    if damage == "config":
        (broken / "config.json").write_text('{"encoderlab": {"model": {"schema": "os.system"}}, "id2label": {}}')
    elif damage == "weights":
        (broken / "model.safetensors").write_bytes(b"\0" * 100)
    elif damage == "tokenizer":
        (broken / "tokenizer.json").write_text("{}")
    else:
        shutil.copy(reverse_run / "model" / "model.safetensors", broken / "model.safetensors")
    with pytest.raises(DataError, match=r"damaged|do not match") as refused:
        command("predict", f"run={broken}", "text=a")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "txt"])
def test_the_extension_of_the_output_selects_its_format(command, brackets_run, tmp_path, ending):
    command("predict", f"run={brackets_run}", "text=(())", f"output=out.{ending}")
    read = {
        "csv": lambda path: rows_of(path.read_text()),
        "jsonl": lambda path: [json.loads(path.read_text())],
        "parquet": lambda path: pq.read_table(path).to_pylist(),
        "txt": lambda path: rows_of(path.read_text()),
    }
    (row,) = read[ending](tmp_path / f"out.{ending}")
    assert row["text"] == "(())"
    assert row["predicted"] in ("balanced", "unbalanced")


def test_uncertain_predictions_stay_open_and_no_row_is_lost(command, brackets_run, capsys):
    command("predict", f"run={brackets_run}", "split=test", "format=jsonl")
    sure = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    least = sorted(max(answer["probabilities"].values()) for answer in sure)[2000]
    command(
        "predict", f"run={brackets_run}", "split=test", "format=jsonl", f"min_probability={least + 2e-6}", "unsure=ask"
    )
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for before, after in zip(sure, found, strict=True):
        chance = max(before["probabilities"].values())
        assert after["probabilities"] == before["probabilities"]
        assert abs(chance - least) < 4e-6 or after["predicted"] == (before["predicted"] if chance > least else "ask")
    assert {answer["predicted"] for answer in found} >= {"ask"}


def test_uncertain_words_stay_open_and_each_word_has_its_top_k(reverse_run, printed):
    answer = printed("predict", f"run={reverse_run}", "text=1 2 3", "min_probability=1", "format=jsonl")
    assert answer["predicted"] == "_ _ _"
    assert len(answer["word_probabilities"]) == 3
    answer = printed("predict", f"run={reverse_run}", "text=1 2 3", "top_k=2", "format=jsonl")
    assert [top[0]["label"] for top in answer["top"]] == answer["predicted"].split()
    assert [top[0]["probability"] for top in answer["top"]] == pytest.approx(answer["word_probabilities"], abs=1e-5)
    assert all(len(top) == 2 and top[0]["probability"] >= top[1]["probability"] for top in answer["top"])
