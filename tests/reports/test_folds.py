"""The report of a cross-validation: means over folds, out-of-fold predictions, and labels that are probably wrong."""

import io
import json

import numpy as np
import pandas as pd
import pytest

from encoderlab.errors import DataError
from encoderlab.reports.folds import (
    Fold,
    build_folds_report,
    check_labels,
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
        "command": "train", "task": "toy", "seed": 0, "init_from": None, "model": {"parameters": 3}, "main_figure": "accuracy",
        "splits": {"test": scores}, "throughput": {"train_seconds": 1.0}, "baselines": {
            "majority": {"accuracy": 0.5, "model_leads_by": accuracy - 0.5, "model_leads_by_ci95": [0, 1]},
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
    assert list(report["baselines"]) == ["majority"] and report["verdict"]["against"] == "majority"
    assert scores["per_class"]["no"]["support"] == 15 and any("7 rows" in note for note in report["notes"])


def test_the_page_and_the_files_show_scores_and_labels_to_check(tmp_path, folds, table, facts):
    report, checked = build_folds_report(folds), check_labels(table, NAMES, "label")
    assert checked.table["line"].tolist() == [6] and checked.table["predicted"].tolist() == ["no"]
    write_folds_report(tmp_path, report, facts, table, checked)
    page, screen = Page(tmp_path / "report.html"), io.StringIO()
    show_folds_report(report, checked, {"page": "report.html"}, screen)
    for text in (page.text, screen.getvalue()):
        assert "0.900" in text and "line 6" in text and "1.000" in text and "\x1b" not in text
    assert "script" not in page.tags
    assert json.loads((tmp_path / "report.json").read_text())["label_errors"] == {"n": 1, "of": 30}
    assert len(pd.read_csv(tmp_path / "predictions.csv")) == 30 and len(pd.read_csv(tmp_path / "label_errors.csv")) == 1


def test_wrong_labels_are_found_in_sets_numbers_and_words(table):
    sets = check_labels(table, NAMES, "label_set")
    assert sets.of == 60 and sets.table["line"].iloc[0] == 6 and set(sets.table["change"]) == {"remove yes", "add no"}
    numbers = pd.DataFrame(
        {"fold": 1, "line": range(50), "text": "a", "label": np.arange(50.0), "predicted": np.arange(50.0)}
    )
    numbers["predicted"] += np.random.default_rng(0).normal(0, 0.1, 50)
    numbers.loc[9, "label"] = 99.0
    assert check_labels(numbers, [], "number").table["line"].tolist()[0] == 9
    words = pd.DataFrame({"fold": 1, "line": range(1, 31), "text": "a b", "label": ["no yes"] * 30})
    words.loc[3, "label"] = "yes yes"
    sure = np.array([[0.95, 0.05], [0.05, 0.95]])
    found = check_labels(words, NAMES, "label", iter([sure] * 30))
    assert found.of == 60
    assert found.table[["line", "sentence", "word_number", "word", "label", "predicted"]].values.tolist() == [
        [4, 4, 1, "a", "yes", "no"]
    ]


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
