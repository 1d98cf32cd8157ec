"""report.json: the contract's keys, JSON that any reader takes, and an honest verdict."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from encoderlab.baselines.supervised import Baseline
from encoderlab.batch import Batch, Prediction
from encoderlab.metrics import ClassificationMetrics, TaggingMetrics
from encoderlab.reports.parts.run_report import RunSummary
from encoderlab.reports.training.report import build_report


def classification(right, *, n=200):
    """Score `n` examples with alternating labels, the first `right` of them predicted correctly."""
    labels = torch.arange(n) % 2
    answers = torch.where(torch.arange(n) < right, labels, 1 - labels)
    empty = torch.empty(0, dtype=torch.long)
    ids = torch.zeros(n, 1, dtype=torch.long)
    metrics = ClassificationMetrics(["no", "yes"])
    metrics.add(Prediction(torch.eye(2)[answers]), Batch(ids, ids, None, torch.arange(n), empty, labels, None, n))
    return metrics.scores()


def baseline(right, *, n=200):
    labels = np.arange(n) % 2
    predicted = np.where(np.arange(n) < right, labels, 1 - labels)
    return Baseline({"accuracy": right / n, "f1_macro": 0.5, "seconds": 0.1}, predicted)


RUN = RunSummary(
    command="train",
    task="sst2",
    seed=1,
    parameters={"total": 30, "encoder": 20, "head": 10},
    throughput={"tokens_per_second": 1.0, "examples_per_second": 2.0, "padding_fraction": 0.0, "train_seconds": 3.0},
    checkpoint={"step": 7, "chosen_by": "accuracy", "chosen_on": "validation"},
    notes=["a note"],
)


def report_of(splits=None, baselines=None, **changes):
    splits = {"validation": classification(160)} if splits is None else splits
    baselines = {"majority": baseline(100), "tfidf_logreg": baseline(120)} if baselines is None else baselines
    return build_report(replace(RUN, **changes), splits, baselines)


def test_the_keys_are_those_of_the_contract():
    report = report_of()
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert (report["command"], report["task"], report["seed"]) == ("train", "sst2", 1)
    assert report["model"] == {"parameters": 30, "parameters_by_part": {"encoder": 20, "head": 10}}
    keys = {
        "n",
        "loss",
        "accuracy",
        "f1_macro",
        "f1_weighted",
        "per_class",
        "confusion",
        "accuracy_ci95",
        "f1_macro_ci95",
    }
    assert keys <= set(report["splits"]["validation"])
    assert report["baselines"]["majority"]["accuracy"] == 0.5
    assert report["baselines"]["tfidf_logreg"]["accuracy"] == 0.6
    assert set(report["throughput"]) == {
        "tokens_per_second",
        "examples_per_second",
        "padding_fraction",
        "train_seconds",
    }
    assert report["checkpoint"] == {"step": 7, "chosen_by": "accuracy", "chosen_on": "validation"}


@pytest.mark.parametrize(
    ("right", "outcome", "words"),
    [
        (160, "above", "is above that"),
        (124, "above", "+0.020"),
        (121, "not distinguishable", "is not distinguishable from that"),
    ]
    + [(120, "not distinguishable", "+0.000"), (80, "below", "is below that")],
)
def test_the_verdict_follows_the_paired_interval_of_the_difference(right, outcome, words):
    verdict = report_of(splits={"validation": classification(right)})["verdict"]
    assert (verdict["against"], verdict["outcome"]) == ("tfidf_logreg", outcome)
    assert "TF-IDF + logistic regression" in verdict["sentence"]
    assert words in verdict["sentence"]


def test_a_skipped_baseline_is_named_and_not_compared():
    skipped = Baseline(skipped="the linear baseline is fitted on at most 200,000 rows, but training has 300,000")
    report = report_of(baselines={"majority": baseline(100), "tfidf_logreg": skipped})
    assert report["baselines"]["tfidf_logreg"]["accuracy"] is None
    assert report["verdict"]["against"] == "majority"
    assert any("at most 200,000 rows" in note for note in report["notes"])


def test_without_baselines_there_is_no_verdict():
    assert report_of(baselines={})["verdict"] is None


def test_tagging_is_compared_word_by_word_as_far_as_the_model_read():
    metrics = TaggingMetrics(["a", "b"], "token_accuracy", lambda logits, batch: logits.argmax(-1))
    ids = torch.zeros(2, 3, dtype=torch.long)
    positions, answers = torch.tensor([0, 1, 2, 3]), torch.tensor([0, 1, 0, 1])
    batch = Batch(ids, ids, None, torch.tensor([1, 0]), positions, None, answers, 6)
    metrics.add(Prediction(token_logits=torch.eye(2)[answers]), batch)
    figures = {"token_accuracy": 0.5, "accuracy": 0.0, "f1_macro": 0.5, "seconds": 0.1}
    simple = Baseline(figures, [np.array([1, 0, 0]), np.array([0, 0, 0])])
    report = report_of(splits={"test": metrics.scores()}, baselines={"word_majority": simple})
    assert report["main_figure"] == "token_accuracy"
    assert report["baselines"]["word_majority"]["model_leads_by"] == pytest.approx(1 / 4)
    assert "token accuracy" in report["verdict"]["sentence"]
    assert "token_accuracy_ci95" in report["splits"]["test"]
