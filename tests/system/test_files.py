"""Files appear whole or not at all, and a manifest notices damage."""

import json

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
