"""Scores of pretraining: masked tokens and pairs of texts; how close a student's vectors are to its teacher's; and of
contrastive learning, whether the nearest label is right, and how far the vectors have moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy

from encoderlab.batch import Batch, Prediction
from encoderlab.errors import DataError
from encoderlab.metrics.scores import Metrics, SplitScores, columns_of_batches, in_order, refuse_non_finite, share


@dataclass(frozen=True, kw_only=True)
class PretrainingScores(SplitScores):
    """The scores of one split, and what was right in each of its rows.

    `n_targets` counts each row's target tokens and `hits` those predicted correctly, [n]; `token_labels` holds the
    labels of all target tokens, [targets]; `pairs_right` is True if the pair was predicted correctly, [n], and None if
    pairs were not predicted. Rows are drawn for intervals: the tokens of a sequence are not independent of one another.
    """

    n_targets: np.ndarray
    hits: np.ndarray
    token_labels: np.ndarray
    pairs_right: np.ndarray | None
    main_score: str = "mlm_accuracy"

    def kinds(self, *others: None) -> tuple[np.ndarray, np.ndarray]:
        pairs_right = np.zeros(self.n, np.int64) if self.pairs_right is None else self.pairs_right
        columns = np.stack([self.hits, self.n_targets, pairs_right, np.ones(self.n, np.int64)], axis=1)
        kinds, counts = np.unique(columns, axis=0, return_counts=True)
        return kinds[:, None], counts

    def scores_of(self, totals: np.ndarray) -> dict[str, np.ndarray]:
        return {
            "mlm_accuracy": share(totals[..., 0], totals[..., 1]),
            "nsp_accuracy": share(totals[..., 2], totals[..., 3]),
        }

    def sample_sizes(self, totals: np.ndarray) -> dict[str, float]:
        return dict.fromkeys(("mlm_accuracy", "nsp_accuracy"), float(self.n))


@dataclass(frozen=True)
class PretrainingMetrics(Metrics):
    """Scores predictions for target tokens, and for pairs: `pair_question` is what they answer (None: no pairs)."""

    pair_question: str | None

    def columns(self, prediction: Prediction, batch: Batch) -> tuple[Tensor, ...]:
        """Return the rows, [batch]; the row of each target token, its label, hit or not and its loss, [targets]; and
        hits and losses of the pairs, [batch], empty if pairs are not judged.
        """
        # Losses and hits, not logits: those would be tokens times the vocabulary.
        assert prediction.token_logits is not None, "only a model with a head for tokens can be scored here"
        assert batch.token_labels is not None, "only masked batches can be scored"
        labels = batch.token_labels.long()
        row = batch.rows[batch.target_positions // batch.input_ids.shape[1]]
        no_hits = batch.rows.new_empty(0, dtype=torch.bool)
        no_losses = batch.rows.new_empty(0, dtype=torch.float32)
        pairs = (no_hits, no_losses)
        if self.pair_question is not None:
            assert prediction.sequence_logits is not None, f"the model has no head for pairs: {self.pair_question}"
            assert batch.labels is not None, f"only labelled pairs can be scored: {self.pair_question}"
            pairs = _judged(prediction.sequence_logits, batch.labels.long())
        return batch.rows, row, labels, *_judged(prediction.token_logits, labels), *pairs

    def scores(self, kept: Sequence[tuple[Tensor, ...]]) -> PretrainingScores:
        """Return `mlm_loss` (mean cross entropy of a target token, in nats), `mlm_accuracy`, `mlm_perplexity` (e to the
        loss), `target_tokens`; for pairs `nsp_loss` and `nsp_accuracy`, for either question; and `loss`, the sum of
        both losses. Raises DataError if there was no target token.
        """
        all_rows, row, labels, hits, losses, pair_hits, pair_losses = columns_of_batches(kept)
        order, rows = in_order(all_rows)
        if not len(labels):
            raise DataError(f"None of the {len(rows):,} rows to be scored has a known token that could be masked")
        refuse_non_finite(torch.cat([losses, pair_losses]).numpy())
        mlm_loss = float(losses.double().mean())
        with np.errstate(over="ignore"):  # beyond 709 nats the perplexity is not finite, and the report says null
            perplexity = float(np.exp(mlm_loss))
        values = {"loss": mlm_loss, "mlm_loss": mlm_loss, "mlm_accuracy": float(hits.double().mean())}
        values |= {"mlm_perplexity": perplexity, "target_tokens": len(losses)}
        if len(pair_losses):
            nsp_loss = float(pair_losses.double().mean())
            values["loss"] = mlm_loss + nsp_loss
            values["nsp_loss"] = nsp_loss
            values["nsp_accuracy"] = float(pair_hits.double().mean())
        place = np.searchsorted(rows, row.numpy())
        return PretrainingScores(
            n=len(rows),
            values=values,
            rows=rows,
            n_targets=np.bincount(place, minlength=len(rows)),
            hits=np.bincount(place[hits.numpy()], minlength=len(rows)),
            token_labels=labels[row.argsort(stable=True)].numpy(),  # a row's positions are already in ascending order
            pairs_right=pair_hits[order].numpy() if self.pair_question else None,
        )


def _judged(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return whether the most probable class is right, and the cross entropy: [targets, classes] -> [targets] each."""
    logits = logits.detach().float()
    return logits.argmax(-1) == labels, cross_entropy(logits, labels, reduction="none")


