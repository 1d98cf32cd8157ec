"""A user's own files: their splits, settings that contradict each other, and new texts without labels."""

import pytest

from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.data.sources.files import FilesDataset, read_unlabelled
from encoderlab.errors import DataError, SettingError


def write(path, content):
    path.write_text(content, encoding="utf-8")
    return path


def load(path, **given):
    return FilesDataset(path=str(path), **given).load(path.parent)


def error_of(path, kind=DataError, **given):
    with pytest.raises(kind) as caught:
        load(path, **given)
    return str(caught.value).replace(f"{path.parent}/", "")


def parts(tmp_path, **contents):
    return {name: str(write(tmp_path / f"{name}.csv", content)) for name, content in contents.items()}


def test_each_split_may_have_its_own_file(tmp_path):
    files = parts(tmp_path, train="text,label\nx,b\ny,a\n", validation="text,label\nz,a\n", test="text,label\nw,b\n")
    splits = FilesDataset(**files).load(tmp_path)
    assert {name: len(split) for name, split in splits.by_name.items()} == {"train": 2, "validation": 1, "test": 1}
    assert splits.by_name["test"][0] == TextExample("w", None, 1)
    assert splits.origin == {"source": "files", "files": files}


def test_validation_is_taken_from_training_where_it_has_no_file(tmp_path):
    rows = "text,label\n" + "".join(f"t{n},{n % 2}\n" for n in range(40))
    files = parts(tmp_path, train=rows, test="text,label\nw,1\n")
    splits = FilesDataset(**files).load(tmp_path)
    assert {name: len(split) for name, split in splits.by_name.items()} == {"train": 36, "validation": 4, "test": 1}
    assert splits.origin["taken_from_train"] == {"validation": 0.1} and splits.origin["split_seed"] == 0


def test_one_file_is_split_the_same_way_every_time(tmp_path):
    file = write(tmp_path / "rows.csv", "text,label\n" + "".join(f"t{n},{n % 2}\n" for n in range(100)))

    def held_out(seed):
        splits = load(file, validation_fraction=0.2, test_fraction=0.1, split_seed=seed)
        assert {name: len(split) for name, split in splits.by_name.items()} == {"train": 70, "validation": 20, "test": 10}
        return [example.text for example in splits.by_name["validation"]]

    assert held_out(0) == held_out(0) != held_out(1)


def test_a_label_training_has_not_is_refused_with_its_line(tmp_path):
    files = parts(tmp_path, train="text,label\nx,b\ny,a\n", test="text,label\nz,a\nw,c\n")
    with pytest.raises(DataError) as caught:
        FilesDataset(**files, validation_fraction=0).load(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}/test.csv, line 3 has the label 'c', which no training row has. Allowed: a, b. "
        "Mend the row, or name every label in dataset.label_names."
    )
    assert FilesDataset(**files, label_names=["a", "b", "c"], validation_fraction=0).load(tmp_path).by_name["test"][1].label == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "dataset=files has no rows to train on: neither dataset.path nor dataset.train is set."),
        ({"test": "t.csv"}, "dataset=files has no rows to train on: only dataset.test is set."),
        ({"path": "a.csv", "test": "t.csv"}, "Both dataset.path and dataset.test are set."),
    ],
)
def test_paths_that_say_too_little_or_too_much_are_refused(given, message):
    with pytest.raises(SettingError) as caught:
        FilesDataset(**given)
    remedy = " Type dataset.path=FILE for one file, or dataset.train=FILE (with dataset.validation=FILE, dataset.test=FILE)."
    assert str(caught.value) == message + remedy


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"validation_fraction": 0.5, "test_fraction": 0.5},
            "dataset.validation_fraction=0.5 and dataset.test_fraction=0.5 leave no training rows. Allowed: a sum below 1.",
        ),
        (
            {"validation_fraction": 1.0},
            "dataset.validation_fraction is 1.0. Allowed: at least 0, less than 1. The default is dataset.validation_fraction=0.1.",
        ),
        ({"text": "x", "label": "x"}, "dataset.text, text_pair and label name the column 'x' twice. Allowed: a column each."),
        ({"label_names": ["a", "a"]}, "dataset.label_names is [a, a]. Allowed: at least two names, none twice."),
        ({"label_names": ["a"]}, "dataset.label_names is [a]. Allowed: at least two names, none twice."),
    ],
)
def test_settings_that_contradict_each_other_are_refused(given, message):
    with pytest.raises(SettingError) as caught:
        FilesDataset(path="x.csv", **given)
    assert str(caught.value) == message


def test_label_names_that_do_not_fit_are_refused(tmp_path):
    file = write(tmp_path / "rows.csv", "text,label\nx,good\ny,bad\n")
    assert error_of(file, SettingError, validation_fraction=0, label_names=["good", "poor"]) == (
        "dataset.label_names=[good, poor] does not name the 2 labels there are. Allowed: all of bad, good, in any order. "
        "Leave dataset.label_names out to use these names."
    )


def test_too_few_rows_to_take_validation_from_are_refused(tmp_path):
    file = write(tmp_path / "rows.csv", "text,label\nx,a\ny,b\n")
    assert error_of(file, validation_fraction=0.1) == (
        "2 rows with 2 different texts are too few to take validation rows from. "
        "Type dataset.validation_fraction=0 to train without validation, or add rows."
    )


# --- new texts --------------------------------------------------------------------------------------------------------------------


def test_new_texts_are_read_in_order_and_without_labels(tmp_path):
    file = write(tmp_path / "new.csv", 'id,text,other\n1,b,y\n2,"a\nb",x\n3,,\n')
    assert list(read_unlabelled(file, text="text", text_pair=None, words=False)) == [
        TextExample("b"),
        TextExample("a\nb"),
        TextExample(""),
    ]
    assert read_unlabelled(file, text="text", text_pair="other", words=False)[0] == TextExample("b", "y")


def test_new_texts_become_words_where_words_are_asked_for(tmp_path):
    lines = write(tmp_path / "new.txt", "New  York is\n\nbig\n")
    assert [example.words for example in read_unlabelled(lines, text="", text_pair=None, words=True)] == [
        ("New", "York", "is"),
        (),
        ("big",),
    ]
    lists = write(tmp_path / "new.jsonl", '{"text": ["New York", "is"]}')
    assert read_unlabelled(lists, text="text", text_pair=None, words=True)[0] == WordsExample(("New York", "is"), None)


def test_new_texts_that_do_not_fit_are_refused(tmp_path):
    lists = write(tmp_path / "new.jsonl", '{"text": ["New York", "is"]}')
    with pytest.raises(DataError, match="new.jsonl holds lists of words. Allowed: texts, for the run answers for whole texts."):
        read_unlabelled(lists, text="text", text_pair=None, words=False)
    with pytest.raises(DataError, match="is a folder. Allowed: a file. Name a file inside it."):
        read_unlabelled(tmp_path, text="text", text_pair=None, words=False)
    with pytest.raises(
        DataError,
        match="holds one text per line and nothing else, but dataset.text_pair=b is asked for. Type dataset.text_pair=null",
    ):
        read_unlabelled(write(tmp_path / "new.txt", "x"), text="a", text_pair="b", words=False)


def test_texts_by_line_have_no_labels(tmp_path):
    assert error_of(write(tmp_path / "rows.txt", "x\ny\n")) == (
        "rows.txt holds one text per line and nothing else, but dataset.label=label is asked for. "
        "Type dataset.label=null, or name a csv, tsv, jsonl or parquet file."
    )
    assert error_of(write(tmp_path / "rows.txt", ""), label=None) == "rows.txt has no rows. Name a file that has some."
