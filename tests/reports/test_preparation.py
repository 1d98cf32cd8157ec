"""What is printed before training: the data with its warnings, the cost of a run, and scores without an encoder."""

import io

import numpy as np
import pytest

from encoderlab.baselines.supervised import Baseline
from encoderlab.reports.preparation import (
    build_baseline_report,
    labels_alike,
    scarce_classes,
    shared_rows,
    show_baselines,
    show_documents,
    show_rows,
    show_survey,
)
from tests.reports.conftest import ATTACK, SPLIT

LENGTHS = {"min": 3.0, "median": 7.0, "p90": 9.0, "p95": 9.0, "p99": 9.0, "max": 1200.0, "truncated": 0.25}
PIECES = {"vocabulary_size": 8000, "pieces_per_word": 1.25, "whole_words": 0.8, "unknown_pieces": 0.01}


def printed(show, *arguments):
    file = io.StringIO()
    show(*arguments, file)
    assert "\x1b" not in file.getvalue()
    return " ".join(file.getvalue().split())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, []),
        ({"labels": {"no": 199, "yes": 1}}, ["'yes' occurs once in training"]),
        (
            {"labels": {"Yes": 99, "yes": 90, "no": 9}},
            ["'Yes' and 'yes'", "dataset.label_names"],
        ),
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


def test_data_shows_lengths_tokens_odd_rows_and_examples():
    odd = {
        "kind": "markup",
        "count": 1234,
        "first": [{"where": "line 9", "text": f"<b>\n{'x' * 200}", "like": "line 3"}],
    }
    row = {"where": "line 2", "label": ATTACK, "text": "fine\tfilm", "pieces": ["[CLS]", "fine"], "tokens": 3}
    split = SPLIT | {"tokens": LENGTHS, "odd_rows": [odd], "examples": [row]}
    screen = printed(show_rows, {"splits": {"train": split}, "max_length": 128, "pieces": PIECES})
    for words in (
        "1,200",
        "25.0%",
        "1.25 tokens per word",
        "1,234 with markup",
        "line 9 (as line 3): <b> x",
        "[CLS] fine ...",
    ):
        assert words in screen


def test_documents_show_counts_and_pairs():
    split = {
        "documents": 3,
        "paragraphs": 9,
        "sentences": 20,
        "tokens": 1500,
        "pairs": 10,
        "labels": {},
        "sentence_splitter": "rules",
    }
    split |= {"tokens_of_a_row": LENGTHS, "examples": [{"label": "next", "pieces": [["a"], ["b"]]}]}
    screen = printed(show_documents, {"splits": {"train": split}, "max_length": 128, "pieces": None})
    assert "train 3 9 20 1,500 10" in screen and "next: a b" in screen


def test_baselines_are_compared_with_the_simplest_one():
    labels = np.arange(100) % 2
    better = Baseline(
        {"accuracy": 0.9, "f1_macro": 0.9, "seconds": 1.0}, np.where(np.arange(100) < 90, labels, 0), "", {0: ["w"] * 9}
    )
    simple = Baseline({"accuracy": 0.5, "f1_macro": 0.33, "seconds": 0.1}, np.zeros(100, int))
    fitted = {"majority": simple, "tfidf_logreg": better, "word_majority": Baseline(skipped="too many rows")}
    report = build_baseline_report(
        task="films", seed=0, split="test", labels=labels, names=["no", "yes"], found=fitted, words=2, main="accuracy"
    )
    linear = report["baselines"]["tfidf_logreg"]
    assert linear["accuracy"] == 0.95 and linear["ahead_of_majority_by"] == pytest.approx(0.45)
    assert linear["top_features"] == {"no": ["w", "w"]} and linear["confusion"]
    screen = printed(show_baselines, report)
    low, high = linear["accuracy_ci95"]
    assert f"0.950 ({low:.3f} to {high:.3f})" in screen and "too many rows" in screen and "no: w, w" in screen
