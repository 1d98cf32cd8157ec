"""The page and the screen of a cross-validation: figures of each fold, and the labels to check with their places."""

from types import SimpleNamespace

import pandas as pd
import pytest

from encoderlab.reports.folds.written import _show, _shown_errors
from encoderlab.runs.folder import RunFolder

CLASS = {
    "file": "a.csv",
    "line": 3,
    "fold": 1,
    "text": "cold",
    "label": "good",
    "predicted": "bad",
    "probability": 0.912,
    "probability_of_label": 0.05,
}
WORD = CLASS | {"sentence": 2, "word_number": 4, "word": "Rome"}
NUMBER = {"line": 9, "text": "dear", "label": 5.0, "predicted": 95.5, "deviations": -4.26}
REPORT = {
    "command": "train", "task": "films", "seed": 3, "main_figure": "accuracy",
    "folds": [{"fold": n, "trained_on": 1200, "n": 600, "accuracy": 0.8 + n / 100, "loss": 0.3} for n in (1, 2)],
    "splits": {"out_of_fold": {"n": 1200, "accuracy": 0.815, "accuracy_ci95": [0.79, 0.84]}},
    "deviations": {"accuracy": 0.007, "loss": 0.1}, "verdict": {"sentence": "Over the folds, it is above."},
    "label_errors": {"n": 1, "of": 1200}, "notes": ["Intervals are wide"],
}  # fmt: skip


def shown(*rows):
    return _shown_errors(pd.DataFrame(rows), 20)


def test_a_wrong_class_is_shown_with_its_place_and_both_probabilities():
    (one,) = shown(CLASS)
    assert one == {
        "place": "a.csv, line 3",
        "texts": ["cold"],
        "label": "good",
        "predicted": "bad",
        "sure_of_label": " (5.0%)",
        "sure": " (91.2%)",
    }


@pytest.mark.parametrize(
    ("row", "place"),
    [
        (WORD, "a.csv, line 3, sentence 2, word 4: Rome"),
        (WORD | {"file": "", "line": ""}, "sentence 2, word 4: Rome"),
        (NUMBER, "line 9"),
    ],
)
def test_a_place_names_file_line_and_word_as_far_as_they_exist(row, place):
    assert shown(row)[0]["place"] == place


@pytest.mark.parametrize(
    ("deviations", "words"), [(-4.26, "4.3 standard deviations too low"), (5.0, "5.0 standard deviations too high")]
)
def test_a_wrong_number_is_too_high_or_too_low(deviations, words):
    (one,) = shown(NUMBER | {"deviations": deviations})
    assert (one["sure_of_label"], one["sure"]) == (f" ({words})", "")


def test_an_empty_set_has_no_label_and_both_texts_of_a_pair_are_shown():
    (one,) = shown(CLASS | {"label": "", "text_pair": "grim"})
    assert one["label"] == "no label" and one["texts"] == ["cold", "grim"]


def test_the_screen_shows_each_fold_the_mean_and_the_first_labels(tmp_path, capsys):
    _show(REPORT, "labels", shown(*[CLASS] * 8), SimpleNamespace(folder=RunFolder(tmp_path)))
    screen = capsys.readouterr().err
    assert (
        "train films, seed 3, 2 folds of 1,200 rows: accuracy 0.815" in screen
        and "Over the folds, it is above." in screen
    )
    lines = [line.split() for line in screen.splitlines()]
    assert (
        ["1", "1,200", "600", "0.810"] in lines
        and ["mean", "1,200", "0.815"] in lines
        and ["std.", "dev.", "0.007"] in lines
    )
    assert (
        "1 of 1,200 labels are probably wrong" in screen
        and screen.count("a.csv, line 3: good, probably bad: cold") == 5
    )
    assert "Note: Intervals are wide" in screen and "label_errors.csv" in screen
