"""Rows with a teacher's logits in addition to their labels: what a student of a task learns from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch

from encoderlab.batch import Batch, Targets
from encoderlab.tasks.rows import ExampleRows


class RowLogits(Protocol):
    """A teacher's logits for the rows of a split."""

    def of(self, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Return the first `counts` outputs of each of `rows`, one row after another: [outputs, classes]."""
        ...


@dataclass(frozen=True, slots=True)
class TaughtRows:
    """`rows`, the same in every epoch, each batch with its teacher's logits as targets.

    `temperature` softens both distributions; the teacher has the `weight` in the loss, and the labels have the rest.
    """

    rows: ExampleRows
    logits: RowLogits
    temperature: float
    weight: float

    @property
    def lengths(self) -> np.ndarray:
        """See `Epoch.lengths`."""
        return self.rows.lengths

    def __len__(self) -> int:
        return len(self.rows)

    def epoch(self, seed: int, epoch: int) -> TaughtRows:
        """See `Rows.epoch`: nothing is drawn."""
        return self

    def truncated_share(self) -> float:
        """See `Rows.truncated_share`."""
        return self.rows.truncated_share()

    def gather(self, rows: np.ndarray, pad_id: int) -> Batch:
        """See `Epoch.gather`."""
        return self.rows.gather(rows, pad_id)

    def prepare(self, batch: Batch) -> Batch:
        """See `Epoch.prepare`: adds the teacher's logits."""
        rows = batch.rows.cpu().numpy()
        tagging = batch.labels is None and batch.token_labels is not None
        counts = np.ones(len(rows), dtype=np.int64)
        if tagging:
            counts = np.bincount(
                (batch.target_positions // batch.input_ids.shape[1]).cpu().numpy(), minlength=len(rows)
            )
        logits = torch.from_numpy(self.logits.of(rows, counts)).to(batch.input_ids.device)
        shared = Targets(temperature=self.temperature, sequence_weight=self.weight, token_weight=self.weight)
        targets = replace(shared, token_logits=logits) if tagging else replace(shared, sequence_logits=logits)
        return replace(batch, targets=targets)
