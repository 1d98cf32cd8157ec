"""Files appear whole or not at all, and a manifest notices damage."""

import json
import subprocess
import sys

import pytest

from encoderlab.system.files import MANIFEST, atomic_write, differing_files, write_manifest


def test_a_file_keeps_its_old_content_until_the_new_one_is_complete(tmp_path):
    final = tmp_path / "file"
    final.write_text("old")
    with atomic_write(final) as temporary:
        temporary.write_text("new")
        assert final.read_text() == "old"
    assert final.read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("folder", [False, True])
def test_an_error_leaves_the_old_file_and_no_partial_one(tmp_path, folder):
    final = tmp_path / "final"
    final.write_text("old")
    with pytest.raises(KeyError), atomic_write(final) as temporary:
        if folder:
            temporary.mkdir()
            (temporary / "part").write_text("half")
        else:
            temporary.write_text("half")
        raise KeyError
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"final": "old"}


@pytest.fixture
def folder(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    write_manifest(tmp_path, ["a", "b"], step=3)
    return tmp_path


def test_unchanged_files_match(folder):
    assert differing_files(folder, step=3) == []
    assert not differing_files(folder, ["b", "a"], step=3)


def test_changed_and_missing_files_are_named(folder):
    (folder / "a").write_text("c")
    (folder / "b").unlink()
    assert differing_files(folder, ["a", "b"], step=3) == ["a", "b"]


@pytest.mark.parametrize("content", ["", "[]", "{}", json.dumps({"sha256": 3}), "[" * 9000])
def test_a_damaged_manifest_is_named(tmp_path, content):
    (tmp_path / MANIFEST).write_text(content)
    assert differing_files(tmp_path) == [MANIFEST]


KILLED = """
import os, sys
from pathlib import Path
from encoderlab.system.files import atomic_write
contexts = [atomic_write(Path(name)) for name in ("out.csv", "folder")]
for name, context in zip(("out.csv", "folder"), contexts):
    path = context.__enter__()
    path.mkdir() if name == "folder" else path.write_text("half")
sys.stdout.write("written\\n")
sys.stdout.flush()
sys.stdin.read()
os._exit(9)
"""


def test_what_a_killed_process_left_is_removed_by_the_next_and_what_a_running_one_writes_is_not(tmp_path):
    """Beside `output=`, where no run cleans up."""
    writer = subprocess.Popen(
        [sys.executable, "-c", KILLED], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None and writer.stdout.readline() == "written\n"
    with atomic_write(tmp_path / "out.csv") as temporary:
        temporary.write_text("whole")
    assert len(list(tmp_path.glob(".tmp-*"))) == 2, "the other process may still need its own"
    writer.kill()
    writer.communicate()
    (tmp_path / ".tmp-0a1b2c3d-other.csv").touch()
    for name in ("out.csv", "folder"):
        with atomic_write(tmp_path / name) as temporary:
            temporary.write_text("whole")
    assert {path.name for path in tmp_path.iterdir()} == {"out.csv", "folder", ".tmp-0a1b2c3d-other.csv"}
