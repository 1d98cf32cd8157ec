"""The trials of faults/: a few of each promise, and that they expose a save that is not safe."""

import subprocess
import sys
from pathlib import Path

import pytest

from faults import labelling, machines, processes, saving
from faults.__main__ import PROMISES
from faults.promise import Conditions, UnavailableError
from faults.shim import Call

ROOT = Path(__file__).resolve().parents[1]


def failures(trials, folder, number, **more):
    """Return what goes wrong in a few trials; skip the test if they are impossible here."""
    try:
        tried = list(trials(Conditions(number, 0, folder.resolve()), **more))
    except UnavailableError as error:
        pytest.skip(str(error))
    assert tried
    return {trial.failure for trial in tried} - {""}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, promise in PROMISES.items() if promise.quick])
def test_a_promise_is_kept(name, tmp_path):
    assert failures(PROMISES[name].trials, tmp_path, PROMISES[name].quick) == set()


@pytest.mark.slow
@pytest.mark.parametrize("trials", [processes.disturbed, machines.equal], ids=["a lost process", "two machines"])
def test_several_processes_keep_their_promises(trials, tmp_path):
    assert failures(trials, tmp_path, 1) == set()


@pytest.mark.slow
def test_deleting_the_old_checkpoint_before_saving_the_new_one_is_exposed(tmp_path):
    assert "no checkpoint is left" in failures(saving.killed, tmp_path, 12, work="delete_then_save")


@pytest.mark.slow
def test_a_save_without_fsync_is_exposed_by_lost_power(tmp_path):
    found = failures(saving.without_power, tmp_path, 72, work="save_unsynced")
    assert "the newest verified checkpoint is step 10" in found


@pytest.mark.slow
def test_answers_that_are_confirmed_before_they_are_saved_are_exposed_by_a_kill(tmp_path):
    found = failures(labelling.killed, tmp_path, 8, work="label_late")
    assert any("was confirmed" in failure for failure in found)


@pytest.mark.slow
def test_a_journal_that_does_not_notice_what_happens_to_its_file_is_exposed(tmp_path):
    assert failures(labelling.journal_lost, tmp_path, 3, work="label_forgetful") != set()


def test_lost_power_takes_what_was_not_synced(tmp_path):
    for name in ("synced", "written", "new"):
        (tmp_path / name).write_text("content")
    calls = [Call(1, "create", f"{tmp_path}/synced", ""), Call(2, "write", f"{tmp_path}/synced", "")]
    calls += [Call(3, "fsync", f"{tmp_path}/synced", ""), Call(4, "fsync", str(tmp_path), "")]
    calls += [Call(5, "create", f"{tmp_path}/written", ""), Call(6, "write", f"{tmp_path}/written", "")]
    saving.lose("halves", calls, tmp_path)
    assert ((tmp_path / "synced").read_text(), (tmp_path / "written").read_text()) == ("content", "con")
    saving.lose("names", calls, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "synced"]
    rename = Call(7, "rename", f"{tmp_path}/old", f"{tmp_path}/new")
    saving.lose("renames", [rename, Call(8, "fsync", str(tmp_path), "")], tmp_path)
    assert (tmp_path / "new").exists()
    saving.lose("renames", [rename], tmp_path)
    assert (tmp_path / "old").exists() and not (tmp_path / "new").exists()


def test_a_wrong_name_gets_one_line():
    command = [sys.executable, "-m", "faults", "run", "one_foldr"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "one_folder" in done.stderr


def test_reliability_has_a_row_for_every_promise():
    text = (ROOT / "RELIABILITY.md").read_text(encoding="utf-8")
    assert [name for name in PROMISES if f"`{name}`" not in text] == []
