"""What is printed before training: the data with its warnings, the cost of a run, and scores without an encoder."""

import io

import pytest

from encoderlab.reports.facts import labels_alike, scarce_classes, shared_rows, show_survey
from tests.reports.conftest import ATTACK, SPLIT


def printed(show, *arguments):
    file = io.StringIO()
    show(*arguments, file)
    assert "\x1b" not in file.getvalue()
    return " ".join(file.getvalue().split())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, []),
        ({"labels": {"no": 199, "yes": 1}}, ["1 of the 2 labels occur once in training", "'yes'"]),
        ({"labels": {"Yes": 99, "yes": 90, "no": 9}}, ["'Yes' and 'yes'", "dataset.label_names"]),
        ({"labels": {"1": 99, "1.0": 90, "2": 9}}, ["'1' and '1.0'"]),
        ({"conflicting": 3}, ["in 3 rows of train", "another label"]),
        ({"markup": 0.2}, ["20% of the texts", "HTML"]),
        ({"labels": {ATTACK: 100, "yes": 100}}, []),
        (
            {"labels": {str(n): 1 for n in range(120)}},
            ["120 of the 120 labels", "dataset.label names the right column"],
        ),
    ],
)
def test_a_survey_warns_about_its_labels(changes, words):
    screen = printed(show_survey, {"train": SPLIT | changes})
    assert ("Warning" in screen) == bool(words) and all(word in screen for word in words)


@pytest.mark.parametrize(
    ("warning", "given", "silent"),
    [
        (shared_rows, {"shared_with_train": 40, "rows": 200}, {"shared_with_train": 1, "rows": 200}),
        (scarce_classes, {"no": 9, "yes": 90}, {"no": 10, "yes": 90}),
    ],
)
def test_a_score_that_says_little_is_warned_about(warning, given, silent):
    assert warning("test", given) and not warning("test", silent)
    assert labels_alike({"a": 1, "b": 2}) == ""


def test_numbers_are_summarized_instead_of_labels():
    numbers = {"min": 0.5, "mean": 1.25, "deviation": 0.1, "max": 2.0}
    assert "0.5 1.25 0.1 2" in printed(show_survey, {"train": SPLIT | {"labels": {}, "numbers": numbers}})
