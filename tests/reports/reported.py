"""A report on 200 rows, 150 of them predicted correctly."""

from dataclasses import replace

import torch

from encoderlab.batch import Batch, Prediction
from encoderlab.metrics import ClassificationMetrics
from encoderlab.reports.parts.run_report import RunSummary
from encoderlab.reports.training.report import build_report


def report_of(baselines=None, **changes):
    """Return a report on 200 rows, 150 of them predicted correctly."""
    labels = torch.arange(200) % 2
    answers = torch.where(torch.arange(200) < 150, labels, 1 - labels)
    ids, empty = torch.zeros(200, 1, dtype=torch.long), torch.empty(0, dtype=torch.long)
    metrics = ClassificationMetrics(["no", "yes"])
    metrics.add(Prediction(torch.eye(2)[answers]), Batch(ids, ids, None, torch.arange(200), empty, labels, None, 200))
    run = RunSummary(
        command="train",
        task="sst2",
        seed=3,
        parameters={"total": 1_234_567, "encoder": 1_234_000, "head": 567},
        throughput={},
        checkpoint={"step": 1_700, "chosen_by": "accuracy", "chosen_on": "validation"},
    )
    return build_report(replace(run, **changes), {"test": metrics.scores()}, baselines or {})
