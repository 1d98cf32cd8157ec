"""Column settings: names for labels, groups that stay together, other columns to carry along."""

import json

import pytest

from encoderlab.errors import DataError, SettingError
from tests.data.files.written import error_of, load, train_of, write

STARS = "text,label\nx,1\ny,2\nz,3\nw,1\n"


def test_a_mapping_names_labels_and_can_merge_some(tmp_path):
    file = write(tmp_path / "rows.csv", STARS)
    names = {1: "bad", 2: "bad", 3: "good"}
    assert train_of(file, label_names=names) == [("x", "bad"), ("y", "bad"), ("z", "good"), ("w", "bad")]
    assert load(file, label_names=names).labels == ["bad", "good"]
    assert load(file, label_names={"3": "good", "2": "fair", "1": "bad"}).labels == ["good", "fair", "bad"]
    truth = write(tmp_path / "rows.jsonl", '{"text": "x", "label": true}\n{"text": "y", "label": false}\n')
    assert train_of(truth, label_names={True: "yes", False: "no"}) == [("x", "yes"), ("y", "no")]


def test_a_label_missing_from_the_mapping_is_refused_with_its_line(tmp_path):
    assert error_of(write(tmp_path / "rows.csv", STARS), label_names={1: "bad", 2: "good"}) == (
        "rows.csv, line 4 has the label '3', which dataset.label_names does not map. Allowed: 1, 2. Correct the row, or map its label too."
    )


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({1: "bad", 2: "bad"}, "dataset.label_names is [bad, bad]. Allowed: at least two different names."),
        (
            "bad",
            "dataset.label_names is 'bad'. Allowed: a list such as [bad,good], or a mapping such as {0:bad,1:good}.",
        ),
        ([["a"], "b"], "dataset.label_names is [['a'], 'b']. Allowed: a list such as"),
    ],
)
def test_names_that_are_neither_a_list_nor_a_mapping_are_refused(tmp_path, names, message):
    with pytest.raises(SettingError) as refused:
        load(write(tmp_path / "rows.csv", STARS), label_names=names)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl"])
def test_rows_of_one_group_are_held_out_together(tmp_path, name):
    rows = [{"text": f"t{n}", "label": "ab"[n % 2], "author": n % 20} for n in range(100)]
    lines = (
        [",".join(map(str, row.values())) for row in rows] if name == "rows.csv" else [json.dumps(row) for row in rows]
    )
    file = write(tmp_path / name, "\n".join((["text,label,author"] if name == "rows.csv" else []) + lines) + "\n")
    parts = load(file, validation_fraction=0.2, group="author", carry=[]).by_name
    sides = [set(part.carried[:]["author"]) for part in parts.values()]
    assert len(sides[1]) == 4 and not sides[0] & sides[1]
    assert "no column 'writer' to group by. Allowed: text, author." in error_of(file, group="writer")


def test_a_group_that_would_leave_a_split_empty_is_refused(tmp_path):
    file = write(tmp_path / "rows.csv", "text,label,author\n" + "".join(f"t{n},{n % 2},ann\n" for n in range(20)))
    assert error_of(file, validation_fraction=0.1, group="author") == (
        "20 rows with 1 group (dataset.group) are too few to take validation rows from. "
        "Add rows, or use a separate file of validation rows: dataset.train=FILE dataset.validation=FILE."
    )


def test_all_other_columns_are_carried_along_or_only_the_named_ones(tmp_path):
    file = write(tmp_path / "rows.csv", "id,text,label,note\n7,x,a,p\n8,y,b,q\n")
    assert load(file).by_name["train"].carried[:] == {"id": ["7", "8"], "note": ["p", "q"]}
    assert load(file, carry=["id"]).by_name["train"].carried[:] == {"id": ["7", "8"]}
    assert load(file, carry=[]).by_name["train"].carried is None
    assert load(file).by_name["train"].take([1]).carried[:] == {"id": ["8"], "note": ["q"]}
    assert "has no column 'ids'. Allowed: id, text, label, note. Did you mean 'id'?" in error_of(file, carry=["ids"])


def test_values_of_mixed_types_are_carried_along_as_texts(tmp_path):
    lines = [
        '{"text": "x", "label": "a", "id": 1, "tags": ["p"]}',
        '{"text": "y", "label": "b", "id": "two", "tags": []}',
    ]
    train = load(write(tmp_path / "rows.jsonl", "\n".join(lines))).by_name["train"]
    assert train.carried[:] == {"id": ["1", "two"], "tags": ['["p"]', "[]"]}
    numbers = write(tmp_path / "numbers.jsonl", '{"text": "x", "label": "a", "id": 1}\n{"text": "y", "label": "b"}')
    assert load(numbers).by_name["train"].carried[:] == {"id": [1, None]}
    with pytest.raises(DataError, match="holds half a character"):
        load(write(tmp_path / "half.jsonl", '{"text": "x", "label": "a", "id": "\\ud800"}'))


def test_numbers_with_decimals_are_refused_as_classes(tmp_path):
    measured = write(tmp_path / "rows.csv", "text,label\n" + "".join(f"t{n},{n / 8}\n" for n in range(40)))
    assert error_of(measured) == (
        "rows.csv, line 3 has '0.125' in column 'label', which holds 40 different numbers. Allowed: classes. "
        "Use task=regression, or list the classes in dataset.label_names."
    )
    halves = write(tmp_path / "halves.csv", "text,label\n" + "".join(f"t{n},{n % 10 / 2}\n" for n in range(40)))
    assert len(load(halves).labels) == 10


def test_several_labels_in_a_cell_are_refused_as_a_class(tmp_path):
    file = write(tmp_path / "rows.csv", "text,label\nx,joy\ny,anger\nz,joy|anger\n")
    assert error_of(file) == (
        "rows.csv, line 4 has the label 'joy|anger', whose parts are labels of other rows. Allowed: one label in each row. "
        "Use task=multilabel, or list the labels in dataset.label_names."
    )
    assert len(load(file, label_names=["joy", "anger", "joy|anger"]).labels) == 3
    assert len(load(write(tmp_path / "names.csv", 'text,label\nx,"news, world"\ny,news\n')).labels) == 2
