"""Which labels are one in another spelling, and which mean that there is no answer."""

import unicodedata
from collections import Counter

import pytest

from encoderlab.tables.spellings import (
    codes_among_numbers,
    codes_for_no_answer,
    one_spelling,
    same_numbers,
    spelled_out,
)

COMPOSED = "Café"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("1 1 0 1.0 0.0", {"1.0": "1", "0.0": "0"}),
        ("1.0 2.0 10.0", {"1.0": "1", "2.0": "2", "10.0": "10"}),
        ("1.1 1.10 1.1", {}),  # sections, not numbers
        ("1.0 1.5 2.0", {}),  # half stars
        ("007 7 042", {}),
        ("a A b", {}),  # single letters may be labels in both cases
        ("Yes yes yes no", {"Yes": "yes"}),
        (f"{COMPOSED} {COMPOSED} {DECOMPOSED} tea", {DECOMPOSED: COMPOSED}),
        ("urgent urgent urgent\u200b later", {"urgent\u200b": "urgent"}),
        ("later ＵＲＧＥＮＴ urgent urgent", {"ＵＲＧＥＮＴ": "urgent"}),
        ("don\u2019t don't yes", {"don\u2019t": "don't"}),
        ("follow\u2010up follow\u2010up follow-up new", {"follow\u2010up": "follow-up"}),
        ("c\u043emplaint c\u043emplaint complaint praise", {"c\u043emplaint": "complaint"}),  # a Cyrillic o
        ("R&amp;D R&amp;D R&D sales", {"R&amp;D": "R&D"}),
        ("com\u00adplaint com\u00adplaint complaint praise", {"com\u00adplaint": "complaint"}),
        ("\u0441\u043e\u043d \u0441\u043d\u043e new", {}),
    ],
)
def test_spellings_of_a_label(labels, expected):
    assert one_spelling(Counter(labels.split(" "))) == expected


def test_blanks_that_look_alike_are_one():
    counts = {"not urgent": 5, "not\xa0urgent": 1, "not  urgent": 1, "urgent": 3}
    assert one_spelling(counts) == {"not\xa0urgent": "not urgent", "not  urgent": "not urgent"}
    assert "U+00A0" in spelled_out("not\xa0urgent", "not urgent")


def test_spellings_that_the_settings_state_are_kept():
    assert one_spelling({"Good": 9, "good": 1, "bad": 1}, ["good", "bad"]) == {"Good": "good"}
    assert one_spelling({"0": 3, "0.0": 2, "1": 3}, ["0", "0.0", "1"]) == {}


def test_the_same_whole_number_is_named():
    assert same_numbers(["007", "7", "42"]) == [("007", "7")]
    assert same_numbers(["1.1", "1.10", "1.2"]) == [("1.1", "1.10")]
    assert same_numbers(["1,0", "1", "2"]) == [("1", "1,0")]
    assert same_numbers(["nan", "good"]) == []


@pytest.mark.parametrize(
    ("counts", "codes"),
    [
        ({"0": 50, "1": 20, "-1": 30}, ["-1"]),
        ({"-1": 50, "1": 50}, []),  # negative and positive
        ({"1": 9, "2": 8, "3": 9, "99": 2}, ["99"]),
        ({"good": 5, "bad": 5, "N/A": 2}, ["N/A"]),
        ({"1": 9, "2": 8, "-8": 1, "-9": 2}, ["-8", "-9"]),
        ({"-2": 9, "-1": 8, "0": 1, "1": 2}, []),  # a scale
        ({"1": 9, "2": 8, "98": 1, "99": 2}, ["98", "99"]),
        ({"60": 9, "70": 8, "80": 1, "99": 2}, []),  # a score
        (
            {"good": 5, "bad": 5, "Not rated": 2, "<NA>": 1, "No answer given": 1},
            ["Not rated", "<NA>", "No answer given"],
        ),
        ({"good": 5, "no": 5, "nothing": 2}, []),
        ({"good": 5, "bad": 5}, []),
    ],
)
def test_codes_for_no_answer(counts, codes):
    assert codes_for_no_answer(counts) == codes


@pytest.mark.parametrize(
    ("numbers", "codes"),
    [
        ([1.0, 2.0, 5.0, -99.0], [-99.0]),
        ([1.0, 2.0, 5.0, 999.0], [999.0]),
        ([1.0, 2.0, 5.0, 9.0], []),  # a scale to 10
        ([60.0, 70.0, 99.0], []),
        ([-120.0, -99.0, 5.0], []),
    ],
)
def test_codes_among_numbers(numbers, codes):
    assert codes_among_numbers(numbers) == codes
