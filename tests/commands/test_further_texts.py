"""finetune on few labels learns from the labels' names and from unlabelled texts, where that helps, and never scores
them.
"""

import csv
from pathlib import Path

import pytest
import safetensors.torch
import torch

from encoderlab.errors import DataError, SettingError
from encoderlab.system.processes import Interrupted
from tests.run_files import report_of

SHORT = ("training.epochs=4", "training.keep=last", "training.batch_size=8", "training.threads=1", "baselines=false")
FILM = ("a warm and witty film", "a dull empty mess")


def write(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


def films(first, n, names=("0", "1")):
    return [(f"{FILM[row % 2]} {row}", names[row % 2]) for row in range(first, first + n)]


@pytest.fixture
def line(shipped, tmp_path):
    """Write a few labelled texts, others to test on, and many without a label; return the line that learns them."""
    write(tmp_path / "train.csv", [("text", "label"), *films(0, 12)])
    write(tmp_path / "test.csv", [("text", "label"), *films(100, 20)])
    write(tmp_path / "more.csv", [("text",), *((text,) for text, _ in films(200, 60))])
    files = ("dataset.train=train.csv", "dataset.test=test.csv")
    return ("finetune", "task=classification", "dataset=files", *files, *SHORT)


def weights_of(folder):
    return safetensors.torch.load_file(folder / "model" / "model.safetensors")


def same_weights(one, other):
    theirs = weights_of(other)
    return all(torch.equal(weight, theirs[name]) for name, weight in weights_of(one).items())


def notes_on(folder, word):
    return [note for note in report_of(folder)["notes"] if word in note]


@pytest.mark.slow
def test_unlabelled_texts_are_trained_on_but_not_scored(command, line, tmp_path):
    command(*line, "unlabelled=more.csv", "run_dir=run")
    (note,) = notes_on(tmp_path / "run", "unlabelled")
    assert "60 unlabelled texts" in note and "kappa" in note
    command(*line, "run_dir=without")
    report, without = report_of(tmp_path / "run"), report_of(tmp_path / "without")
    assert not same_weights(tmp_path / "run", tmp_path / "without")
    assert report["splits"]["test"]["n"] == without["splits"]["test"]["n"] == 20
    assert notes_on(tmp_path / "without", "unlabelled") == []


@pytest.mark.slow
def test_rows_of_the_training_file_without_a_label_are_trained_on_too(command, line, tmp_path):
    command(*line, "run_dir=without")
    without_label = [(text, "") for text, _ in films(200, 60)]
    write(tmp_path / "train.csv", [("text", "label"), *films(0, 12), *without_label])
    command(*line, "run_dir=run")
    assert "60 unlabelled texts" in notes_on(tmp_path / "run", "unlabelled")[0]
    assert not same_weights(tmp_path / "run", tmp_path / "without")
    command(*line, "dataset.on_missing=drop", "run_dir=dropped")
    assert same_weights(tmp_path / "dropped", tmp_path / "without")


@pytest.mark.slow
def test_texts_of_the_runs_own_rows_are_left_out(command, line, tmp_path):
    """The file of the test rows adds nothing: their texts are not trained on, with any label."""
    command(*line, "unlabelled=test.csv", "run_dir=run")
    command(*line, "run_dir=without")
    assert same_weights(tmp_path / "run", tmp_path / "without")


@pytest.mark.slow
def test_texts_are_not_used_where_labels_say_nothing_about_them(command, line, tmp_path):
    shuffled = [(text, str(row // 2 % 2)) for row, (text, _) in enumerate(films(0, 12))]
    write(tmp_path / "train.csv", [("text", "label"), *shuffled])
    command(*line, "unlabelled=more.csv", "run_dir=run")
    command(*line, "run_dir=without")
    assert same_weights(tmp_path / "run", tmp_path / "without")
    assert notes_on(tmp_path / "run", "kappa")


@pytest.mark.slow
def test_many_labels_need_no_further_texts(command, line, tmp_path):
    write(tmp_path / "train.csv", [("text", "label"), *films(1000, 130)])
    command(*line, "training.steps=3", "unlabelled=more.csv", "run_dir=run")
    command(*line, "training.steps=3", "run_dir=without")
    assert same_weights(tmp_path / "run", tmp_path / "without")


def test_without_rows_to_test_on_only_labelled_rows_are_scored(command, line, tmp_path):
    alone = [word for word in line if not word.startswith("dataset.test")]
    command(*alone, "unlabelled=more.csv", "run_dir=run")
    assert report_of(tmp_path / "run")["splits"]["train"]["n"] == 12


@pytest.mark.parametrize("name", ["more.jsonl", "more.txt", "other.jsonl"])
def test_any_format_of_texts_will_do(command, line, tmp_path, name):
    texts = [text for text, _ in films(200, 60)]
    column = "remark" if name.startswith("other") else "text"
    lines = [f'{{"{column}": "{text}"}}' for text in texts] if name.endswith("jsonl") else [*texts, "", texts[0]]
    (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    command(*line, f"unlabelled={name}", "run_dir=run")
    assert "60 unlabelled texts" in notes_on(tmp_path / "run", "unlabelled")[0]


@pytest.mark.slow
def test_a_stopped_run_resumes_bit_for_bit_unless_the_texts_have_changed(command, line, stop_after, tmp_path):
    line = (*line, "unlabelled=more.csv", "training.checkpoint_every=2")
    command(*line, "run_dir=whole")
    stop_after(5)
    with pytest.raises(Interrupted):
        command(*line, "run_dir=run")
    stop_after(-1)
    before = (tmp_path / "more.csv").read_bytes()
    write(tmp_path / "more.csv", [("text",), *((text,) for text, _ in films(300, 60))])
    with pytest.raises(DataError, match=r"unlabelled=more\.csv have changed"):
        command("finetune", "resume=run")
    (tmp_path / "more.csv").write_bytes(before)
    command("finetune", "resume=run")
    assert same_weights(tmp_path / "run", tmp_path / "whole")
    assert report_of(tmp_path / "run")["notes"] == report_of(tmp_path / "whole")["notes"]


def test_texts_need_one_label_for_each(command, line):
    with pytest.raises(SettingError, match=r"unlabelled=more\.csv .* task=multilabel"):
        command(*(word.replace("=classification", "=multilabel") for word in line), "unlabelled=more.csv")
    with pytest.raises(DataError, match=r"unlabelled=none\.csv does not exist"):
        command(*line, "unlabelled=none.csv")
    write(Path("two.csv"), [("one", "two"), *((text, text[::-1]) for text, _ in films(200, 60))])
    with pytest.raises(DataError, match="Call the column of its texts 'text'"):
        command(*line, "unlabelled=two.csv")


@pytest.mark.slow
def test_names_that_say_what_the_rows_are_about_are_trained_on(command, line, tmp_path):
    write(tmp_path / "train.csv", [("text", "label"), *films(0, 12, ("warm_witty", "dull_mess"))])
    write(tmp_path / "test.csv", [("text", "label"), *films(100, 20, ("warm_witty", "dull_mess"))])
    command(*line, "run_dir=run")
    command(*line, "train_on_names=false", "run_dir=without")
    assert notes_on(tmp_path / "run", "names") and not notes_on(tmp_path / "without", "names")
    assert not same_weights(tmp_path / "run", tmp_path / "without")


def test_no_vectors_are_computed_when_there_is_nothing_to_add(command, line, tmp_path):
    write(tmp_path / "train.csv", [("text", "label"), *films(0, 12, ("warm_witty", "dull_mess"))])
    write(tmp_path / "test.csv", [("text", "label"), *films(100, 20, ("warm_witty", "dull_mess"))])
    command(*line, "train_on_names=false", "cache_dir=fresh", "run_dir=run")
    assert (tmp_path / "fresh").is_dir() and not (tmp_path / "fresh" / "vectors").exists()


@pytest.mark.slow
@pytest.mark.parametrize("names", [("0", "1"), ("dull_mess", "warm_witty")], ids=["numbers", "of the other label"])
def test_other_names_change_nothing(command, line, tmp_path, names):
    write(tmp_path / "train.csv", [("text", "label"), *films(0, 12, names)])
    write(tmp_path / "test.csv", [("text", "label"), *films(100, 20, names)])
    command(*line, "run_dir=run")
    command(*line, "train_on_names=false", "run_dir=without")
    assert same_weights(tmp_path / "run", tmp_path / "without")
