"""Scores of a student's vectors: how close they are to its teacher's, for whole texts and for single tokens."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from encoderlab.batch import Batch, Prediction
from encoderlab.metrics.intervals import interval_of_mean
from encoderlab.metrics.scores import Metrics, refuse_non_finite, with_bounds


@dataclass(frozen=True, slots=True)
class TeacherVectorsScores:
    """The figures of one split, and each row's cosines they are means of: `sequence` and `token` (a mean itself), [n]
    each.
    """

    n: int
    figures: dict[str, float]
    rows: np.ndarray
    sequence: np.ndarray
    token: np.ndarray
    intervals: dict[str, list[float]] = field(default_factory=dict)

    @property
    def main(self) -> str:
        """Return the main figure of a report."""
        return "sequence_cosine"

    def with_intervals(self) -> TeacherVectorsScores:
        """Return the same scores with 95% intervals over rows."""
        intervals = {f"{name}_cosine": interval_of_mean(getattr(self, name)) for name in ("sequence", "token")}
        return replace(self, intervals=intervals)

    def as_dict(self) -> dict[str, Any]:
        """See `SplitScores.as_dict`."""
        return {"n": self.n, **with_bounds(self.figures, self.intervals)}


class _Kept(NamedTuple):
    """One batch: its `rows`, and for each row the cosine of the whole text and the mean over its tokens: [batch] each."""

    rows: Tensor
    sequence: Tensor
    token: Tensor


class TeacherVectorsMetrics(Metrics):
    """Collects cosines between the vectors of student and teacher."""

    def columns(self, prediction: Prediction, batch: Batch) -> _Kept:
        """See `Metrics.columns`."""
        targets = batch.targets
        assert targets is not None, "only a batch with a teacher's answers can be scored"
        sequence = _cosine(prediction.sequence_vectors, targets.sequence_vectors)
        token = _cosine(prediction.token_vectors, targets.token_vectors)
        row = batch.target_positions // batch.input_ids.shape[1]
        sums, counts = (torch.zeros_like(sequence).index_add_(0, row, some) for some in (token, torch.ones_like(token)))
        return _Kept(batch.rows, sequence, sums / counts)

    def scores(self) -> TeacherVectorsScores:
        """See `Metrics.scores`. Figures: `sequence_cosine`, `token_cosine`, and `loss`, the sum of both distances."""
        kept = _Kept(*self._columns())
        order = kept.rows.argsort()
        sequence, token = (column[order].double().numpy() for column in (kept.sequence, kept.token))
        refuse_non_finite(sequence + token)
        figures = {"loss": float(2 - sequence.mean() - token.mean())}
        figures |= {"sequence_cosine": float(sequence.mean()), "token_cosine": float(token.mean())}
        return TeacherVectorsScores(len(order), figures, kept.rows[order].numpy(), sequence, token)


def _cosine(vectors: Tensor | None, targets: Tensor | None) -> Tensor:
    assert vectors is not None, "only a model with a head for a teacher's vectors can be scored here"
    assert targets is not None, "only a batch with a teacher's vectors can be scored"
    return cosine_similarity(vectors.detach().float(), targets.float(), dim=-1)
