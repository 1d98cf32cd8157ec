"""What encoderlab data prints: lengths, odd rows with their places, and rows with their tokens."""

import io

from encoderlab.reports.screens.data import show_documents, show_rows

LENGTHS = {
    "counted": 5,
    "min": 3.0,
    "median": 7.0,
    "p90": 9.0,
    "p95": 9.0,
    "p99": 9.0,
    "max": 1200.0,
    "mean": 7.0,
    "truncated": 0.25,
}
PIECES = {"vocabulary_size": 8000, "pieces_per_word": 1.25, "whole_words": 0.8, "unknown_pieces": 0.01}
COUNTED = {
    "rows": 5, "labels": {"no": 3, "yes": 2}, "unlabelled": 0, "words_min": 1, "words_median": 7.5, "words_p95": 20.0, "words_max": 90,
    "empty": 1, "duplicates": 2, "shared_with_train": 3, "shared_with_other_label": 4, "fingerprint": "ff00",
}  # fmt: skip
ODD = {"kind": "markup", "count": 1234, "first": [{"where": "a.csv, line 9", "text": f"<b>\n{'x' * 200}"}]}
ODD_LIKE = {"kind": "a repeat", "count": 1, "first": [{"where": "line 5", "text": "again", "like": "line 3"}]}
ROW = {
    "where": "a.csv, line 2",
    "label": "yes",
    "text": "fine\tfilm",
    "pieces": ["[CLS]", "fine", "[SEP]"],
    "tokens": 3,
}


def rows(splits=("train",), pieces=PIECES, **changes):
    split = COUNTED | {"tokens": LENGTHS, "odd_rows": [], "examples": []} | changes
    file = io.StringIO()
    show_rows({"splits": dict.fromkeys(splits, split), "max_length": 128, "pieces": pieces}, file)
    return file.getvalue()


def test_lengths_and_pieces_are_shown():
    screen = rows()
    assert "truncated at 128" in screen and "25.0%" in screen and "1,200" in screen
    assert (
        "1.25 tokens per word, 80.0% of the words whole, 1.00% of the tokens unknown, a vocabulary of 8,000" in screen
    )
    assert "Odd rows" not in screen and "Rows of" not in screen


def test_a_split_without_rows_and_a_dataset_without_words_are_shown_too():
    screen = rows(pieces=None, tokens={"counted": 0, "truncated": 0.0})
    assert "Pieces" not in screen and "0.0%" in screen


def test_odd_rows_are_counted_and_shown_in_a_line_each():
    screen = rows(odd_rows=[ODD, ODD_LIKE])
    assert "1,234 with markup" in screen and "line 5 (as line 3): again" in screen
    shown = next(line for line in screen.splitlines() if "a.csv, line 9" in line)
    assert "<b> xxx" in shown and shown.endswith("...") and len(shown) < 130


def test_a_row_is_shown_with_label_text_and_tokens():
    lines = [line.strip() for line in rows(examples=[ROW, ROW | {"label": None, "tokens": 90}]).splitlines()]
    assert "a.csv, line 2, 3 tokens, yes" in lines and "[CLS] fine [SEP]" in lines
    assert "a.csv, line 2, 90 tokens, no label" in lines and "[CLS] fine [SEP] ..." in lines


def documents(**changes):
    split = {
        "documents": 4, "paragraphs": 30, "sentences": 200, "tokens": 3000, "pairs": 90, "sentence_splitter": "punkt_tab",
        "tokens_of_a_row": LENGTHS, "labels": {"follows": 45, "random": 45},
        "examples": [{"label": "follows", "pieces": [["one", "."], ["two", "."]]}], **changes,
    }  # fmt: skip
    file = io.StringIO()
    show_documents(
        {
            "splits": {"train": {key: value for key, value in split.items() if value is not None}},
            "max_length": 64,
            "pieces": PIECES,
        },
        file,
    )
    return file.getvalue()


def test_pairs_are_shown_with_their_relation():
    screen = documents()
    assert "pairs of an epoch" in screen and "found by punkt_tab" in screen and "tokens of a pair" in screen
    assert "follows: one ." in screen and "    two ." in screen


def test_texts_without_pairs_and_streams_are_named_as_such():
    screen = documents(labels=None, examples=[{"label": None, "pieces": [["one"]]}], shards=12)
    assert "texts of an epoch" in screen and "Texts of train" in screen and "train, the first window of 12" in screen
