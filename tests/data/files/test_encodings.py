"""The encoding of text files: set, or detected from their bytes with a warning if it is a guess."""

import codecs

import pytest

from encoderlab.data.files.files import read_unlabelled
from encoderlab.data.files.formats import Dialect
from encoderlab.errors import DataError, SettingError
from tests.data.files.written import error_of, load, train_of, write

CAFE = [("caf\xe9", "a"), ("\u20ac5", "b")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_files_that_state_their_encoding_are_read_without_a_warning(tmp_path, capsys, encoding):
    assert train_of(write(tmp_path / "rows.csv", "text,label\ncaf\xe9,a\n\u20ac5,b\n", encoding)) == CAFE
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.csv", "text,label\ncaf\xe9,a\n\u20ac5,b\n"),
        ("rows.tsv", "text\tlabel\ncaf\xe9\ta\n\u20ac5\tb\n"),
        ("rows.jsonl", '{"text": "caf\xe9", "label": "a"}\n{"text": "\u20ac5", "label": "b"}\n'),
    ],
)
def test_other_bytes_are_read_as_windows_1252_with_one_warning_that_shows_a_line(tmp_path, capsys, name, content):
    assert train_of(write(tmp_path / name, content, "cp1252")) == CAFE
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{name} is not UTF-8 and is read as Windows-1252, line" in line and "caf\xe9" in line
    assert line.endswith("If that is wrong, set dataset.encoding.")


def test_the_warning_shows_text_that_a_wrong_encoding_would_garble(tmp_path, capsys):
    train_of(write(tmp_path / "rows.csv", f"text,label\n{'long ' * 30}caf\xe9 {'tail ' * 30},a\ny,b\n", "cp1252"))
    assert "line 2 as 'g long long long caf\xe9 tail tail tail tai'" in capsys.readouterr().err


def test_an_encoding_can_be_chosen(tmp_path, capsys):
    file = write(tmp_path / "rows.csv", "text,label\n\u043a\u043e\u0442,a\nx,b\n", "cp1251")
    assert train_of(file, encoding="cp1251")[0] == ("\u043a\u043e\u0442", "a")
    assert capsys.readouterr().err == ""
    assert error_of(file, encoding="utf-8") == (
        "rows.csv, line 2 cannot be decoded as UTF-8. Allowed: UTF-8, UTF-16 with a byte-order mark, or Windows-1252. "
        "Set dataset.encoding to the encoding it was written in."
    )


@pytest.mark.parametrize("encoding", ["utf-9", "hex", "", "\0"])
def test_an_unknown_encoding_is_refused(tmp_path, encoding):
    with pytest.raises(SettingError, match="is not an encoding"):
        load(write(tmp_path / "rows.csv", "text,label\nx,a\n"), encoding=encoding)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"text,label\nx,a\n\x81,b\n", "rows.csv, line 3 is neither UTF-8 nor Windows-1252."),
        (b"text,label\n\xc3\xa9,a\n\xe9,b\n", "rows.csv, line 3 cannot be decoded as UTF-8, but other lines can."),
        (
            codecs.BOM_UTF16_LE + "text,label\nx,a\n".encode("utf-16-le") + b"\x00\xd8a\x00",
            "rows.csv, line 3 cannot be decoded as UTF-16.",
        ),
    ],
)
def test_bytes_that_fit_no_single_encoding_are_refused_with_their_line(tmp_path, content, message):
    (tmp_path / "rows.csv").write_bytes(content)
    assert error_of(tmp_path / "rows.csv").startswith(message)


def test_messages_name_the_setting_of_predict(tmp_path, capsys):
    """Not of `dataset.encoding`, which it does not have."""
    file = write(tmp_path / "new.csv", "text\ncaf\xe9\n", "cp1252")
    assert [example.text for example in read_unlabelled(file, text="text", text_pair=None, words=False)] == ["caf\xe9"]
    assert capsys.readouterr().err.endswith("If that is wrong, set encoding.\n")
    for chosen in ("utf-8", "utf-16"):
        with pytest.raises(
            DataError, match="line [12] cannot be decoded as UTF-.* Set encoding to the encoding it was written in"
        ):
            read_unlabelled(file, text="text", text_pair=None, words=False, dialect=Dialect(encoding=chosen))
