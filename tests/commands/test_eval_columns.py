"""The columns of a file that a run is scored on: those of its training rows, or others, and then what differs is said."""

import csv
import json
from pathlib import Path

import pytest

from encoderlab.errors import DataError, UserError
from tests.run_files import report_of

SHORT = ("model=tiny", "tokenizer.vocabulary_size=100", "training.steps=2", "training.threads=1", "baselines=false")


def write_rows(name, columns, n=40, /, **values):
    """Write n rows of these columns; `values` has what each holds, by its name, given the row's number."""
    filled = {"review": lambda n: f"the film number {n} was seen", "stars": lambda n: ("low", "high")[n % 2]} | values
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *([filled[column](n) for column in columns] for n in range(n))])


@pytest.fixture(scope="module")
def reviews(tmp_path_factory, cache, run_in):
    """A run on the columns `review` and `stars`."""
    folder = tmp_path_factory.mktemp("reviews")
    write_rows(folder / "rows.csv", ["review", "stars"], 60)
    data = ("task=classification", "dataset=files", f"dataset.path={folder / 'rows.csv'}")
    run_in(cache, "train", *data, "dataset.text=review", "dataset.label=stars", *SHORT, f"run_dir={folder / 'run'}")
    return folder / "run"


def other_text(n):
    return f"something else about the weather {n}"


def test_the_columns_of_the_training_rows_are_read_before_those_of_usual_names(command, reviews, tmp_path):
    names = ["text", "review", "label", "stars"]
    write_rows("new.csv", names, text=other_text, label=lambda n: ("first", "second")[n % 2])
    command("eval", f"run={reviews}", "dataset.path=new.csv", "run_dir=scored")
    report = report_of(tmp_path / "scored")
    assert report["splits"]["all"]["n"] == 40
    assert any("'review'" in note and "'stars'" in note for note in report["notes"])
    command("eval", f"run={reviews}", "dataset.path=new.csv", "dataset.text=text", "run_dir=named")
    assert any("'text'" in note for note in report_of(tmp_path / "named")["notes"])


def test_the_columns_by_which_the_run_was_scored_are_those_of_the_file_too(command, reviews, tmp_path):
    channel = {"channel": lambda n: ("mail", "phone")[n // 2 % 2]}
    write_rows("by.csv", ["review", "stars", "channel"], 60, **channel)
    data = ("task=classification", "dataset=files", "dataset.path=by.csv", "dataset.text=review", "dataset.label=stars")
    command("train", *data, "dataset.slices=[channel]", *SHORT, "run_dir=by")
    write_rows("next.csv", ["review", "stars", "channel"], **channel)
    command("eval", "run=by", "dataset.path=next.csv", "run_dir=scored")
    assert "channel" in json.dumps(report_of(tmp_path / "scored")["slices"])
    write_rows("without.csv", ["review", "stars"])
    command("eval", "run=by", "dataset.path=without.csv", "run_dir=plain")
    assert "slices" not in report_of(tmp_path / "plain")


def test_a_file_with_other_columns_is_read_by_the_labels_the_model_knows(command, reviews, tmp_path):
    processed = {"done": lambda n: ("yes", "no")[n % 2], "verdict": lambda n: ("high", "low")[n % 2]}
    write_rows("other.csv", ["body", "done", "verdict"], body=other_text, **processed)
    command("eval", reviews, "other.csv", "run_dir=scored")
    notes = report_of(tmp_path / "scored")["notes"]
    assert any("'review'" in note and "'body'" in note for note in notes)
    assert any("'stars'" in note and "'verdict'" in note for note in notes)


def test_a_file_that_does_not_show_its_columns_is_refused_with_what_differs(command, reviews):
    write_rows("doubt.csv", ["first", "second", "stars"], first=other_text, second=other_text)
    with pytest.raises(DataError, match="'review'.*first"):
        command("eval", f"run={reviews}", "dataset.path=doubt.csv")
    process = {"done": lambda n: ("yes", "no")[n % 2], "month": lambda n: ("may", "june")[n % 2]}
    write_rows("unlabelled.csv", ["review", "done", "month"], **process)
    with pytest.raises(DataError, match="'stars'.*done"):
        command("eval", f"run={reviews}", "dataset.path=unlabelled.csv")


def test_a_gate_reads_the_columns_of_the_run_too(command, reviews, tmp_path):
    write_rows("gold.csv", ["text", "review", "stars"], text=other_text)
    command("eval", f"run={reviews}", f"against={reviews}", "dataset.path=gold.csv", "allowed_drop=0", "run_dir=gate")
    report = report_of(tmp_path / "gate")
    assert report["against"]["passed"] is True and any("'review'" in note for note in report["notes"])


def test_pairs_are_read_from_the_columns_of_the_pairs(command, pairs_run, tmp_path):
    columns = {"title": other_text, "body": other_text, "way": lambda n: ("up", "down")[n % 2]}
    write_rows("more.csv", ["body", "title", "way"], **columns)
    command("eval", f"run={pairs_run}", "dataset.path=more.csv", "run_dir=scored")
    assert report_of(tmp_path / "scored")["splits"]["all"]["n"] == 40
    write_rows("half.csv", ["title", "way"], **columns)
    with pytest.raises(UserError, match="'body'.*pairs"):
        command("eval", f"run={pairs_run}", "dataset.path=half.csv")


def test_values_that_training_had_named_are_named_again(command, tmp_path):
    graded = {"grade": lambda n: str(n % 3)}
    write_rows("rows.csv", ["review", "grade"], 60, **graded)
    write_rows("new.csv", ["review", "grade"], 30, **graded)
    names = "dataset.label_names={0: bad, 1: bad, 2: good}"
    data = ("task=classification", "dataset.path=rows.csv", "dataset=files", "dataset.label=grade")
    command("train", *data, "dataset.text=review", names, *SHORT, "run_dir=run")
    command("eval", "run=run", "dataset.path=new.csv", "run_dir=scored")
    per_class = report_of(tmp_path / "scored")["splits"]["all"]["per_class"]
    assert {label: own["support"] for label, own in per_class.items()} == {"bad": 20, "good": 10}


def test_how_a_run_reads_its_rows_is_said_once(command, capfd):
    spelt = {"stars": lambda n: "" if n == 3 else "LOW" if n == 4 else ("low", "high")[n % 2]}
    write_rows("rows.csv", ["review", "stars"], 60, **spelt)
    data = ("task=classification", "dataset=files", "dataset.path=rows.csv", "dataset.text=review")
    command("train", *data, "dataset.label=stars", *SHORT, "run_dir=run")
    assert capfd.readouterr().err.count("rows.csv: ") == 2
    for line in (["eval", "split=validation"], ["explain", "split=validation"], ["predict", "split=validation"]):
        command(*line, "run=run")
        assert "rows.csv: " not in capfd.readouterr().err
    write_rows("new.csv", ["review", "stars"], **spelt)
    command("eval", "run=run", "dataset.path=new.csv")
    assert capfd.readouterr().err.count("new.csv: ") == 2


def test_rows_without_a_label_are_counted_in_the_report(command, reviews, tmp_path):
    write_rows("gaps.csv", ["review", "stars"], stars=lambda n: "" if n < 5 else ("low", "high")[n % 2])
    command("eval", f"run={reviews}", "dataset.path=gaps.csv", "run_dir=scored")
    report = report_of(tmp_path / "scored")
    assert report["splits"]["all"]["n"] == 35 and any("5 rows" in note for note in report["notes"])
