"""The run folder: never reused, never overwritten, and gone again where nothing came of the run."""

import pytest

from encoderlab.errors import DataError, SettingError
from encoderlab.runs.folder import MODEL_FILES, RunFolder, check_free, model_folder


def test_two_runs_of_the_same_second_get_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = {RunFolder.create(None, "train", "sst2").root for _ in range(20)}
    assert len(made) == 20
    assert all(root.is_dir() and root.parts[:3] == ("outputs", "train", "sst2") for root in made)


def test_an_empty_folder_of_ones_own_is_taken_and_a_full_one_is_not(tmp_path):
    (tmp_path / "mine").mkdir()
    assert RunFolder.create(str(tmp_path / "mine"), "train", "sst2").root == tmp_path / "mine"
    (tmp_path / "mine" / "config.yaml").write_text("")
    with pytest.raises(SettingError, match="already holds a run"):
        check_free(str(tmp_path / "mine"))


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be made: Not a directory. Type run_dir="):
        RunFolder.create(str(tmp_path / "file" / "run"), "train", "sst2")


def test_a_failure_removes_the_folder_unless_it_holds_a_checkpoint(tmp_path, capsys):
    for name, worth in (("nothing", False), ("something", True)):
        folder = RunFolder.create(str(tmp_path / name), "train", "sst2")
        if worth:
            (folder.checkpoints / "step-1").mkdir(parents=True)
        with pytest.raises(KeyboardInterrupt), folder.discarded_if_nothing_came_of_it():
            raise KeyboardInterrupt
        assert folder.root.exists() == worth
    assert "What was done so far is kept in" in capsys.readouterr().err


def test_the_folder_one_stands_in_is_emptied_and_not_deleted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = RunFolder.create(".", "train", "sst2")
    folder.plots.mkdir()
    folder.config.write_text("")
    with pytest.raises(KeyboardInterrupt), folder.discarded_if_nothing_came_of_it():
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_model_is_found_in_a_run_folder_and_in_its_model_folder(tmp_path):
    folder = RunFolder.create(str(tmp_path / "run"), "train", "sst2")
    folder.model.mkdir()
    with pytest.raises(DataError, match="holds no finished model"):
        model_folder(str(folder.root))
    for name in MODEL_FILES:
        (folder.model / name).write_text("")
    assert model_folder(str(folder.root)) == model_folder(str(folder.model)) == folder.model
    with pytest.raises(DataError, match="run=nowhere is not there"):
        model_folder("nowhere")
