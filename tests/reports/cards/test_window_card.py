"""The card of an exported model says that long texts are truncated, if the run read them in windows."""

import pytest

from encoderlab.reports.cards.window_card import window_card
from encoderlab.tasks.sequences import Windowing


def test_the_card_of_a_model_without_windows_says_nothing():
    assert window_card(None, 64) == ""


@pytest.mark.parametrize(
    ("pooling", "pooled"),
    [("mean", "averages their logits"), ("max", "takes the largest of their logits for each class")],
)
def test_the_card_says_that_only_the_run_reads_windows(pooling, pooled):
    card = window_card(Windowing(pooling, 0.25, 8), 64, reader="predict.py")
    assert "predict.py reads one window: a text of more than 64 tokens is truncated." in card
    assert (
        f"up to 8 windows of a longer text, which share at least 25% of their tokens with the next, and {pooled}."
        in card
    )
