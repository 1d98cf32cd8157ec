"""A user's own files: their splits, contradictory settings, and new texts without labels."""

import json
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from encoderlab.data import spool
from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.data.files.files import FilesDataset, read_unlabelled
from encoderlab.errors import DataError, SettingError
from tests.data.files import written


def write(path, content):
    path.write_text(content, encoding="utf-8")
    return path


def load(path, **given):
    return FilesDataset(path=str(path), **given).load(path.parent)


error_of = partial(written.error_of, read=load)


def parts(tmp_path, **contents):
    return {name: str(write(tmp_path / f"{name}.csv", content)) for name, content in contents.items()}


def test_each_split_can_have_its_own_file(tmp_path):
    files = parts(tmp_path, train="text,label\nx,b\ny,a\n", validation="text,label\nz,a\n", test="text,label\nw,b\n")
    splits = FilesDataset(**files).load(tmp_path)
    assert {name: len(split) for name, split in splits.by_name.items()} == {"train": 2, "validation": 1, "test": 1}
    assert splits.by_name["test"][0] == TextExample("w", None, 1)
    assert splits.origin == {"source": "files", "files": files}


def test_a_split_can_have_several_files_or_a_pattern(tmp_path):
    write(tmp_path / "b.csv", "text,label\nx,b\ny,a\n")
    write(tmp_path / "a.csv", "label;text\na;z\n")
    pq.write_table(pa.table({"text": pa.array(["w"], pa.large_string()), "label": ["b"]}), tmp_path / "c.parquet")
    named = FilesDataset(
        train=[str(tmp_path / "b.csv"), str(tmp_path / "c.parquet")], validation=str(tmp_path / "a.csv")
    )
    splits = named.load(tmp_path)
    assert [example.text for example in splits.by_name["train"]] == ["x", "y", "w"]
    assert splits.by_name["train"].where(1).endswith("b.csv, line 3") and splits.by_name["train"].where(2).endswith(
        "c.parquet, row 1"
    )
    assert splits.origin["files"]["train"] == [str(tmp_path / "b.csv"), str(tmp_path / "c.parquet")]
    pattern = FilesDataset(path=str(tmp_path / "*.csv"), validation_fraction=0).load(tmp_path)
    assert [example.text for example in pattern.by_name["train"]] == ["z", "x", "y"]
    write(tmp_path / "d.csv", "text,label\nx,\n")
    assert (
        error_of(tmp_path / "?.csv")
        == "d.csv, line 2 has no label in column 'label'. Fill it in, or set dataset.on_missing=drop to drop such rows."
    )
    assert error_of(tmp_path / "*.tsv").startswith(
        f"dataset.path={tmp_path}/*.tsv matches no file.".replace(f"{tmp_path}/", "")
    )


@pytest.mark.parametrize("given", [[], [1], 7, "", {"a": "b"}])
def test_values_that_are_neither_a_file_nor_a_list_of_files_are_refused(given):
    with pytest.raises(SettingError, match="Allowed: a file, a folder, a pattern"):
        FilesDataset(path=given)


def test_validation_is_taken_from_training_if_it_has_no_file(tmp_path):
    rows = "text,label\n" + "".join(f"t{n},{n % 2}\n" for n in range(40))
    files = parts(tmp_path, train=rows, test="text,label\nw,1\n")
    splits = FilesDataset(**files).load(tmp_path)
    assert {name: len(split) for name, split in splits.by_name.items()} == {"train": 36, "validation": 4, "test": 1}
    assert splits.origin["taken_from_train"] == {"validation": 0.1} and splits.origin["split_seed"] == 0


def test_a_single_file_is_split_the_same_way_every_time(tmp_path):
    file = write(tmp_path / "rows.csv", "text,label\n" + "".join(f"t{n},{n % 2}\n" for n in range(100)))

    def held_out(seed):
        splits = load(file, validation_fraction=0.2, test_fraction=0.1, split_seed=seed)
        assert {name: len(split) for name, split in splits.by_name.items()} == {
            "train": 70,
            "validation": 20,
            "test": 10,
        }
        return [example.text for example in splits.by_name["validation"]]

    assert held_out(0) == held_out(0) != held_out(1)


