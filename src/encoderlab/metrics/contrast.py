"""Scores of contrastive learning: whether the nearest label is right, and how far the vectors have moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor
from torch.nn.functional import cosine_similarity

from encoderlab.batch import Batch, Prediction
from encoderlab.metrics.scores import Metrics, SplitScores, in_order, joined, refuse_non_finite, share


@dataclass(frozen=True, kw_only=True)
class ContrastScores(SplitScores):
    """The scores of one split. `by_row` has for each row, [n, 4]: the cosine of its vector to the starting encoder's,
    whether the nearest label is right, whether it was before, and whether it could be (its label has another row).
    """

    by_row: np.ndarray
    main_score: str = "label_accuracy"

    def kinds(self, *others: None) -> tuple[np.ndarray, np.ndarray]:
        return self.by_row[:, None], np.ones(self.n, np.int64)

    def scores_of(self, totals: np.ndarray) -> dict[str, np.ndarray]:
        return {
            "label_accuracy": share(totals[..., 1], totals[..., 3]),
            "label_accuracy_before": share(totals[..., 2], totals[..., 3]),
            "sequence_cosine": totals[..., 0] / self.n,
        }


@dataclass(frozen=True)
class ContrastMetrics(Metrics):
    """Scores the vectors of rows by their classes: that of label i of set s is s * `n_labels` + i; unknown: -1."""

    n_labels: int

    def columns(self, prediction: Prediction, batch: Batch) -> tuple[Tensor, ...]:
        """Return the rows and their classes, [batch]; and their vectors now and before, [batch, d_model]."""
        assert prediction.sequence_vectors is not None, "only the vectors of an encoder can be scored here"
        assert batch.labels is not None and batch.teacher is not None, "only rows with old vectors can be scored"
        assert batch.teacher.sequence_vectors is not None
        now = prediction.sequence_vectors.detach().float()
        return batch.rows, batch.labels, now.clone(), batch.teacher.sequence_vectors.float()

    def scores(self, kept: Sequence[tuple[Tensor, ...]]) -> ContrastScores:
        """Return `label_accuracy`, the share of rows whose vector is nearest to the mean of the others of their label,
        among the labels of their set; `label_accuracy_before`, the same of the starting encoder's vectors;
        `sequence_cosine`, the mean cosine of both; and `loss`, one minus that.
        """
        rows, classes, now, before = joined(kept)
        order, rows = in_order(rows)
        cosines = cosine_similarity(now, before, dim=-1)[order].double().numpy()
        refuse_non_finite(cosines)
        of_rows = classes[order].numpy()
        right, can_be = nearest_is_right(now[order].numpy(), of_rows, self.n_labels)
        right_before, _ = nearest_is_right(before[order].numpy(), of_rows, self.n_labels)
        by_row = np.stack([cosines, right, right_before, can_be], axis=1)
        cosine = float(cosines.mean())
        n_scored = max(int(can_be.sum()), 1)
        values = {
            "loss": 1 - cosine,
            "label_accuracy": float(right.sum()) / n_scored,
            "label_accuracy_before": float(right_before.sum()) / n_scored,
            "sequence_cosine": cosine,
        }
        return ContrastScores(n=len(rows), values=values, rows=rows, by_row=by_row)


def nearest_is_right(vectors: np.ndarray, classes: np.ndarray, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return whether the mean of the other rows of its label is the nearest one to each row, and whether there are
    other rows of it: bool [rows] each.

    Compared by cosine with the means of the labels of its set: [rows, d_model], int64 [rows].
    """
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    right = np.zeros(len(unit), bool)
    can_be = np.zeros(len(unit), bool)
    set_of_row = np.where(classes < 0, -1, classes // max(n_labels, 1))
    for number in np.unique(set_of_row[set_of_row >= 0]):
        rows = np.flatnonzero(set_of_row == number)
        _, label, counts = np.unique(classes[rows], return_inverse=True, return_counts=True)
        sums = np.zeros((len(counts), unit.shape[1]))
        np.add.at(sums, label, unit[rows])
        cosines = unit[rows] @ _of_length_one(sums).T
        own = _of_length_one(sums[label] - unit[rows])
        cosines[np.arange(len(rows)), label] = (unit[rows] * own).sum(1)
        can_be[rows] = counts[label] > 1
        right[rows] = can_be[rows] & (cosines.argmax(1) == label)
    return right, can_be


def _of_length_one(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
