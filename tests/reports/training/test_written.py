"""What a scored run writes: the report, the predictions row by row, and the plots."""

import csv
import json

import pytest
import torch

from encoderlab.batch import Batch, Prediction
from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.metrics import ClassificationMetrics, TaggingMetrics
from encoderlab.reports.parts.run_report import RunSummary
from encoderlab.reports.training.report import build_report
from encoderlab.reports.training.written import write_report

EMPTY = torch.empty(0, dtype=torch.long)
STEPS = [{"kind": "step", "step": step, "loss": 1 / step, "learning_rate": 0.1} for step in (1, 2, 3)]
EVALUATIONS = [
    {"kind": "evaluation", "step": 3, "split": "validation", "loss": 0.4, "accuracy": 0.5, "token_accuracy": 0.5}
]


def report_of(scores):
    """Return the report of a run scored on its test split."""
    checkpoint = {"step": 3, "chosen_by": "last step", "chosen_on": None}
    return build_report(
        RunSummary("train", "täsk", 1, {"total": 3, "encoder": 3}, {}, checkpoint, ["a note"]), {"test": scores}, {}
    )


def text_scores(labels, answers, rows):
    """Score the given rows of a split, added in that order."""
    ids = torch.zeros(len(labels), 1, dtype=torch.long)
    metrics = ClassificationMetrics(["no", "yes"])
    batch = Batch(ids, ids, None, torch.tensor(rows), EMPTY, torch.tensor(labels), None, len(labels))
    metrics.add(Prediction(torch.eye(2)[answers] * 4), batch)
    return metrics.scores()


def predictions(folder):
    with folder.predictions.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_report_predictions_and_plots_are_written(folder):
    folder.metrics.write_text("".join(json.dumps(line) + "\n" for line in [*STEPS, *EVALUATIONS]), encoding="utf-8")
    scores = text_scores([0, 1], [0, 0], [0, 1])
    write_report(folder, report_of(scores), [TextExample("one"), TextExample("two")], scores)
    assert json.loads(folder.report.read_text(encoding="utf-8")) == report_of(scores)
    assert "täsk" in folder.report.read_text(encoding="utf-8")
    assert sorted(path.name for path in folder.plots.iterdir()) == [
        "confusion.png",
        "curves.png",
        "precision_recall.png",
    ]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in folder.plots.iterdir())
    written = {path.name for path in folder.root.iterdir()} - {"config.yaml", "environment.json", "metrics.jsonl"}
    assert written == {"plots", "predictions.csv", "report.html", "report.json"}
    assert "Curves over the optimizer" in folder.page.read_text(encoding="utf-8")


def test_each_prediction_is_beside_its_text_whatever_the_order_of_scoring(folder):
    examples = [TextExample(f"text {row}", f"pair {row}") for row in range(4)]
    scores = text_scores([1, 0, 1, 0], [1, 1, 0, 0], [2, 0, 3, 1])
    write_report(folder, report_of(scores), examples, scores)
    found = [(row["text"], row["text_pair"], row["label"], row["predicted"]) for row in predictions(folder)]
    assert found == [
        ("text 0", "pair 0", "no", "yes"),
        ("text 1", "pair 1", "no", "no"),
        ("text 2", "pair 2", "yes", "yes"),
        ("text 3", "pair 3", "yes", "no"),
    ]
    assert float(predictions(folder)[0]["probability_yes"]) == pytest.approx(
        torch.tensor([0.0, 4.0]).softmax(-1)[1].item(), abs=1e-5
    )


def test_words_are_written_in_a_row_with_a_label_for_each_that_was_read(folder):
    metrics = TaggingMetrics(["noun", "verb"], "token_accuracy", lambda logits, batch: logits.argmax(-1))
    ids, positions, labels = torch.zeros(2, 2, dtype=torch.long), torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1])
    batch = Batch(ids, ids, None, torch.tensor([1, 0]), positions, None, labels, 4)
    metrics.add(Prediction(token_logits=torch.eye(2)[[0, 0, 1]]), batch)
    examples = [WordsExample(("runs",), (1,)), WordsExample(("cats", "run"), (0, 1))]
    write_report(folder, report_of(metrics.scores()), examples, metrics.scores())
    found = [(row["text"], row["label"], row["predicted"]) for row in predictions(folder)]
    assert found == [("runs", "verb", "verb"), ("cats run", "noun verb", "noun noun")]


def test_the_report_that_marks_a_run_as_finished_is_written_last(folder, monkeypatch):
    scores = text_scores([0, 1], [0, 1], [0, 1])
    monkeypatch.setattr("encoderlab.reports.training.written.write_run_page", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(folder, report_of(scores), [TextExample("one"), TextExample("two")], scores)
    assert not folder.finished


def test_a_run_that_did_not_train_has_no_curves(folder):
    scores = text_scores([0, 1], [0, 1], [0, 1])
    write_report(folder, report_of(scores), [TextExample("one"), TextExample("two")], scores)
    assert "Curves over the optimizer" not in folder.page.read_text(encoding="utf-8")
    assert sorted(path.name for path in folder.plots.iterdir()) == ["confusion.png", "precision_recall.png"]
