"""The section about compact storage: sizes, changes and hashes."""

import pytest

from encoderlab.reports.cards.compact_card import change_in_words, compact_card, megabytes
from encoderlab.runs.models.compact_model import Change


def test_sizes_and_hashes_are_listed():
    card = compact_card(9_400_000, 3_210_000, Change(0.0123, 0.004), {"model.safetensors": "ab12", "config.json": "cd"})
    assert "3.2 MB instead of 9.4 MB" in card and "| model.safetensors | `ab12` |\n| config.json | `cd` |\n" in card
    assert "a vector changes by at most 1.23% of its length, a probability by at most 0.0040." in card


def test_an_encoder_without_a_head_has_no_probability():
    assert change_in_words(Change(0.5, None)) == "on 8 sentences a vector changes by at most 50.00% of its length"


@pytest.mark.parametrize(("n_bytes", "words"), [(0, "0.0 MB"), (49_000, "0.0 MB"), (1_250_000_000, "1250.0 MB")])
def test_sizes_are_in_megabytes(n_bytes, words):
    assert megabytes(n_bytes) == words
