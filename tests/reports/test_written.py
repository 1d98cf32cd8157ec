"""What a scored run leaves behind: the report, the answers row by row, and the plots."""

import csv
import json

import pytest
import torch

from encoderlab.batch import Batch, Prediction
from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.metrics import ClassificationMetrics, TaggingMetrics
from encoderlab.reports.written import write_report
from encoderlab.runs.folder import RunFolder

EMPTY = torch.empty(0, dtype=torch.long)
REPORT = {"command": "train", "task": "täsk", "seed": 1, "main_figure": "accuracy", "scored_split": "test", "notes": ["a note"]}
STEPS = [{"kind": "step", "step": step, "loss": 1 / step, "learning_rate": 0.1} for step in (1, 2, 3)]
EVALUATIONS = [{"kind": "evaluation", "step": 3, "split": "validation", "loss": 0.4, "accuracy": 0.5, "token_accuracy": 0.5}]


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path)


def text_scores(labels, answers, rows):
    """Scores of the given rows of a split, added in that order."""
    ids = torch.zeros(len(labels), 1, dtype=torch.long)
    metrics = ClassificationMetrics(["no", "yes"])
    batch = Batch(ids, ids, None, torch.tensor(rows), EMPTY, torch.tensor(labels), None, len(labels))
    metrics.add(Prediction(torch.eye(2)[answers] * 4), batch)
    return metrics.scores()


def predictions(folder):
    with folder.predictions.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_report_answers_and_plots_are_written(folder):
    folder.metrics.write_text("".join(json.dumps(line) + "\n" for line in [*STEPS, *EVALUATIONS]), encoding="utf-8")
    write_report(folder, REPORT, [TextExample("one"), TextExample("two")], text_scores([0, 1], [0, 0], [0, 1]))
    assert json.loads(folder.report.read_text(encoding="utf-8")) == REPORT
    assert "täsk" in folder.report.read_text(encoding="utf-8")
    assert sorted(path.name for path in folder.plots.iterdir()) == ["confusion.png", "curves.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in folder.plots.iterdir())
    assert sorted(path.name for path in folder.root.iterdir()) == ["metrics.jsonl", "plots", "predictions.csv", "report.json"]


def test_each_answer_stands_beside_its_own_text_whatever_the_order_it_was_scored_in(folder):
    examples = [TextExample(f"text {row}", f"pair {row}") for row in range(4)]
    write_report(folder, REPORT, examples, text_scores([1, 0, 1, 0], [1, 1, 0, 0], [2, 0, 3, 1]))
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


def test_words_are_written_side_by_side_with_a_label_for_each_that_was_read(folder):
    metrics = TaggingMetrics(["noun", "verb"])
    ids, asked, labels = torch.zeros(2, 2, dtype=torch.long), torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1])
    batch = Batch(ids, ids, None, torch.tensor([1, 0]), asked, None, labels, 4)
    metrics.add(Prediction(token_logits=torch.eye(2)[[0, 0, 1]]), batch)
    examples = [WordsExample(("runs",), (1,)), WordsExample(("cats", "run"), (0, 1))]
    write_report(folder, REPORT | {"main_figure": "token_accuracy"}, examples, metrics.scores())
    found = [(row["text"], row["label"], row["predicted"]) for row in predictions(folder)]
    assert found == [("runs", "verb", "verb"), ("cats run", "noun verb", "noun noun")]


def test_a_run_that_did_not_train_has_no_curves(folder):
    write_report(folder, REPORT, [TextExample("one"), TextExample("two")], text_scores([0, 1], [0, 1], [0, 1]))
    assert [path.name for path in folder.plots.iterdir()] == ["confusion.png"]