@dataclass(frozen=True, kw_only=True)
class TeacherVectorsScores(SplitScores):
    """The scores of one split, and their cosines in each row, [n, 2]: of the whole text, and the mean of its tokens."""

    cosines: np.ndarray
    main_score: str = "sequence_cosine"

    def kinds(self, *others: None) -> tuple[np.ndarray, np.ndarray]:
        return self.cosines[:, None], np.ones(self.n, np.int64)

    def scores_of(self, totals: np.ndarray) -> dict[str, np.ndarray]:
        return {"sequence_cosine": totals[..., 0] / self.n, "token_cosine": totals[..., 1] / self.n}


class TeacherVectorsMetrics(Metrics):
    """Scores the cosines between the vectors of student and teacher."""

    def columns(self, prediction: Prediction, batch: Batch) -> tuple[Tensor, Tensor]:
        teacher = batch.teacher
        assert teacher is not None, "only a batch with a teacher's outputs can be scored"
        sequence = _cosine(prediction.sequence_vectors, teacher.sequence_vectors)
        token = _cosine(prediction.token_vectors, teacher.token_vectors)
        row = batch.target_positions // batch.input_ids.shape[1]
        sums = torch.zeros_like(sequence).index_add_(0, row, token)
        counts = torch.zeros_like(sequence).index_add_(0, row, torch.ones_like(token))
        return batch.rows, torch.stack([sequence, sums / counts], dim=1)

    def scores(self, kept: Sequence[tuple[Tensor, ...]]) -> TeacherVectorsScores:
        """Return `sequence_cosine`, `token_cosine`, and `loss`, the sum of both distances."""
        rows, cosines = columns_of_batches(kept)
        order, rows = in_order(rows)
        cosines = cosines[order].double().numpy()
        refuse_non_finite(cosines.sum(1))
        sequence, token = cosines.mean(0).tolist()
        values = {"loss": 2 - sequence - token, "sequence_cosine": sequence, "token_cosine": token}
        return TeacherVectorsScores(n=len(rows), values=values, rows=rows, cosines=cosines)


def _cosine(vectors: Tensor | None, targets: Tensor | None) -> Tensor:
    assert vectors is not None, "only a model with a head for a teacher's vectors can be scored here"
    assert targets is not None, "only a batch with a teacher's vectors can be scored"
    return cosine_similarity(vectors.detach().float(), targets.float(), dim=-1)


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
        rows, classes, now, before = columns_of_batches(kept)
        order, rows = in_order(rows)
        cosines = cosine_similarity(now, before, dim=-1)[order].double().numpy()
        refuse_non_finite(cosines)
        class_of_row = classes[order].numpy()
        right, can_be = nearest_is_right(now[order].numpy(), class_of_row, self.n_labels)
        right_before, _ = nearest_is_right(before[order].numpy(), class_of_row, self.n_labels)
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
        cosines = unit[rows] @ _unit_vectors(sums).T
        own = _unit_vectors(sums[label] - unit[rows])
        cosines[np.arange(len(rows)), label] = (unit[rows] * own).sum(1)
        can_be[rows] = counts[label] > 1
        right[rows] = can_be[rows] & (cosines.argmax(1) == label)
    return right, can_be


def _unit_vectors(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
