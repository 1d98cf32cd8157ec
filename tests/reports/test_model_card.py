"""The model card: what the model is, how good it is, on how many rows, and how to use it."""

import torch

from encoderlab.batch import Batch, Prediction
from encoderlab.metrics import ClassificationMetrics
from encoderlab.reports.model_card import model_card
from encoderlab.reports.report import build_report


def report_of(**changes):
    """A report of 200 rows, 150 of them answered rightly."""
    labels = torch.arange(200) % 2
    answers = torch.where(torch.arange(200) < 150, labels, 1 - labels)
    ids, empty = torch.zeros(200, 1, dtype=torch.long), torch.empty(0, dtype=torch.long)
    metrics = ClassificationMetrics(["no", "yes"])
    metrics.add(Prediction(torch.eye(2)[answers]), Batch(ids, ids, None, torch.arange(200), empty, labels, None, 200))
    given = {
        "command": "train",
        "task": "sst2",
        "seed": 3,
        "parameters": {"total": 1_234_567, "encoder": 1_234_000, "head": 567},
        "splits": {"test": metrics.scores()},
        "baselines": {},
        "throughput": {},
        "checkpoint": {"step": 1_700, "chosen_by": "accuracy", "chosen_on": "validation"},
        "notes": [],
    }
    return build_report(**(given | changes))


def test_the_card_says_what_the_model_is_and_how_it_was_made():
    card = model_card(report_of(), ["no", "yes"])
    assert card.startswith("# encoderlab: sst2\n")
    assert "1,234,567 parameters" in card
    assert "task `sst2` with seed 3" in card
    assert "- Labels: no, yes\n" in card
    assert "- Weights after step 1,700, chosen by accuracy\n" in card
    assert "encoderlab predict run=" in card


def test_the_score_stands_with_its_split_its_interval_and_its_rows():
    report = report_of()
    low, high = report["splits"]["test"]["accuracy_ci95"]
    assert low < 0.75 < high
    expected = f"- accuracy on test: 0.7500 (95% interval {low:.4f} to {high:.4f}, 200 rows)\n"
    assert expected in model_card(report, ["no", "yes"])


def test_what_a_reader_should_know_is_on_the_card():
    card = model_card(report_of(notes=["2.0% of the rows of train were cut to model.max_length=8 tokens"]), ["no", "yes"])
    assert "\n- 2.0% of the rows of train were cut to model.max_length=8 tokens.\n" in card
    report = report_of(checkpoint={"step": 5, "chosen_by": "accuracy", "chosen_on": "test"})
    assert report["notes"]
    assert all(note.rstrip(".") + ".\n" in model_card(report, ["no", "yes"]) for note in report["notes"])


def test_of_many_labels_twenty_are_named():
    names = [f"label{number}" for number in range(31)]
    card = model_card(report_of(), names)
    assert "label0, label1," in card
    assert "label19, and 11 more\n" in card
    assert "label20" not in card
    assert "label19\n" in model_card(report_of(), names[:20])
