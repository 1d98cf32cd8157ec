"""A file appears whole or not at all."""

import pytest

from encoderlab.system.files import atomic_write, atomic_write_text, write_synced


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


def test_text_is_utf8_whatever_the_locale(tmp_path):
    atomic_write_text(tmp_path / "file", "nützlich\n")
    write_synced(tmp_path / "synced", "nützlich\n".encode())
    assert (tmp_path / "file").read_bytes() == (tmp_path / "synced").read_bytes() == "nützlich\n".encode()
