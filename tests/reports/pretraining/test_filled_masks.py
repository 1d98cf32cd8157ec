"""Filled masks: readable as text, with the target token marked but not given away."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.reports.pretraining.filled_masks import readable
from encoderlab.runs.inference.masked_predictions import Filled


def text_of(pieces, place):
    return readable(Filled(pieces.split(), place, "x", []))["text"]


@pytest.mark.parametrize(
    ("pieces", "place", "text"),
    [
        ("[CLS] the cat [MASK] on it . [SEP]", 3, "the cat [MASK] on it."),
        ("[CLS] run ##ning un ##believ ##ably [MASK] [SEP] [PAD] [PAD]", 6, "running unbelievably [MASK]"),
        ("[CLS] one [MASK] . [SEP] two ( it ' s 5 % ) , three [SEP]", 2, "one [MASK]. [SEP] two (it ' s 5%), three"),
        ("[CLS] [MASK] [MASK] and [MASK] [SEP]", 2, "___ [MASK] and ___"),
        ("[CLS] play [MASK] ##ing [SEP]", 2, "play [MASK]ing"),
        ("[CLS] [MASK] ##ing ##s , he [SEP]", 1, "[MASK]ings, he"),
        ("[CLS] [MASK] [SEP] ##s ) b [SEP]", 1, "[MASK] [SEP] s) b"),
        ("the [MASK] ## and ##", 1, "the [MASK] ## and ##"),
        ("a ( [MASK] ) b", 2, "a ([MASK]) b"),
    ],
)
def test_pieces_are_joined_as_they_are_printed(pieces, place, text):
    assert text_of(pieces, place) == text


def test_the_mask_of_any_tokenizer_is_written_like_berts():
    assert text_of("<s> one <mask> two <mask> </s>", 2) == "one [MASK] two ___"


def test_the_true_token_and_the_predictions_are_json():
    guesses = [("mat", np.float32(0.51239)), ("##s", 0.2)]
    found = readable(Filled(["a", "[MASK]"], 1, "mat", guesses))
    expected = {
        "text": "a [MASK]",
        "answer": "mat",
        "guesses": [{"token": "mat", "probability": 0.5124}, {"token": "##s", "probability": 0.2}],
    }
    assert found == expected
    assert json.loads(json.dumps(found)) == found


def test_a_long_text_is_cut_between_words_evenly_around_the_mask():
    pieces = [f"w{i:03}" for i in range(100)]
    pieces[50] = "[MASK]"
    text = readable(Filled(pieces, 50, "x", []))["text"]
    assert text.startswith("… w0") and text.endswith(" …")
    before, after = text.strip("… ").split("[MASK]")
    assert abs(len(before) - len(after)) <= 6
    assert 190 <= len(text.strip("… ")) <= 200


def test_near_the_start_of_a_long_text_more_is_shown_after_the_mask():
    pieces = ["[MASK]", *(f"w{i:03}" for i in range(1, 100))]
    text = readable(Filled(pieces, 0, "x", []))["text"]
    assert text.startswith("[MASK] w001")
    assert 190 <= len(text) <= 202


word = st.sampled_from(
    ["the", "##ing", "##", ".", "(", ")", "[MASK]", "[SEP]", "[PAD]", "[CLS]", "[UNK]", "a" * 60, "%"]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(word, min_size=1, max_size=60), st.data())
def test_any_pieces_give_one_mask_in_a_text_short_enough_to_read(pieces, data):
    place = data.draw(st.integers(0, len(pieces) - 1))
    pieces[place] = "[MASK]"
    text = readable(Filled(pieces, place, "x", []))["text"]
    assert text.count("[MASK]") == 1
    longest = max(map(len, text.split()))
    assert len(text) <= max(200, longest) + 4
