"""What `encoderlab baseline` reports: each method with its interval and its lead on the same rows."""

import io
import json

import numpy as np
import pytest

from encoderlab.baselines.supervised import Baseline
from encoderlab.metrics.scores import figures_by_class
from encoderlab.reports.screens.baseline import build_baseline_report, show_baselines

LABELS = np.array([0, 1] * 20)


def scored(predicted, **more):
    figures = {"accuracy": float((predicted == LABELS).mean()), "seconds": 0.5}
    return Baseline(
        figures | {"f1_macro": figures_by_class(LABELS, predicted, ["no", "[yes]"])["f1_macro"]}, predicted, **more
    )


FOUND = {
    "majority": scored(np.zeros(40, dtype=int)),
    "tfidf_logreg": scored(LABELS, top_features={0: ["dull", "flat"], 1: ["warm", "witty"]}),
}


@pytest.fixture(scope="module")
def report():
    return build_baseline_report(
        task="films", main="accuracy", seed=0, split="test", labels=LABELS, names=["no", "[yes]"], found=FOUND, words=1
    )


def test_the_report_is_json_with_intervals_and_leads(report):
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    linear = report["baselines"]["tfidf_logreg"]
    assert (linear["accuracy"], linear["ahead_of_majority_by"]) == (1.0, 0.5)
    low, high = linear["ahead_of_majority_by_ci95"]
    assert 0.3 < low < 0.5 < high < 0.7
    assert linear["confusion"] == [[20, 0], [0, 20]]
    assert linear["top_features"] == {"no": ["dull"], "[yes]": ["warm"]}


def test_a_method_that_was_skipped_says_why(report):
    skipped = build_baseline_report(
        task="t",
        main="accuracy",
        seed=0,
        split="test",
        labels=LABELS,
        names=["a", "b"],
        found=FOUND | {"tfidf_logreg": Baseline(skipped="too many")},
        words=1,
    )
    assert skipped["baselines"]["tfidf_logreg"] == {"skipped": "too many"}
    file = io.StringIO()
    show_baselines(skipped, file)
    assert "too many" in file.getvalue()


def test_the_screen_shows_scores_leads_and_words(report):
    file = io.StringIO()
    show_baselines(report, file)
    screen = file.getvalue()
    assert "test (40 rows)" in screen
    assert "+0.500" in screen and "1.000" in screen
    assert "[yes]: warm" in screen
