"""report.json of a cross-validation: means over the folds, intervals within a figure's range, and baselines that every
fold has.
"""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.metrics.folds import over_folds
from encoderlab.reports.folds.report import _flat, build_folds_report
from encoderlab.runs.folder import RunFolder

SCORES = [{"accuracy": 0.9, "matthews": 0.8, "loss": 0.3}, {"accuracy": 0.7, "matthews": 0.4, "loss": 0.6}]


def folds_of(tmp_path, scores=SCORES, baselines=None, unused=0, **report):
    """Return two finished folds of 30 rows, each trained on the other's rows."""
    runs = []
    for number, score in enumerate(scores, start=1):
        run = RunFolder(tmp_path / f"fold-{number}")
        run.root.mkdir()
        by_class = {"yes": {"precision": score["accuracy"], "recall": 0.5, "f1": 0.6, "support": 10 * number}}
        content = {
            "command": "train", "task": "films", "seed": 0, "init_from": None, "model": {}, "main_figure": "accuracy",
            "splits": {"test": {"n": 30, **score, "per_class": by_class, "confusion": [[1]]}}, "throughput": {"train_seconds": 2.5},
            "baselines": (baselines or [{}, {}])[number - 1], **report,
        }  # fmt: skip
        run.report.write_text(json.dumps(content), encoding="utf-8")
        run.environment.write_text(json.dumps({"dataset": {"splits": {"train": {"rows": 30}}}}), encoding="utf-8")
        runs.append(run)
    corpus = SimpleNamespace(splits=SimpleNamespace(origin={"unused_test_rows": unused}))
    return SimpleNamespace(runs=runs, corpus=corpus)


def test_figures_are_means_with_their_deviations_and_those_of_each_fold(tmp_path):
    report = build_folds_report(folds_of(tmp_path))
    scores = report["splits"]["out_of_fold"]
    assert scores["n"] == 60 and scores["accuracy"] == pytest.approx(0.8)
    assert report["deviations"]["accuracy"] == pytest.approx(0.2 / 2**0.5)
    assert [(fold["fold"], fold["folder"], fold["trained_on"], fold["accuracy"]) for fold in report["folds"]] == [
        (1, "fold-1", 30, 0.9),
        (2, "fold-2", 30, 0.7),
    ]
    assert report["throughput"]["train_seconds"] == 5.0 and report["verdict"] is None
    yes = scores["per_class"]["yes"]
    assert (yes["support"], yes["precision"]) == (30, pytest.approx((0.9 * 10 + 0.7 * 20) / 30))


@given(
    st.sampled_from(["accuracy", "f1_macro", "matthews", "pearson", "loss", "mae"]),
    st.lists(st.floats(0, 1), min_size=2, max_size=5),
)
def test_an_interval_contains_the_mean_and_stays_within_the_figures_range(name, values):
    found = _flat({name: over_folds(values, 0.5)})
    low, high = found[f"{name}_ci95"]
    assert low - 1e-9 <= found[name] <= high + 1e-9
    assert low >= (-1 if name in ("matthews", "pearson") else 0)
    assert high <= 1 or name in ("loss", "mae")


def test_a_figure_that_one_fold_lacks_is_left_out(tmp_path):
    report = build_folds_report(folds_of(tmp_path, [SCORES[0] | {"roc_auc": 0.9}, SCORES[1] | {"roc_auc": None}]))
    assert "roc_auc" not in report["splits"]["out_of_fold"]


@pytest.mark.parametrize(
    ("leads", "outcome", "words"),
    [
        ((0.21, 0.211), "above", "is above"),
        ((-0.3, -0.31), "below", "is below"),
        ((0.3, -0.2), "not distinguishable", "is not distinguishable from"),
    ],
)
def test_the_verdict_is_about_the_best_baseline_that_every_fold_has(tmp_path, leads, outcome, words):
    baselines = [
        {
            "majority": {"accuracy": 0.1, "model_leads_by": 0.9},
            "tfidf_logreg": {"accuracy": 0.5, "model_leads_by": lead},
        }
        for lead in leads
    ]
    baselines[0]["skipped"] = {"accuracy": None}
    report = build_folds_report(folds_of(tmp_path, baselines=baselines))
    assert report["baselines"].keys() == {"majority", "tfidf_logreg"}
    assert report["baselines"]["tfidf_logreg"]["model_leads_by"] == pytest.approx(sum(leads) / 2)
    assert (report["verdict"]["against"], report["verdict"]["outcome"]) == ("tfidf_logreg", outcome)
    assert f"accuracy {words} that of its best baseline" in report["verdict"]["sentence"]


def test_unused_test_rows_are_noted(tmp_path):
    assert "The test split (7 rows) was not used" in build_folds_report(folds_of(tmp_path, unused=7))["notes"][-1]
