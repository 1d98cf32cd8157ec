"""Which mistakes are shown, and that marking words changes no text."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.errors import printable
from encoderlab.reports.parts.shown_texts import MOST_CHARACTERS, lengths_of, marked_texts, shown
from encoderlab.reports.training.mistakes import MOST_MISTAKES, frequent_confusions, mistaken_texts


def test_the_most_confident_mistakes_come_first_and_correct_predictions_never(scores_of):
    labels, confidences = np.zeros(40, dtype=int), np.linspace(0.51, 0.9, 40)
    answers = np.arange(40) % 2
    found = mistaken_texts(
        [TextExample(f"text {row}") for row in range(40)], scores_of(labels, answers, confidences), None
    )
    assert [one["row"] for one in found["confident"]] == [39, 37, 35, 33, 31, 29, 27, 25, 23, 21]
    assert found["unlikely"] == []  # of two classes these are the same
    assert {one["method"] for one in found["confident"]} == {""}


def test_with_many_classes_mistakes_with_the_least_likely_true_label_are_shown_too(scores_of):
    scores = scores_of([0] * 30, [1] * 30, np.linspace(0.5, 0.7, 30), names=("a", "b", "c"))
    scores.probabilities[:5, 0] = 1e-9
    found = mistaken_texts([TextExample("text")] * 30, scores, None)
    assert len(found["confident"]) == MOST_MISTAKES
    assert [one["row"] for one in found["unlikely"]][:5] == [0, 1, 2, 3, 4]
    rows = [one["row"] for kind in found.values() for one in kind]
    assert len(rows) == len(set(rows))


def test_the_most_frequent_confusions_are_counted_by_true_class():
    found = frequent_confusions([[5, 3, 0], [1, 0, 0], [0, 0, 9]], ["a", "b", "c"], 5)
    assert [(one["label"], one["predicted"], one["count"], one["share"]) for one in found] == [
        ("a", "b", 3, 0.375),
        ("b", "a", 1, 1.0),
    ]


@given(st.text(max_size=900), st.data())
def test_marking_words_leaves_the_text_unchanged(text, data):
    edges = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    words = [
        SimpleNamespace(text=0, begin=a, end=b, score=1.0 - a) for a, b in zip(edges[::2], edges[1::2], strict=False)
    ]
    explained = SimpleNamespace(words=lambda: words)
    for given_words in (explained, None):
        (parts,) = marked_texts(TextExample(text), given_words)
        pieces = [part["text"] for part in parts if part["text"]]
        kept = [piece for piece in pieces if not piece.startswith("… (")] if len(text) > MOST_CHARACTERS else pieces
        assert "".join("".join(kept).split()) == "".join(printable(" ".join(text[:MOST_CHARACTERS].split())).split())
        assert all(-1 <= part["weight"] <= 1 for part in parts)


def test_a_text_is_shown_in_one_line_of_printable_characters():
    assert shown("a\n\tb\x1b[0m") == "a b\\x1b[0m"
    assert shown("x" * 700) == "x" * 600 + "… (700 characters)"


def test_lengths_are_in_words_or_in_characters_without_spaces():
    lengths, unit = lengths_of(
        [TextExample("two words", "and three more"), TextExample(""), TextExample("one two three")]
    )
    assert (lengths.tolist(), unit) == ([5, 0, 3], "words")
    lengths, unit = lengths_of([TextExample("二つの"), TextExample("((()))", "()")])
    assert (lengths.tolist(), unit) == ([3, 8], "characters")
    assert lengths_of([WordsExample(("go",))])[1] == "words"
