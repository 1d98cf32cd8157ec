"""Columns of labels and numbers: every common notation reads the same, and unreadable cells are named."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from encoderlab.data.files.files import FilesDataset
from encoderlab.errors import DataError, SettingError

ROWS = [("one", ["joy"]), ("two", ["anger", "joy"]), ("three", []), ("four", ["fear"])] * 5


def write(folder, form):
    path = folder / f"rows.{form}"
    if form == "parquet":
        pq.write_table(pa.table({"text": [text for text, _ in ROWS], "label": [labels for _, labels in ROWS]}), path)
    elif form == "jsonl":
        path.write_text("".join(json.dumps({"text": text, "label": labels}) + "\n" for text, labels in ROWS))
    else:
        path.write_text("text,label\n" + "".join(f"{text},{'|'.join(labels)}\n" for text, labels in ROWS))
    return path


def loaded(path, target="label_set", **settings):
    dataset = FilesDataset(path=str(path), validation_fraction=0.0, **settings)
    splits = dataset.load(path.parent / "cache", target)
    return splits, list(splits.by_name["train"])


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_label_sets_read_the_same_from_every_notation(tmp_path, form):
    splits, examples = loaded(write(tmp_path, form))
    assert splits.labels == ["anger", "fear", "joy"]
    assert [example.label for example in examples[:4]] == [(2,), (0, 2), (), (1,)]
    assert splits.by_name["train"].target == "label_set" and splits.by_name["train"].labelled


def test_columns_of_0_and_1_are_labels_with_their_names(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("text,joy,fear,anger\none,1,0,0\ntwo,true,0,1.0\nthree,0,0,0\n")
    splits, examples = loaded(path, label_columns=["joy", "anger", "fear"])
    assert splits.labels == ["joy", "anger", "fear"]  # one that no row bears is a label too
    assert [example.label for example in examples[:3]] == [(0,), (0, 1), ()]


def test_a_cell_that_is_neither_0_nor_1_is_named(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("text,joy,fear\none,1,0\ntwo,maybe,0\n")
    with pytest.raises(
        DataError, match="rows.csv, line 3 has neither 0 nor 1 in column 'joy': 'maybe'.*Allowed: 0 or 1"
    ):
        loaded(path, label_columns=["joy", "fear"])


@pytest.mark.parametrize(
    ("separator", "wanted"), [(None, [("a, b", "c")]), (";", [("a, b|c",)]), (",", [("a", "b|c")])]
)
def test_the_separator_is_the_first_of_the_usual_ones_or_the_one_that_is_set(tmp_path, separator, wanted):
    path = tmp_path / "rows.csv"
    path.write_text('text,label\none,"a, b|c"\ntwo,z\n')
    splits, examples = loaded(path, label_separator=separator)
    assert {splits.labels[id_] for id_ in examples[0].label} == set(wanted[0])


def test_labels_are_separated_in_all_splits_as_in_training(tmp_path):
    (tmp_path / "train.csv").write_text('text,label\none,a|b\ntwo,"x, y"\n')
    (tmp_path / "test.csv").write_text('text,label\none,"x, y"\n')
    splits = FilesDataset(
        train=str(tmp_path / "train.csv"), test=str(tmp_path / "test.csv"), validation_fraction=0.0
    ).load(tmp_path / "cache", "label_set")
    assert splits.labels == ["a", "b", "x, y"]


def test_label_columns_are_refused_for_other_tasks(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("text,joy,fear\none,1,0\n")
    with pytest.raises(SettingError, match="dataset.label_columns names a column for each label.*Use task=multilabel"):
        loaded(path, "number", label_columns=["joy", "fear"])


@pytest.mark.parametrize(("cell", "number"), [("3", 3.0), (" -2.5 ", -2.5), ("1e3", 1000.0), (".5", 0.5)])
def test_numbers_are_read_as_they_are_written(tmp_path, cell, number):
    path = tmp_path / "rows.csv"
    path.write_text(f"text,label\none,{cell}\ntwo,4\n")
    splits, examples = loaded(path, "number")
    assert examples[0].label == number and splits.labels == []


@pytest.mark.parametrize("cell", ["n/a", "nan", "inf", "12 kg", "1_000"])
def test_a_cell_that_is_not_a_finite_number_is_named(tmp_path, cell):
    path = tmp_path / "rows.csv"
    path.write_text(f"text,label\none,1\ntwo,{cell}\n")
    with pytest.raises(DataError, match=f"rows.csv, line 3 has '{cell}' in column 'label', which is not a number"):
        loaded(path, "number")


@pytest.mark.parametrize(
    ("cells", "remedy"),
    [
        (("1", "two"), "Correct the row or remove it"),
        (("good", "bad"), "Use task=classification if these are classes"),
        (("1,5", "2"), "Use a decimal point instead of the comma"),
    ],
)
def test_the_remedy_for_cells_that_are_not_numbers_depends_on_the_others(tmp_path, cells, remedy):
    path = tmp_path / "rows.csv"
    path.write_text("text;label\none;{}\ntwo;{}\n".format(*cells))
    with pytest.raises(DataError, match=remedy):
        loaded(path, "number")


def test_words_with_labels_are_refused_as_numbers(tmp_path):
    path = tmp_path / "rows.conll"
    path.write_text("Anna B\nsaw O\n\n" * 3)
    with pytest.raises(DataError, match="Use task=tagging"):
        loaded(path, "number")


def test_held_out_rows_cover_every_frequent_label_and_the_whole_range_of_numbers(tmp_path):
    sets, numbers = tmp_path / "sets.csv", tmp_path / "numbers.csv"
    sets.write_text(
        "text,label\n" + "".join(f"text {row},{'ab'[row % 2]}{'|rare' * (row % 20 == 0)}\n" for row in range(200))
    )
    numbers.write_text("text,label\n" + "".join(f"text {row},{row}\n" for row in range(200)))
    held_out = FilesDataset(path=str(sets), validation_fraction=0.1).load(tmp_path / "cache", "label_set").by_name
    found = [id_ for example in held_out["validation"] for id_ in example.label]
    assert found.count(2) == 1 and abs(found.count(0) - found.count(1)) <= 3
    held_out = FilesDataset(path=str(numbers), validation_fraction=0.1).load(tmp_path / "cache", "number").by_name
    drawn = sorted(example.label for example in held_out["validation"])
    assert (
        len(drawn) == 20 and [sum(low <= number < low + 40 for number in drawn) for low in range(0, 200, 40)] == [4] * 5
    )
