"""Lines of text files: numbered, whatever ends them, decompressed, and refused with the number of the line at fault."""

import gzip

import pytest

from encoderlab.data.files import text_files
from encoderlab.data.files.text_files import most_unpacked, numbered_lines, plain_lines, whole_text
from encoderlab.errors import DataError


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_the_same_whatever_ends_them(tmp_path, end):
    path = tmp_path / "texts.txt"
    path.write_bytes(f"\ufeffone\u2028more{end}{end}three\f{end}".encode())
    assert list(plain_lines(path)) == [(1, "one\u2028more"), (2, ""), (3, "three\f")]


def test_a_compressed_file_reads_like_the_original(tmp_path):
    path = tmp_path / "texts.txt.gz"
    path.write_bytes(gzip.compress(b"one\r\ntwo"))
    assert list(numbered_lines(path, "")) == [(1, "one\r\n"), (2, "two")]
    assert whole_text(path) == "one\r\ntwo"


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        (b"one\ntw\0o\n", "line 2 contains a NUL byte."),
        (b"one\ntw\xffo\n", "line 2 cannot be decoded as UTF-8."),
        (b"one\ntwo\rthree\n", "line 2 ends with a carriage return alone, unlike the lines before."),
        (b"one\ntoo long by far\n", "line 2 is longer than 8 characters."),
    ],
)
def test_a_bad_line_is_refused_with_its_number(tmp_path, monkeypatch, content, refusal):
    monkeypatch.setattr(text_files, "LONGEST_LINE", 8)
    path = tmp_path / "texts.txt"
    path.write_bytes(content)
    with pytest.raises(DataError) as refused:
        list(plain_lines(path))
    assert str(refused.value).startswith(f"{path}, {refusal}")


def test_a_file_that_decompresses_to_far_more_than_texts_do_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "texts.txt.gz"
    path.write_bytes(gzip.compress(b"a\n" * 1000))
    monkeypatch.setattr(text_files, "most_unpacked", lambda path: 1999)
    with pytest.raises(DataError, match="unpacks to more than 1,999 bytes"):
        whole_text(path)


def test_the_limit_on_decompressed_size_grows_with_the_file(tmp_path):
    path = tmp_path / "texts.txt.gz"
    path.write_bytes(bytes(100))
    assert most_unpacked(path) == 2**26 + 5000


def test_a_damaged_or_missing_file_is_refused(tmp_path):
    path = tmp_path / "texts.txt.gz"
    path.write_bytes(gzip.compress(b"one\n" * 1000)[:-9])
    with pytest.raises(DataError, match="is not a complete gzip file"):
        whole_text(path)
    with pytest.raises(DataError, match="cannot be read: No such file"):
        whole_text(tmp_path / "none.txt")
