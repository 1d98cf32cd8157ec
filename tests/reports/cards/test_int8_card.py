"""The section about 8 bits: agreement, sizes, speed and score, or why it was not scored."""

from dataclasses import replace

from encoderlab.reports.cards.int8_card import agreement_in_words, int8_card
from encoderlab.runs.inference.int8_check import Int8Check

CHECK = Int8Check(1500, "test", "", 0.9912, 0.034, "accuracy", 0.8, 0.79, (120.0, 2400.4), 2)


def test_scores_sizes_and_speed_are_shown_side_by_side():
    card = int8_card(CHECK, (4_000_000, 1_200_000))
    assert "| graph | 4.0 MB | 1.2 MB |" in card
    assert "| texts per second, encoderlab in fp32 and this graph, 2 threads | 120 | 2,400 |" in card
    assert "| accuracy on test | 0.8000 | 0.7900 |" in card
    assert "on 1,500 rows of test 99.12% of the predictions agree, and a probability changes by at most 0.0340" in card


def test_without_a_score_the_reason_is_given():
    card = int8_card(replace(CHECK, rows=8, split="", unscored="The rows are gone.", before=None, after=None), (2, 1))
    assert "It was not scored: The rows are gone." in card and "on 8 sentences" in card and "accuracy" not in card


def test_numbers_change_instead_of_agreeing():
    assert (
        agreement_in_words(replace(CHECK, agreement=None)) == "on 1,500 rows of test a number changes by at most 0.034"
    )
