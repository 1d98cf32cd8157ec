"""Scores of pretraining: the masked tokens, and whether the second text of a pair follows the first; and the vectors of
a student, which learns to reproduce its teacher's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy

from encoderlab.batch import Batch, Prediction
from encoderlab.errors import DataError
from encoderlab.metrics.intervals import interval_of_mean, interval_of_share
from encoderlab.metrics.scores import Metrics, refuse_non_finite, with_bounds


@dataclass(frozen=True, slots=True)
class PretrainingScores:
    """The scores of one split, and what was right in each of its rows.

    `n` counts rows. `rows` are their places in the split, rising. In that order `n_targets` counts each row's target
    tokens and `hits` those predicted correctly, [n]; `token_labels` holds the labels of all target tokens, [targets];
    `pairs_right` is True if the pair was predicted correctly, [n], and None if pairs were not predicted. `intervals`
    are the 95% intervals that `with_intervals` adds.
    """

    n: int
    figures: dict[str, float]
    rows: np.ndarray
    n_targets: np.ndarray
    hits: np.ndarray
    token_labels: np.ndarray
    pairs_right: np.ndarray | None
    intervals: dict[str, list[float]] = field(default_factory=dict)

    @property
    def main(self) -> str:
        """Return the name of the score that a report puts first."""
        return "mlm_accuracy"

    def with_intervals(self, seed: int) -> PretrainingScores:
        """Return the same scores with 95% bootstrap intervals of both accuracies.

        Rows are drawn, not tokens: the tokens of a sequence are not independent of one another.
        """
        intervals = {"mlm_accuracy": interval_of_share(self.hits, self.n_targets, seed)}
        if self.pairs_right is not None:
            intervals["nsp_accuracy"] = interval_of_share(
                self.pairs_right.astype(np.int64), np.ones(self.n, dtype=np.int64), seed
            )
        return replace(self, intervals=intervals)

    def as_dict(self) -> dict[str, Any]:
        return {"n": self.n, **with_bounds(self.figures, self.intervals)}


class _Kept(NamedTuple):
    """One batch: `rows` is [batch]; `row` (the row a token belongs to), `labels`, `hits` and `losses` are [targets].

    `pair_hits` and `pair_losses` are [batch], and empty if pairs are not judged.
    """

    rows: Tensor
    row: Tensor
    labels: Tensor
    hits: Tensor
    losses: Tensor
    pair_hits: Tensor
    pair_losses: Tensor


class PretrainingMetrics(Metrics):
    """Collects predictions for target tokens, and for pairs, with their question in `pair_question` (None: pairs not
    predicted).
    """

    def __init__(self, pair_question: str | None) -> None:
        super().__init__()
        self.pair_question = pair_question

    def columns(self, prediction: Prediction, batch: Batch) -> _Kept:
        # Losses and hits, not logits: those would be tokens times the vocabulary.
        assert prediction.token_logits is not None, "only a model with a head for tokens can be scored here"
        assert batch.token_labels is not None, "only masked batches can be scored"
        labels = batch.token_labels.long()
        hits, losses = _judged(prediction.token_logits, labels)
        row = batch.rows[batch.target_positions // batch.input_ids.shape[1]]
        pair_hits, pair_losses = self._pairs(prediction, batch)
        return _Kept(batch.rows, row, labels, hits, losses, pair_hits, pair_losses)

    def _pairs(self, prediction: Prediction, batch: Batch) -> tuple[Tensor, Tensor]:
        if self.pair_question is None:
            return batch.rows.new_empty(0, dtype=torch.bool), batch.rows.new_empty(0, dtype=torch.float32)
        assert prediction.sequence_logits is not None, (
            f"only a model with a head for pairs can be scored here: {self.pair_question}"
        )
        assert batch.labels is not None, f"only labelled pairs can be scored: {self.pair_question}"
        return _judged(prediction.sequence_logits, batch.labels.long())

    def scores(self) -> PretrainingScores:
        """Return `mlm_loss` (mean cross entropy of a target token, in nats), `mlm_accuracy`, `mlm_perplexity` (e to the
        loss), `target_tokens`; for pairs `nsp_loss` and `nsp_accuracy`, for either question; and `loss`, the sum of
        both losses. Raises DataError if there was no target token.
        """
        kept = _Kept(*self._columns())
        order = kept.rows.argsort()
        rows = kept.rows[order].numpy()
        assert (np.diff(rows) > 0).all(), "a row was added twice"
        if not len(kept.labels):
            raise DataError(f"None of the {len(rows):,} rows to be scored has a known token that could be masked")
        place = np.searchsorted(rows, kept.row.numpy())
        by_row = kept.row.argsort(stable=True)  # positions within a row are already in ascending order
        return PretrainingScores(
            n=len(rows),
            figures=_figures(kept),
            rows=rows,
            n_targets=np.bincount(place, minlength=len(rows)),
            hits=np.bincount(place[kept.hits.numpy()], minlength=len(rows)),
            token_labels=kept.labels[by_row].numpy(),
            pairs_right=kept.pair_hits[order].numpy() if self.pair_question else None,
        )


def _judged(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return whether the most probable class is the right one, and the cross entropy: [targets, classes] -> [targets]
    each.
    """
    logits = logits.detach().float()
    return logits.argmax(-1) == labels, cross_entropy(logits, labels, reduction="none")