def test_a_label_that_differs_from_those_of_training_by_its_case_is_refused_with_the_right_one(tmp_path):
    files = parts(tmp_path, train="text,label\nx,good\ny,bad\n", test="text,label\nz,Good\n")
    with pytest.raises(
        DataError, match=r"line 2 has the label 'Good', which no training row has.*Write it as 'good'\.$"
    ):
        FilesDataset(**files, validation_fraction=0).load(tmp_path)


def test_a_label_missing_from_training_is_refused_with_its_line(tmp_path):
    files = parts(tmp_path, train="text,label\nx,b\ny,a\n", test="text,label\nz,a\nw,c\n")
    with pytest.raises(DataError) as caught:
        FilesDataset(**files, validation_fraction=0).load(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}/test.csv, line 3 has the label 'c', which no training row has. Allowed: a, b. "
        "Correct the row, or list every label in dataset.label_names."
    )
    assert (
        FilesDataset(**files, label_names=["a", "b", "c"], validation_fraction=0)
        .load(tmp_path)
        .by_name["test"][1]
        .label
        == 2
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "dataset=files has no rows to train on: neither dataset.path nor dataset.train is set."),
        ({"test": "t.csv"}, "dataset=files has no rows to train on: only dataset.test is set."),
        ({"path": "a.csv", "test": "t.csv"}, "Both dataset.path and dataset.test are set."),
    ],
)
def test_missing_or_superfluous_paths_are_refused(given, message):
    with pytest.raises(SettingError) as caught:
        FilesDataset(**given)
    remedy = (
        " Set dataset.path=FILE for one file, or dataset.train=FILE (with dataset.validation=FILE, dataset.test=FILE)."
    )
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
            "dataset.validation_fraction is 1.0. Allowed: at least 0, less than 1. Remove dataset.validation_fraction to use its default.",
        ),
        (
            {"text": "x", "label": "x"},
            "dataset.text, text_pair and label name the column 'x' twice. Allowed: a different column for each.",
        ),
        ({"label_names": ["a", "a"]}, "dataset.label_names is [a, a]. Allowed: at least two different names."),
        ({"label_names": ["a"]}, "dataset.label_names is [a]. Allowed: at least two different names."),
    ],
)
def test_contradictory_settings_are_refused(given, message):
    with pytest.raises(SettingError) as caught:
        FilesDataset(path="x.csv", **given)
    assert str(caught.value) == message


def test_label_names_that_do_not_fit_are_refused(tmp_path):
    file = write(tmp_path / "rows.csv", "text,label\nx,good\ny,bad\n")
    assert error_of(file, kind=SettingError, validation_fraction=0, label_names=["good", "poor"]) == (
        "dataset.label_names=[good, poor] does not name the 2 labels in the data. Allowed: all of bad, good, in any order. "
        "Remove dataset.label_names to use these names, or rename each: dataset.label_names={bad:NAME,...}."
    )


def test_rows_of_a_single_label_are_read_if_label_names_list_the_others(tmp_path):
    one = write(tmp_path / "one.csv", "text,label\n" + "".join(f"t{n},pos\n" for n in range(20)))
    assert (
        error_of(one)
        == "The training rows have only the label 'pos'. Allowed: at least two labels. Check dataset.label."
    )
    splits = load(one, label_names=["neg", "pos"])
    assert splits.labels == ["neg", "pos"]
    assert {example.label for split in splits.by_name.values() for example in split} == {1}
    number = write(tmp_path / "number.csv", "text,label\nx,0\ny,0\n")
    assert [row.label for row in load(number, label_names=["neg", "pos"], validation_fraction=0).by_name["train"]] == [
        0,
        0,
    ]


