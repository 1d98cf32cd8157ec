"""Texts of a dataset on a page: one line each, shortened with a note, and only printable characters."""

import pytest

from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.reports.parts.shown_texts import MOST_CHARACTERS, lengths_of, marked_texts, shown


def test_a_text_is_one_line_of_printable_characters():
    assert shown("a\n\t b") == "a b"
    assert "\x1b" not in shown("\x1b[31m") and "\u202e" not in shown("\u202e")


def test_a_long_text_is_shortened_and_its_length_given():
    text = "word " * 1000
    assert len(shown(text)) < MOST_CHARACTERS + 40
    assert shown(text).endswith("(5,000 characters)")
    assert shown("x" * MOST_CHARACTERS) == "x" * MOST_CHARACTERS


def test_a_text_without_an_explanation_is_complete_and_unmarked():
    (first,), (second,) = marked_texts(TextExample("a b", "c"), None)
    assert (first, second) == ({"text": "a b", "weight": 0}, {"text": "c", "weight": 0})


@pytest.mark.parametrize(
    ("examples", "lengths", "unit"),
    [
        ([TextExample("one two three"), TextExample("a b c d", "e")], [3, 5], "words"),
        ([TextExample("東京都"), TextExample("大阪")], [3, 2], "characters"),
        ([WordsExample(("a",)), WordsExample(("b", "c"))], [1, 2], "words"),
    ],
)
def test_lengths_are_counted_in_words_unless_a_language_has_no_spaces(examples, lengths, unit):
    found, of = lengths_of(examples)
    assert (found.tolist(), of) == (lengths, unit)
