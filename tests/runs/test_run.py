"""The run folder: never reused, never overwritten, and removed if the run produced nothing."""

import errno
import shutil
import subprocess
import sys

import pytest

from encoderlab.errors import SettingError, TrainingError
from encoderlab.runs.journal import Journal
from encoderlab.runs.run import Run, check_free


def made(*arguments):
    """Return the folder of a run that has written its settings and succeeded."""
    with Run.new(*arguments) as run:
        run.config_file.write_text("")
    return run


def test_runs_started_in_the_same_second_get_separate_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = {made(None, "train", "sst2").folder for _ in range(20)}
    assert len(folders) == 20
    assert all(folder.is_dir() and folder.parts[:3] == ("outputs", "train", "sst2") for folder in folders)


def test_a_users_empty_folder_is_used_and_a_full_one_refused(tmp_path):
    (tmp_path / "mine").mkdir()
    run = made(str(tmp_path / "mine"), "train", "sst2")
    assert run.folder == tmp_path / "mine"
    with pytest.raises(SettingError, match="already holds an unfinished run.*or resume it with resume="):
        check_free(str(tmp_path / "mine"))
    run.report_file.write_text("")
    with pytest.raises(SettingError, match="already holds a run.*Choose another name"):
        check_free(str(tmp_path / "mine"))


def test_a_folder_left_by_a_run_killed_before_it_began_can_be_used(tmp_path):
    run = Run(tmp_path)
    for path in (tmp_path / ".lock", run.environment_file, tmp_path / ".tmp-0a1b2c3d-config.yaml"):
        path.write_text("")
        check_free(str(tmp_path))
    run.config_file.write_text("")
    with pytest.raises(SettingError, match="already holds an unfinished run"):
        check_free(str(tmp_path))


def test_a_folder_that_cannot_be_created_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match="file already holds files"):
        check_free(str(tmp_path / "file"))
    with pytest.raises(TrainingError, match="cannot be written or read: Not a directory.* set run_dir="):
        made(str(tmp_path / "file" / "run"), "train", "sst2")


@pytest.mark.parametrize(("steps", "kept"), [((), False), ((0,), False), ((0, 3), True)])
def test_a_failure_removes_the_folder_unless_a_step_is_worth_keeping(tmp_path, capsys, steps, kept):
    root = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt), Run.new(str(root), "train", "sst2") as run:
        for step in steps:
            (run.checkpoints_folder / f"step-{step}").mkdir(parents=True)
        raise KeyboardInterrupt
    assert root.exists() == kept
    assert (f"Resume with: encoderlab train resume={root}" in capsys.readouterr().err) == kept


def test_half_written_files_are_removed_when_the_run_resumes(tmp_path):
    run = made(str(tmp_path / "run"), "train", "sst2")
    (run.folder / ".tmp-12345678-model").mkdir()
    (run.folder / ".tmp-12345678-config.yaml").write_text("half")
    with run.reopened("train"):
        pass
    assert sorted(path.name for path in run.folder.iterdir()) == [".lock", "config.yaml"]


def test_the_current_folder_is_emptied_and_not_deleted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KeyboardInterrupt), Run.new(".", "train", "sst2") as run:
        run.plots_folder.mkdir()
        run.config_file.write_text("")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_another_process_fills_is_refused_and_left_alone(tmp_path):
    holds = "import sys; from encoderlab.runs.run import Run; "
    holds += f"run = Run.new({str(tmp_path / 'run')!r}, 'train', 'sst2'); run.__enter__(); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", holds], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(SettingError, match="Another process is using"):
            made(str(tmp_path / "run"), "train", "sst2")
        with (
            pytest.raises(SettingError, match="Another process is using"),
            Run(tmp_path / "run").reopened("train"),
        ):
            pass
        assert (tmp_path / "run").exists()
        other.kill()
    made(str(tmp_path / "run"), "train", "sst2")  # the lock has ended with the process


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device", "x/y"), OSError(errno.EROFS, "Read-only file system")]
)
def test_a_file_that_cannot_be_written_is_reported_in_one_line(tmp_path, error):
    expected = pytest.raises(TrainingError, match=f"cannot be written or read: {error.strerror}. Free space")
    with expected, Run.new(str(tmp_path / "run"), "train", "sst2"):
        raise error


@pytest.mark.slow
def test_a_folder_deleted_during_a_run_is_reported(command, tmp_path, monkeypatch):
    count = Journal.step

    def deleting(self, done):
        count(self, done)
        if done.number == 2:
            shutil.rmtree(tmp_path / "run")

    monkeypatch.setattr(Journal, "step", deleting)
    arguments = ("task=brackets", "model=tiny", "training=smoke", "dataset.limit=300")
    with pytest.raises(TrainingError, match="run has gone: it was moved or deleted"):
        command("train", *arguments, f"run_dir={tmp_path / 'run'}")