def test_labels_that_differ_only_in_white_space_are_refused_with_a_row_of_each(tmp_path):
    file = write(tmp_path / "rows.csv", "text,label\na,pos\nx,neg\ny,neg\nz,neg \n")
    assert error_of(file) == (
        "rows.csv, line 3 has the label 'neg', and rows.csv, line 5 has 'neg '. "
        "Allowed: labels that differ by more than white space around them. Write both the same way."
    )
    assert "rows.csv, line 3 has the label 'neg', and" in error_of(file, label_names=["neg", "neg ", "pos"])
    files = parts(tmp_path, train="text,label\nx,neg\ny,pos\n", test="text,label\nz,\tpos\n")
    with pytest.raises(DataError, match=r"train.csv, line 3 has the label 'pos', and .*test.csv, line 2 has '\\tpos'"):
        FilesDataset(**files).load(tmp_path)
    words = write(
        tmp_path / "rows.jsonl", '{"text": ["a", "b"], "label": ["X", "Y"]}\n{"text": ["c"], "label": ["X "]}'
    )
    assert error_of(words).startswith("rows.jsonl, line 1 has the label 'X', and rows.jsonl, line 2 has 'X '.")
    cases = write(tmp_path / "cases.csv", "text,label\nx,neg\ny,Neg\n")
    assert load(cases, validation_fraction=0).labels == ["Neg", "neg"]


def test_paths_are_saved_as_absolute_and_so_work_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "here" / "rows.csv", "text,label\nx,a\ny,b\n")
    write(tmp_path / "rows.csv", "text,label\nx,a\ny,b\n")
    relative = FilesDataset(path="rows.csv", validation_fraction=0)
    split = FilesDataset(train="rows.csv", validation="../rows.csv", test="~/rows.csv")
    assert relative.path == str(tmp_path / "here" / "rows.csv")
    assert (relative.train, relative.validation, relative.test, split.path) == (None, None, None, None)
    monkeypatch.chdir("/")
    assert len(relative.load(tmp_path).by_name["train"]) == 2
    assert {name: len(rows) for name, rows in split.load(tmp_path).by_name.items()} == {
        "train": 2,
        "validation": 2,
        "test": 2,
    }
    assert relative.load(tmp_path).origin["files"] == {"train": str(tmp_path / "here" / "rows.csv")}


def test_messages_give_relative_paths_of_files_inside_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    write(tmp_path / "here" / "rows.csv", "text,label\nx,a\ny,\n")
    for folder, shown in (
        (tmp_path, "here/rows.csv"),
        (tmp_path / "here", "rows.csv"),
        ("/", str(tmp_path / "here/rows.csv")[1:]),
    ):
        monkeypatch.chdir(folder)
        with pytest.raises(DataError) as caught:
            FilesDataset(path=shown).load(tmp_path)
        assert (
            str(caught.value)
            == f"{shown}, line 3 has no label in column 'label'. Fill it in, or set dataset.on_missing=drop to drop such rows."
        )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=f"^{tmp_path}/here/rows.csv, line 3 has no label"):
        FilesDataset(path=str(tmp_path / "here" / "rows.csv")).load(tmp_path)


def test_too_few_rows_to_take_validation_from_are_refused(tmp_path):
    file = write(tmp_path / "rows.csv", "text,label\nx,a\ny,b\n")
    assert error_of(file, validation_fraction=0.1) == (
        "2 rows with 2 different texts are too few to take validation rows from. "
        "Add rows, or use a separate file of validation rows: dataset.train=FILE dataset.validation=FILE."
    )


# --- new texts
# --------------------------------------------------------------------------------------------------------------------


def test_new_texts_are_read_in_order_and_without_labels(tmp_path):
    file = write(tmp_path / "new.csv", 'id,text,other\n1,b,y\n2,"a\nb",x\n3,,\n')
    assert list(read_unlabelled(file, text="text", text_pair=None, words=False)) == [
        TextExample("b"),
        TextExample("a\nb"),
        TextExample(""),
    ]
    assert read_unlabelled(file, text="text", text_pair="other", words=False)[0] == TextExample("b", "y")


