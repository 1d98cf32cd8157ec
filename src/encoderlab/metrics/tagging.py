"""Scores of token classification: a prediction at each target position, and entities if the labels are BIO or BIOES."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch import Tensor
from torch.nn.functional import cross_entropy

from encoderlab.batch import Batch, Prediction
from encoderlab.metrics.entities import entity_counts, entity_labels
from encoderlab.metrics.scores import ClassScores, Metrics, in_order, precision_recall_f1, refuse_non_finite

Decode = Callable[[Tensor, Batch], Tensor]  # from the logits of a batch's target positions to label ids


@dataclass(frozen=True, kw_only=True)
class TaggingScores(ClassScores):
    """The scores of one split. `labels` and `predicted` hold an array of class ids for each sentence, `confidences` the
    probability of each prediction, if known.

    Over all target positions: `token_accuracy`, `f1_macro`, `f1_weighted`; `accuracy` is the share of sentences that
    are right at every one, among those with any. Where labels are BIO or BIOES also `entity_precision`,
    `entity_recall`, `entity_f1`, and `per_entity` has them and the support (how many there are) of each type of entity.
    Sentences are drawn whole for intervals, because their words are not independent.
    """

    NAMES = ("accuracy", "token_accuracy", "f1_macro", "f1_weighted")
    per_entity: dict[str, dict[str, Any]] = field(default_factory=dict)
    confidences: list[np.ndarray] | None = None

    def kinds(self, *others: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        has_words = np.array([len(sentence) > 0 for sentence in self.labels], bool)
        columns = [self._columns(side)[has_words] for side in (self.predicted, *others)]
        return np.stack(columns, axis=1), np.ones(has_words.sum(), np.int64)

    def _columns(self, predicted: Sequence[np.ndarray]) -> np.ndarray:
        """Return what each sentence adds to the totals: the columns of classes, and what `entity_counts` gives."""
        lengths, classes = np.array([len(sentence) for sentence in self.labels], np.int64), len(self.label_names)
        sentence = np.repeat(np.arange(len(lengths)), lengths)
        true, other = (np.concatenate([np.empty(0, np.int64), *side]) for side in (self.labels, predicted))

        def counted(where: np.ndarray, ids: np.ndarray) -> np.ndarray:
            cells = sentence[where] * classes + ids[where]
            return np.bincount(cells, minlength=len(lengths) * classes).reshape(len(lengths), classes)

        hits = counted(true == other, true)
        columns = self.columns(hits.sum(1) == lengths, hits, counted(true >= 0, true), counted(other >= 0, other))
        scheme = entity_labels(self.label_names)
        entities = [] if scheme is None else [entity_counts(scheme, self.labels, predicted).reshape(len(lengths), -1)]
        return np.concatenate([columns, *entities], axis=1)

    def _entities(self, totals: np.ndarray) -> np.ndarray:
        """Return rightly predicted, true and predicted entities of each type: [..., 3, types]."""
        return totals[..., 2 + 3 * len(self.label_names) :].reshape(*totals.shape[:-1], 3, -1)

    def scores_of(self, totals: np.ndarray) -> dict[str, np.ndarray]:
        scores, entities = super().scores_of(totals), self._entities(totals)
        if entities.size:
            of_all = precision_recall_f1(entities.sum(-1, keepdims=True))
            scores |= {f"entity_{name}": score[..., 0] for name, score in of_all.items()}
        return scores

    def of_classes(self, totals: np.ndarray) -> dict[str, tuple[Sequence[str], np.ndarray]]:
        scheme = entity_labels(self.label_names)
        entities = {} if scheme is None else {"per_entity": (scheme.types, self._entities(totals))}
        return super().of_classes(totals) | entities

    def on_scored_rows(self, predicted: Any) -> list[np.ndarray]:
        """Return the predictions for the scored rows, without those for words beyond the model's reach."""
        return [predicted[row][: len(labels)] for row, labels in zip(self.rows, self.labels, strict=True)]

    def details(self) -> dict[str, Any]:
        return {**({"per_entity": self.per_entity} if self.per_entity else {}), **super().details()}


class TaggingMetrics(Metrics):
    """Collects a prediction for each target position.

    `labels` names the classes in the order of their ids, `main_score` the score that a report puts first. `decode`
    picks the labels.
    """

    def __init__(self, labels: Sequence[str], main_score: str, decode: Decode) -> None:
        super().__init__()
        self.labels, self.main_score, self.decode = list(labels), main_score, decode

    def columns(self, prediction: Prediction, batch: Batch) -> tuple[Tensor, ...]:
        """Return the rows, [batch]; the row of each target, its label, prediction, loss and confidence, [targets]."""
        # Predictions, confidences and losses, not logits: those would be tokens times classes.
        assert prediction.token_logits is not None, "only a model with a head for tokens can be scored here"
        assert batch.token_labels is not None, "only labelled examples can be scored"
        logits, labels = prediction.token_logits.detach().float(), batch.token_labels.long()
        row = batch.rows[batch.target_positions // batch.input_ids.shape[1]]
        losses = cross_entropy(logits, labels, reduction="none")
        predicted = self.decode(logits, batch)
        of_predicted = logits.gather(1, predicted[:, None])[:, 0]
        confidences = (of_predicted - logits.logsumexp(-1)).exp().clamp(max=1)  # rounding may bring them a hair above
        return (batch.rows, row, labels, predicted, losses, confidences)

    def scores(self) -> TaggingScores:
        """Return `loss` (mean cross entropy of a target, in nats) and the scores of `TaggingScores`."""
        all_rows, row, labels, predicted, losses, confidences = self._columns()
        _, rows = in_order(all_rows)
        order = row.argsort(stable=True)  # positions within a row are already in ascending order
        assert len(losses), "no position was a target"
        refuse_non_finite(losses.numpy())
        starts = np.searchsorted(row[order].numpy(), rows[1:])
        columns = (np.split(column[order].numpy(), starts) for column in (labels, predicted, confidences.double()))
        of_labels, of_predictions, of_confidences = columns
        scores = TaggingScores.of(of_labels, of_predictions, label_names=self.labels, main_score=self.main_score)
        values = {"loss": float(losses.double().mean()), **scores.values}
        return replace(scores, values=values, rows=rows, confidences=of_confidences)
