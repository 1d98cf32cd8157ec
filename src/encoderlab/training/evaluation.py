"""Evaluation: a model's answers over a whole split, scored once at the end."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import nn

from encoderlab.batch import Batch
from encoderlab.device import Compute

if TYPE_CHECKING:
    from encoderlab.metrics import Metrics, SplitScores


def evaluate(model: nn.Module, batches: Iterable[Batch], metrics: "Metrics", compute: Compute) -> "SplitScores":
    """Score `model` on `batches`, which hold each example of a split once, in any order."""
    model.eval()
    with torch.inference_mode():
        for batch in batches:
            with compute.autocast():
                prediction = model(batch)
            metrics.add(prediction, batch)
    return metrics.scores()
