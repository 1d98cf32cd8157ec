"""What the screen shows about tokenizers."""

import io

from encoderlab.reports.screens.vocabulary import show_cuttings, show_pieces

FIGURES = {
    "vocabulary_size": 30522,
    "pieces_per_word": 1.2344,
    "whole_words": 0.875,
    "unknown_pieces": 0.0001,
    "pieces_median": 20.0,
    "pieces_p95": 51.45,
    "pieces_max": 1234,
}


def test_each_tokenizer_has_a_row_with_its_figures():
    file = io.StringIO()
    show_cuttings(
        {"[mine]": FIGURES, "other": FIGURES | {"vocabulary_size": 100}}, "7 words in 2 texts of the train split", file
    )
    lines = file.getvalue().splitlines()
    (row,) = [line for line in lines if "[mine]" in line]
    assert row.split() == ["[mine]", "30,522", "1.234", "87.50%", "0.01%", "20", "51", "1,234"]
    assert lines[-1] == "Counted on 7 words in 2 texts of the train split."


def test_every_piece_is_shown_above_its_id_whatever_its_width():
    file = io.StringIO()
    pieces = [("un", 12345), ("##believable", 7), ("東京", 88), ("[x]", 123456)]
    show_pieces({"mine": pieces, "none": []}, file)
    _, title, above, below, _, last = file.getvalue().splitlines()
    assert (title, last) == ("mine: 4 tokens", "none: 0 tokens")
    assert above.split() == [piece for piece, _ in pieces]
    assert below.split() == [str(id_) for _, id_ in pieces]
    assert below.index("88") == above.index("東京")
    assert below.index("123456") == above.index("[x]") + 2  # two characters of double width stand before it


def test_more_pieces_than_fit_continue_below():
    file = io.StringIO()
    show_pieces({"mine": [(f"piece{n}", n) for n in range(60)]}, file)
    lines = file.getvalue().splitlines()[2:]
    assert max(map(len, lines)) <= 100
    assert [word for line in lines[::2] for word in line.split()] == [f"piece{n}" for n in range(60)]
    assert [word for line in lines[1::2] for word in line.split()] == [str(n) for n in range(60)]
