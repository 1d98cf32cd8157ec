"""Scores of token classification: an answer for each asked place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from encoderlab.batch import Batch, Prediction
from encoderlab.metrics.scores import Scores, figures_by_class, refuse_non_finite


class _Kept(NamedTuple):
    """One batch: `rows` is [batch]; all else is [asked], `row` being the example a place belongs to."""

    rows: Tensor
    row: Tensor
    labels: Tensor
    predicted: Tensor
    losses: Tensor
    confidences: Tensor


class TaggingMetrics:
    """Collects an answer for each asked place. `labels` names the classes in the order of their ids."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = list(labels)
        self._kept: list[_Kept] = []

    def add(self, prediction: Prediction, batch: Batch) -> None:
        """See `Metrics.add`. Keeps answers, confidences and losses, not logits: those would be as many as tokens times classes."""
        assert prediction.token_logits is not None, "only a model with a head for tokens can be scored here"
        assert batch.token_labels is not None, "only labelled examples can be scored"
        logits, labels = prediction.token_logits.detach().float(), batch.token_labels.long()
        row = batch.rows[batch.target_positions // batch.input_ids.shape[1]]
        losses = cross_entropy(logits, labels, reduction="none")
        highest, predicted = logits.max(-1)
        confidences = (highest - logits.logsumexp(-1)).exp().clamp(max=1)  # rounding may bring them a hair above
        self._kept.append(_Kept(batch.rows, row, labels, predicted, losses, confidences))

    def collected(self) -> list[_Kept]:
        """See `Metrics.collected`."""
        return [_Kept(*(column.cpu() for column in batch)) for batch in self._kept]

    def replace(self, collected: list[_Kept]) -> None:
        """See `Metrics.replace`."""
        self._kept = list(collected)

    def scores(self) -> Scores:
        """See `Metrics.scores`.

        Figures over all asked places: `loss` (mean cross entropy of a place, in nats), `token_accuracy`, `f1_macro`, `f1_weighted`.
        `accuracy` is the share of sequences answered rightly at every asked place, among those with any.
        """
        assert self._kept, "nothing was added"
        kept = _Kept(*(torch.cat(column).cpu() for column in zip(*self._kept, strict=True)))
        rows = kept.rows.sort().values.numpy()
        assert (np.diff(rows) > 0).all(), "an example was added twice"
        order = kept.row.argsort(stable=True)  # places within a row come in rising order already
        row, labels, predicted = kept.row[order].numpy(), kept.labels[order].numpy(), kept.predicted[order].numpy()
        losses = kept.losses.double().numpy()
        assert len(losses), "no place was asked"
        refuse_non_finite(losses)
        starts = np.searchsorted(row, rows[1:])
        confidences = np.split(kept.confidences[order].double().numpy(), starts)
        scored = self._scored(rows, np.split(labels, starts), np.split(predicted, starts), float(losses.mean()))
        return replace(scored, confidences=confidences)

    def _scored(self, rows: np.ndarray, labels: list[np.ndarray], predicted: list[np.ndarray], loss: float) -> Scores:
        flat_labels, flat_predicted = np.concatenate(labels), np.concatenate(predicted)
        by_class = figures_by_class(flat_labels, flat_predicted, self.labels)
        wholly_right = [(a == b).all() for a, b in zip(labels, predicted, strict=True) if len(a)]
        figures = {
            "loss": loss,
            "token_accuracy": float((flat_labels == flat_predicted).mean()),
            "accuracy": float(np.mean(wholly_right)),
            "f1_macro": by_class["f1_macro"],
            "f1_weighted": by_class["f1_weighted"],
        }
        per_class, confusion = by_class["per_class"], by_class["confusion"]
        return Scores(len(rows), figures, per_class, confusion, rows, labels, predicted, None, self.labels)
