"""A folder per label: texts sorted by label and name, or refused with the file that does not belong."""

from encoderlab.data.files.files import FilesDataset
from encoderlab.errors import SettingError
from tests.data.files import written


def fill(folder, **labels):
    for label, texts in labels.items():
        (folder / label).mkdir(parents=True)
        for number, text in enumerate(texts):
            (folder / label / f"{number}.txt").write_text(text, encoding="utf-8")


def load(folder, **given):
    return FilesDataset(path=str(folder), **{"validation_fraction": 0, **given}).load(folder)


def error_of(folder, **given):
    return written.error_of(folder, read=load, **given).replace(folder.name, "FOLDER")


def test_each_subfolder_is_a_label(tmp_path):
    fill(tmp_path, pos=["fine\n", "good"], neg=["bad,\nreally"])
    (tmp_path / "README").write_text("not an example")
    (tmp_path / "pos" / ".DS_Store").write_text("not an example")
    splits = load(tmp_path)
    assert splits.labels == ["neg", "pos"]
    assert [(one.text, one.label) for one in splits.by_name["train"]] == [
        ("bad,\nreally", 0),
        ("fine\n", 1),
        ("good", 1),
    ]


def test_folders_named_after_splits_are_splits(tmp_path):
    fill(tmp_path / "train", pos=["fine"], neg=["bad"])
    fill(tmp_path / "test", pos=["good"])
    splits = load(tmp_path)
    assert {name: len(split) for name, split in splits.by_name.items()} == {"train": 2, "test": 1}
    assert FilesDataset(train=str(tmp_path / "train"), test=str(tmp_path / "test"), validation_fraction=0).load(
        tmp_path
    ).labels == ["neg", "pos"]


def test_a_label_can_be_called_train(tmp_path):
    fill(tmp_path, train=["choo"], car=["vroom"])
    assert load(tmp_path).labels == ["car", "train"]


def test_texts_in_folders_can_be_read_without_their_labels(tmp_path):
    fill(tmp_path, all=["fine", "bad"])
    assert [one.label for one in load(tmp_path, label=None).by_name["train"]] == [None, None]


def test_anything_that_is_not_an_example_is_refused(tmp_path):
    layout = "one sub-folder per label with a .txt file per example"
    assert error_of(tmp_path) == f"FOLDER has no examples. Allowed: {layout}."
    (tmp_path / "rows.csv").write_text("text,label\n")
    assert error_of(tmp_path).endswith("For the tables in it, set 'dataset.path=FOLDER/*.csv'.")
    fill(tmp_path, pos=["fine"], neg=["bad"])
    (tmp_path / "pos" / "x.md").write_text("fine")
    assert error_of(tmp_path) == f"FOLDER/pos/x.md is not a .txt file. Allowed: {layout}. Rename it or remove it."
    (tmp_path / "stray.txt").write_text("fine")
    assert (
        error_of(tmp_path) == f"FOLDER/stray.txt is not in a label folder. Allowed: {layout}. Move it into one of them."
    )


def test_a_folder_beside_the_splits_is_refused(tmp_path):
    fill(tmp_path / "train", pos=["fine"], neg=["bad"])
    (tmp_path / "dev").mkdir()
    assert (
        error_of(tmp_path) == "FOLDER has a folder 'dev' next to its training split. Allowed: train, validation, test."
    )


def test_an_undecodable_example_is_refused_with_its_file(tmp_path):
    fill(tmp_path, pos=["fine"], neg=["bad"])
    (tmp_path / "pos" / "0.txt").write_bytes(b"caf\x81")
    assert error_of(tmp_path).startswith("FOLDER/pos/0.txt, line 1 is neither UTF-8 nor Windows-1252.")


def test_if_many_files_are_windows_1252_the_first_is_named_and_the_rest_counted(tmp_path, capsys):
    for label in ("neg", "pos"):
        (tmp_path / label).mkdir()
        for number in range(3):
            (tmp_path / label / f"{number}.txt").write_bytes(b"caf\xe9")
    splits = FilesDataset(path=str(tmp_path), validation_fraction=0).load(tmp_path)
    assert {example.text for example in splits.by_name["train"]} == {"caf\xe9"}
    first, others = capsys.readouterr().err.splitlines()
    assert (
        "0.txt is not UTF-8 and is read as Windows-1252" in first
        and others == "encoderlab: 5 more files are read as Windows-1252"
    )


def test_pairs_are_refused_and_so_are_labels_missing_from_training(tmp_path):
    fill(tmp_path / "train", pos=["fine"], neg=["bad"])
    fill(tmp_path / "test", unsure=["hm"])
    message = "dataset.text_pair=b is set, but a file in a folder is one text. Set dataset.text_pair=null."
    assert error_of(tmp_path, kind=SettingError, text_pair="b") == message
    assert error_of(tmp_path).startswith(
        "FOLDER/test/unsure/0.txt has the label 'unsure', which no training row has. Allowed: neg, pos."
    )
