"""The delimiter of a csv file: as set, as its first line says, or the one that gives the header its columns."""

import pytest

from encoderlab.data.files.delimiters import AUTO, delimiter_of, excel_delimiter, refuse_unusable
from encoderlab.errors import SettingError


@pytest.mark.parametrize(
    ("header", "chosen", "usual", "found"),
    [
        ("text,label", AUTO, ",", ","),
        ("text;label", AUTO, ",", ";"),
        ("text\tlabel", AUTO, ",", "\t"),
        ("text|note,more|label", AUTO, ",", "|"),
        ("text,label", AUTO, "\t", ","),
        ("review;stars", AUTO, ",", ";"),
        ("text", AUTO, "\t", "\t"),
        ("sep=|", AUTO, ",", "|"),
        ('"sep=;"', AUTO, ",", ";"),
        ("text,label", "semicolon", ",", ";"),
        ("text,label", "#", ",", "#"),
    ],
)
def test_the_delimiter_is_found_from_the_first_line_unless_it_is_set(tmp_path, header, chosen, usual, found):
    path = tmp_path / "rows.csv"
    path.write_text(f"{header}\nx,a\n", encoding="utf-8")
    assert delimiter_of(path, "utf-8", chosen, usual, ["text", "label"]) == found


def test_an_empty_file_has_the_usual_delimiter(tmp_path):
    (tmp_path / "rows.tsv").touch()
    assert delimiter_of(tmp_path / "rows.tsv", "utf-8", AUTO, "\t", ["text"]) == "\t"


@pytest.mark.parametrize("line", ["sep=", "sep=;;", "text,sep=;", "separator"])
def test_only_a_line_that_names_one_character_is_taken_as_excels(line):
    assert excel_delimiter(line) is None


@pytest.mark.parametrize("delimiter", ['"', "\n", "ab", "", " "])
def test_characters_that_cannot_separate_cells_are_refused(delimiter):
    with pytest.raises(
        SettingError, match=r"dataset\.delimiter is .*Allowed: auto, comma, semicolon, tab, pipe, or one character"
    ):
        refuse_unusable(delimiter, "dataset.delimiter")


@pytest.mark.parametrize("delimiter", [AUTO, "tab", "~"])
def test_characters_that_can_separate_cells_are_accepted(delimiter):
    refuse_unusable(delimiter, "dataset.delimiter")
