"""A manifest verifies which files are unchanged, and names the ones that are not."""

import json

import pytest

from encoderlab.system.files import MANIFEST, differing_files, matches_manifest, write_manifest


@pytest.fixture
def folder(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    write_manifest(tmp_path, ["a", "b"], step=3)
    return tmp_path


def test_unchanged_files_match(folder):
    assert differing_files(folder, step=3) == []
    assert matches_manifest(folder, ["b", "a"], step=3)


def test_changed_and_missing_files_are_named(folder):
    (folder / "a").write_text("c")
    (folder / "b").unlink()
    assert differing_files(folder, ["a", "b"], step=3) == ["a", "b"]


def test_unexpected_files_or_facts_make_the_manifest_invalid(folder):
    assert differing_files(folder, ["a"], step=3) == [MANIFEST]
    assert differing_files(folder, step=4) == [MANIFEST]


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", json.dumps({"sha256": {"\0": "x"}}), json.dumps({"sha256": 3}), "[" * 9000]
)
def test_a_damaged_manifest_is_named(tmp_path, content):
    (tmp_path / MANIFEST).write_text(content)
    assert differing_files(tmp_path) == [MANIFEST]