@pytest.mark.parametrize("name", ["new.csv", "new.jsonl", "new.parquet"])
def test_texts_to_predict_that_exceed_memory_are_kept_in_the_cache_folder(tmp_path, monkeypatch, name):
    texts = [f"text {n}" for n in range(9)]
    write(tmp_path / "new.csv", "\n".join(["text", *texts]))
    write(tmp_path / "new.jsonl", "\n".join(json.dumps({"text": text}) for text in texts))
    pq.write_table(pa.table({"text": texts}), tmp_path / "new.parquet")
    monkeypatch.setattr(spool, "IN_MEMORY", 1)
    spooled = []
    spool_batches = spool.Spool._write
    monkeypatch.setattr(
        spool.Spool, "_write", lambda self, folder: spooled.append(folder) or spool_batches(self, folder)
    )
    cache = tmp_path / "not" / "yet"
    split = read_unlabelled(tmp_path / name, text="text", text_pair=None, words=False, cache_dir=cache)
    assert [example.text for example in split] == texts
    assert set(spooled) == {cache} and not list(cache.iterdir())


def test_new_texts_are_split_into_words_on_request(tmp_path):
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
    with pytest.raises(
        DataError, match="new.jsonl holds lists of words. Allowed: texts, because the run predicts for whole texts."
    ):
        read_unlabelled(lists, text="text", text_pair=None, words=False)
    with pytest.raises(DataError, match="is a folder. Allowed: a file. Choose a file inside it."):
        read_unlabelled(tmp_path, text="text", text_pair=None, words=False)
    for name in ("new.txt", "new.conll"):
        with pytest.raises(DataError) as caught:
            read_unlabelled(write(tmp_path / name, "x"), text="a", text_pair="b", words=False)
        allowed = "Allowed: csv, tsv, jsonl or parquet, because the run was trained on pairs."
        assert str(caught.value) == f"{tmp_path / name} holds no pairs of texts. {allowed}"


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        ("texts,b\nx,y\n", ("text", None), "has no column 'text'. Allowed: texts, b. Set text_column=texts."),
        ("text,other\nx,y\n", ("text", "b"), "has no column 'b'. Allowed: text, other. Set text_pair_column=COLUMN."),
    ],
)
def test_a_missing_column_of_new_texts_is_explained_with_the_settings_of_predict(tmp_path, content, columns, message):
    file = write(tmp_path / "new.csv", content)
    with pytest.raises(DataError) as caught:
        read_unlabelled(file, text=columns[0], text_pair=columns[1], words=False)
    assert str(caught.value) == f"The first line of {file} {message}"


def test_columns_of_new_texts_in_other_formats_are_explained_with_the_settings_of_predict(tmp_path):
    pq.write_table(pa.table({"text": ["x"], "number": [1]}), tmp_path / "new.parquet")
    write(tmp_path / "new.conll", "a X\n")
    for name, columns, message in [
        ("new.parquet", {"text": "body", "text_pair": None}, "Set text_column=COLUMN."),
        ("new.parquet", {"text": "text", "text_pair": "number"}, "Choose another with text_pair_column=COLUMN."),
        ("new.conll", {"text": "word", "text_pair": None}, "Set text_column=0."),
    ]:
        with pytest.raises(DataError) as caught:
            read_unlabelled(tmp_path / name, **columns, words=False)
        assert str(caught.value).endswith(message)


def test_a_text_file_read_by_lines_has_no_labels(tmp_path):
    assert error_of(write(tmp_path / "rows.txt", "x\ny\n")) == (
        "rows.txt holds one text per line and no columns, but dataset.label is set. "
        "Set dataset.label=null, or dataset.format=conll if it has a word and its label per line."
    )
    assert error_of(write(tmp_path / "rows.txt", ""), label=None) == "rows.txt has no rows. Choose a file with rows."
