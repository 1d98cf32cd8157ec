"""What the trials of saving notice: a save that is not safe fails them, and no call goes by uncounted."""

import re
import shutil
import subprocess
import sys

import pytest

from faults import saving, while_saving
from faults.host import Job
from faults.power import lose
from faults.promise import Conditions, UnavailableError
from faults.shim import Action, Call, Fault, calls_in, library


@pytest.fixture(autouse=True)
def needs_a_compiler():
    try:
        library()
    except UnavailableError as error:
        pytest.skip(str(error))


def failures(tried, tmp_path, count, work):
    return [trial for trial in tried(Conditions(count, 0, tmp_path.resolve()), work) if trial.failure]


@pytest.mark.slow
def test_deleting_the_old_before_saving_the_new_is_detected(tmp_path):
    found = failures(while_saving.killed, tmp_path, 12, "delete_then_save")
    assert "no checkpoint is left" in {trial.failure for trial in found}


@pytest.mark.slow
def test_a_save_without_fsync_is_detected_at_a_power_failure(tmp_path):
    found = failures(while_saving.without_power, tmp_path, 72, "save_unsynced")
    assert "the newest verified checkpoint is step 10" in {trial.failure for trial in found}


@pytest.mark.slow
def test_a_host_survives_its_killed_children(tmp_path):
    folder = saving.prepared(tmp_path / "run")
    job = Job("faults.saving:save", {"folder": str(folder), "step": 20})
    with saving.host() as host:
        killed = Job(job.work, job.arguments, str(folder), Fault(Action.signal_before, 5, 9))
        assert host.run(killed).code == -9
        assert host.run(job).code == 0
    assert saving.lost(folder, allowed=(20,)) == ""


@pytest.mark.slow
def test_the_library_counts_what_the_kernel_sees(tmp_path):
    """The system calls in strace that change the disk below the folder are exactly those counted."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    folder, journal, seen = saving.prepared(tmp_path.resolve() / "run"), tmp_path / "journal", tmp_path / "seen"
    code = (
        "from pathlib import Path; import faults.saving; from faults.shim import Action, Fault, arm;"
        f"arm(Path({str(folder)!r}), Fault(Action.count), Path({str(journal)!r})); faults.saving.save({str(folder)!r}, 20)"
    )
    traced = "open,openat,creat,write,pwrite64,writev,fsync,fdatasync,rename,renameat,renameat2,mkdir,mkdirat,unlink,unlinkat,rmdir"
    command = [
        "strace",
        "-f",
        "-y",
        "-s",
        "0",
        "-e",
        f"trace={traced},ftruncate,link,linkat,symlink,symlinkat",
        "-o",
        str(seen),
    ]
    found = subprocess.run(
        [*command, "-E", f"LD_PRELOAD={library()}", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    if "PTRACE" in found.stderr or "ptrace" in found.stderr:
        pytest.skip("processes may not be traced here")
    assert found.returncode == 0, found.stderr
    lines = [line for line in seen.read_text().splitlines() if str(folder) in line and "EEXIST" not in line]
    changing = [
        line
        for line in lines
        if not re.search(r"open(at)?\(", line) or re.search("O_CREAT|O_WRONLY|O_RDWR|O_TRUNC", line)
    ]
    names = [re.search(r"(\w+)\(", line)[1] for line in changing]
    our_names = {"openat": "create", "unlinkat": "delete", "rmdir": "delete", "unlink": "delete"}
    assert [our_names.get(name, name) for name in names] == [call.name for call in calls_in(journal)]
    assert len(names) > 15


def test_unsynced_data_is_lost_and_synced_data_survives(tmp_path):
    for name in ("synced", "written"):
        (tmp_path / name).write_text("content")
    calls = [Call(1, "create", f"{tmp_path}/synced", ""), Call(2, "write", f"{tmp_path}/synced", "")]
    calls += [Call(3, "fsync", f"{tmp_path}/synced", ""), Call(4, "fsync", f"{tmp_path}", "")]
    calls += [Call(5, "create", f"{tmp_path}/written", ""), Call(6, "write", f"{tmp_path}/written", "")]
    lose("halves", calls, tmp_path)
    assert ((tmp_path / "synced").read_text(), (tmp_path / "written").read_text()) == ("content", "con")
    lose("names", calls, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["synced"]


def test_a_rename_is_lost_unless_its_folder_was_synced(tmp_path):
    (tmp_path / "new").mkdir()
    rename = Call(1, "rename", f"{tmp_path}/old", f"{tmp_path}/new")
    lose("renames", [rename, Call(2, "fsync", str(tmp_path), "")], tmp_path)
    assert (tmp_path / "new").exists()
    lose("renames", [rename], tmp_path)
    assert (tmp_path / "old").exists() and not (tmp_path / "new").exists()
