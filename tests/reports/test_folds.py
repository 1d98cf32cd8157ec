"""The report of a cross-validation: means over folds, out-of-fold predictions, and labels to check."""

import io
import json

import numpy as np
import pandas as pd
import pytest

from encoderlab.errors import DataError
from encoderlab.reports.folds import (
    Fold,
    build_folds_report,
    labels_to_check,
    out_of_fold_table,
    show_folds_report,
    write_folds_report,
)
from tests.reports.conftest import ATTACK, Page

NAMES = ["no", "yes"]


def fold_of(tmp_path, number, accuracy):
    scores = {
        "n": 10, "loss": 1 - accuracy, "accuracy": accuracy, "accuracy_ci95": [0, 1],
        "per_class": {name: {"precision": accuracy, "recall": accuracy, "f1": accuracy, "support": 5} for name in NAMES},
    }  # fmt: skip
    report = {
        "command": "train", "task": "toy", "seed": 0, "init_from": None, "model": {"parameters": 3}, "main_score": "accuracy",
        "splits": {"test": scores}, "throughput": {"train_seconds": 1.0}, "baselines": {
            "majority": {"accuracy": 0.5, "seconds": 2.0, "model_leads_by": accuracy - 0.5, "model_leads_by_ci95": [0, 1]},
            "tfidf_logreg": {"skipped": "why", "accuracy": None},
        },
    }  # fmt: skip
    return Fold(tmp_path / f"fold-{number}", report, 20)


@pytest.fixture
def folds(tmp_path):
    return [fold_of(tmp_path, number, accuracy) for number, accuracy in enumerate((0.8, 0.9, 1.0), start=1)]


@pytest.fixture
def table():
    """Predictions for 30 rows, of which row 4 has a wrong label."""
    labels = ["no", "yes"] * 15
    sure = [0.95 if label == "yes" else 0.05 for label in labels]
    labels[4] = "yes"
    columns = {
        "fold": [1, 2, 3] * 10,
        "line": range(2, 32),
        "text": [f"t{n} {ATTACK}" for n in range(30)],
        "label": labels,
    }
    columns |= {"predicted": ["yes" if p > 0.5 else "no" for p in sure]}
    return pd.DataFrame(columns | {"probability_no": [1 - p for p in sure], "probability_yes": sure})


def test_scores_are_means_over_the_folds_with_an_interval_and_a_verdict(folds):
    report = build_folds_report(folds, unused_test_rows=7)
    scores = report["splits"]["out_of_fold"]
    assert (scores["n"], scores["accuracy"]) == (30, pytest.approx(0.9))
    low, high = scores["accuracy_ci95"]
    assert 0.0 <= low < 0.9 < high <= 1.0
    assert report["deviations"]["accuracy"] == pytest.approx(0.1)
    assert [fold["accuracy"] for fold in report["folds"]] == [0.8, 0.9, 1.0]
    assert report["baselines"]["majority"]["seconds"] == 6
    assert list(report["baselines"]) == ["majority"] and report["verdict"]["against"] == "majority"
    assert scores["per_class"]["no"]["support"] == 15 and any("7 rows" in note for note in report["notes"])


def test_the_page_and_the_files_show_scores_and_labels_to_check(tmp_path, folds, table, facts):
    report, checked = build_folds_report(folds), labels_to_check(table, NAMES, "label")
    assert checked["line"].tolist() == [6] and checked["predicted"].tolist() == ["no"]
    write_folds_report(tmp_path, report, facts, table, checked)
    page, screen = Page(tmp_path / "report.html"), io.StringIO()
    show_folds_report(report, checked, {"page": "report.html"}, screen)
    for text in (page.text, screen.getvalue()):
        assert "0.900" in text and "line 6" in text and "1.000" in text and "\x1b" not in text
    assert "script" not in page.tags
    assert json.loads((tmp_path / "report.json").read_text())["label_errors"] == {"n": 1, "of": 30}
    assert len(pd.read_csv(tmp_path / "predictions.csv")) == 30 and len(pd.read_csv(tmp_path / "label_errors.csv")) == 1


@pytest.mark.parametrize(("target", "least"), [("label", 0.9), ("label_set", 0.9)])
def test_changed_labels_are_listed_first_and_correct_ones_of_a_weak_model_are_not(target, least):
    """A model that is right four times in five: a list of what it doubts would be mostly correct labels."""
    random, names = np.random.default_rng(0), ["a", "b", "c"]
    true = random.integers(0, 3, 900)
    guess = np.where(random.random(900) < 0.8, true, random.integers(0, 3, 900))
    chances = np.full((900, 3), 0.15) + 0.55 * np.eye(3)[guess] + random.random((900, 3)) / 10
    chances[:450] += 4 * np.eye(3)[true[:450]]  # half of the rows are easy
    chances /= chances.sum(1, keepdims=True)
    changed = random.random(900) < 0.05
    labels = np.where(changed, (true + 1) % 3, true)
    table = pd.DataFrame({"line": range(900), "text": "t", "label": [names[label] for label in labels]})
    listed = labels_to_check(
        table.assign(**{f"probability_{n}": chances[:, k] for k, n in enumerate(names)}), names, target
    )
    lines = listed["line"].to_numpy()
    assert changed[lines[:15]].mean() >= least and len(set(lines)) < 150
    assert (listed["label"] != listed["predicted"]).all()
    if target == "label_set":
        assert {*listed["change"]} <= {f"{how} {name}" for how in ("add", "remove") for name in names}


@pytest.mark.parametrize("target", ["label", "label_set"])
def test_a_model_that_has_learned_nothing_lists_no_labels(target):
    random = np.random.default_rng(0)
    chances = random.random(400)
    table = pd.DataFrame({"line": range(400), "text": "t", "label": random.choice(NAMES, 400)})
    table = table.assign(probability_no=1 - chances, probability_yes=chances)
    assert labels_to_check(table, NAMES, target).empty


def test_labels_to_check_need_no_row_of_every_label():
    table = pd.DataFrame({"line": [1, 2, 3], "text": "t", "label": ["a", "a", "b"]})
    table = table.assign(probability_a=[0.9, 0.1, 0.1], probability_b=[0.1, 0.8, 0.8], probability_c=[0.0, 0.1, 0.1])
    for target in ("label", "label_set"):
        assert set(labels_to_check(table, ["a", "b", "c"], target)["line"]) <= {1, 2, 3}


def test_the_predictions_of_all_folds_are_in_the_rows_order(tmp_path):
    paths = []
    for fold, texts in enumerate((["a", "c"], ["b"]), start=1):
        paths.append(tmp_path / f"{fold}.csv")
        rows = "".join(f"{text},no,no,0.9,{text}\n" for text in texts)
        paths[-1].write_text(f"text,label,predicted,probability_no,line\n{rows}")
    where = ["x.csv, line 2", "x.csv, line 3", "x.csv, line 9"]
    table = out_of_fold_table(paths, np.array([1, 2, 1]), where, ["no"])
    assert table["text"].tolist() == ["a", "b", "c"] and table["line"].tolist() == [2, 3, 9]
    assert table["input_line"].tolist() == ["a", "b", "c"] and "file" not in table
    with pytest.raises(DataError):
        out_of_fold_table(paths, np.array([1, 2, 2]), where, ["no"])