def _figures(kept: _Kept) -> dict[str, float]:
    losses, pair_losses = kept.losses.double().numpy(), kept.pair_losses.double().numpy()
    refuse_non_finite(np.concatenate([losses, pair_losses]))
    mlm_loss = float(losses.mean())
    with np.errstate(over="ignore"):  # beyond 709 nats the perplexity is not finite, and the report says null
        perplexity = float(np.exp(mlm_loss))
    figures = {
        "loss": mlm_loss,
        "mlm_loss": mlm_loss,
        "mlm_accuracy": float(kept.hits.double().mean()),
        "mlm_perplexity": perplexity,
        "target_tokens": len(losses),
    }
    if len(pair_losses):
        nsp_loss = float(pair_losses.mean())
        figures |= {
            "loss": mlm_loss + nsp_loss,
            "nsp_loss": nsp_loss,
            "nsp_accuracy": float(kept.pair_hits.double().mean()),
        }
    return figures


@dataclass(frozen=True, slots=True)
class TeacherVectorsScores:
    """The scores of one split, and each row's cosines they are means of: `sequence` and `token` (a mean itself), [n]
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
        """Return the name of the score that a report puts first."""
        return "sequence_cosine"

    def with_intervals(self) -> TeacherVectorsScores:
        """Return the same scores with 95% intervals over rows."""
        intervals = {f"{name}_cosine": interval_of_mean(getattr(self, name)) for name in ("sequence", "token")}
        return replace(self, intervals=intervals)

    def as_dict(self) -> dict[str, Any]:
        return {"n": self.n, **with_bounds(self.figures, self.intervals)}


class _KeptVectors(NamedTuple):
    """One batch: its `rows`, and for each row the cosine of the whole text and the mean over its tokens:
    [batch] each.
    """

    rows: Tensor
    sequence: Tensor
    token: Tensor


class TeacherVectorsMetrics(Metrics):
    """Collects cosines between the vectors of student and teacher."""

    def columns(self, prediction: Prediction, batch: Batch) -> _KeptVectors:
        targets = batch.targets
        assert targets is not None, "only a batch with a teacher's targets can be scored"
        sequence = _cosine(prediction.sequence_vectors, targets.sequence_vectors)
        token = _cosine(prediction.token_vectors, targets.token_vectors)
        row = batch.target_positions // batch.input_ids.shape[1]
        sums, counts = (torch.zeros_like(sequence).index_add_(0, row, some) for some in (token, torch.ones_like(token)))
        return _KeptVectors(batch.rows, sequence, sums / counts)

    def scores(self) -> TeacherVectorsScores:
        """Return `sequence_cosine`, `token_cosine`, and `loss`, the sum of both distances."""
        kept = _KeptVectors(*self._columns())
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
