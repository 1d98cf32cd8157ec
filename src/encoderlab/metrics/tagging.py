"""Scores of token classification: a prediction at each target position, and entities if the labels are BIO or BIOES."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor
from torch.nn.functional import cross_entropy

from encoderlab.batch import Batch, Prediction
from encoderlab.metrics.entities import ENTITY_SCORES, entity_counts, entity_labels
from encoderlab.metrics.intervals import middle
from encoderlab.metrics.scores import (
    Metrics,
    PredictionScores,
    class_columns,
    class_scores,
    confusion,
    in_order,
    per_class,
    refuse_non_finite,
)

Decode = Callable[[Tensor, Batch], Tensor]  # from the logits of a batch's target positions to label ids


@dataclass(frozen=True, kw_only=True)
class TaggingScores(PredictionScores):
    """The scores of one split. `labels` and `predicted` hold an array of class ids for each sentence, `confidences` the
    probability of each prediction, if known.

    `confusion` has a row for each true class and a column for each predicted one. `per_entity` has precision, recall,
    F1 and support (how many there are) of each type of entity; it is empty if labels are neither BIO nor BIOES.
    Sentences are drawn whole for intervals, because their words are not independent.
    """

    per_class: dict[str, dict[str, float]]
    confusion: list[list[int]]
    label_names: list[str]
    per_entity: dict[str, dict[str, Any]]
    confidences: list[np.ndarray] | None = None

    def kinds(self, *others: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        columns = [_columns(self.labels, side, self.label_names) for side in (self.predicted, *others)]
        has_words = columns[0][:, 0] > 0
        return np.stack(columns, axis=1)[has_words], np.ones(has_words.sum(), np.int64)

    def scores_of(self, totals: np.ndarray) -> dict[str, np.ndarray]:
        scores = class_scores(totals[..., : self._width])
        del scores["matthews"]
        if totals.shape[-1] > self._width:
            entities = self._entities(totals).sum(-1)
            scores |= {name: score(entities) for name, score in ENTITY_SCORES.items()}
        return scores

    @property
    def _width(self) -> int:
        return 2 + 3 * len(self.label_names)  # columns about classes, before those about entities

    def _entities(self, totals: np.ndarray) -> np.ndarray:
        """Return entities rightly predicted, predicted and in truth: [..., 3, types]."""
        return totals[..., self._width :].reshape(*totals.shape[:-1], 3, -1)

    def details_with_intervals(self, totals: np.ndarray) -> dict[str, Any]:
        f1 = ENTITY_SCORES["entity_f1"](np.moveaxis(self._entities(totals), 1, 2)).T
        entities = zip(self.per_entity.items(), f1, strict=True)
        return {"per_entity": {name: scores | {"f1_ci95": middle(drawn)} for (name, scores), drawn in entities}}

    def on_scored_rows(self, predicted: Any) -> list[np.ndarray]:
        """Return the predictions for the scored rows, without those for words beyond the model's reach."""
        return [predicted[row][: len(labels)] for row, labels in zip(self.rows, self.labels, strict=True)]

    def details(self) -> dict[str, Any]:
        entities = {"per_entity": self.per_entity} if self.per_entity else {}
        return {**entities, "per_class": self.per_class, "confusion": self.confusion}


def _columns(labels: Sequence[np.ndarray], predicted: Sequence[np.ndarray], names: Sequence[str]) -> np.ndarray:
    """Return what each sentence adds to the totals that scores are computed from: `class_columns`, with 0 instead of 1
    for one without words, and what `entity_counts` gives.
    """
    lengths = np.array([len(sentence) for sentence in labels], np.int64)
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    true, other = (np.concatenate([np.empty(0, np.int64), *side]) for side in (labels, predicted))
    hit = true == other

    def counted(where: np.ndarray, ids: np.ndarray) -> np.ndarray:
        cells = sentence[where] * len(names) + ids[where]
        return np.bincount(cells, minlength=len(lengths) * len(names)).reshape(len(lengths), len(names))

    hits = counted(hit, true)
    right = (hits.sum(1) == lengths) & (lengths > 0)
    columns = class_columns(right, hits, counted(true >= 0, true), counted(other >= 0, other))
    columns[:, 0] = lengths > 0
    scheme = entity_labels(names)
    entities = [] if scheme is None else [entity_counts(scheme, labels, predicted).reshape(len(lengths), -1)]
    return np.concatenate([columns, *entities], axis=1)


def tagging_scores(
    labels: Sequence[np.ndarray], predicted: Sequence[np.ndarray], names: Sequence[str], main: str
) -> TaggingScores:
    """Return the scores of an array of class ids for each sentence.

    Over all target positions: `token_accuracy`, `f1_macro`, `f1_weighted`; `accuracy` is the share of sentences that
    are right at every one, among those with any. Where labels are BIO or BIOES also `entity_precision`,
    `entity_recall`, `entity_f1`.
    """
    flat, flat_predicted = np.concatenate(labels), np.concatenate(predicted)
    entities, per_entity = entity_labels(names), {}
    if entities is not None:
        counts = entity_counts(entities, labels, predicted).sum(0)
        scores = {name.removeprefix("entity_"): score(counts.T).tolist() for name, score in ENTITY_SCORES.items()}
        for kind, name in enumerate(entities.types):
            own = {score: of_types[kind] for score, of_types in scores.items()}
            per_entity[name] = own | {"support": int(counts[2, kind])}
    return TaggingScores.of(
        list(labels),
        list(predicted),
        per_class=per_class(flat, flat_predicted, names),
        confusion=confusion(flat, flat_predicted, names),
        per_entity=per_entity,
        label_names=list(names),
        main=main,
    )


class _Kept(NamedTuple):
    """One batch: `rows` is [batch]; everything else is [targets], with `row` the example of each target."""

    rows: Tensor
    row: Tensor
    labels: Tensor
    predicted: Tensor
    losses: Tensor
    confidences: Tensor


class TaggingMetrics(Metrics):
    """Collects a prediction for each target position.

    `labels` names the classes in the order of their ids, `main` the score that a report puts first. `decode` picks the
    labels.
    """

    def __init__(self, labels: Sequence[str], main: str, decode: Decode) -> None:
        super().__init__()
        self.labels, self.main, self.decode = list(labels), main, decode

    def columns(self, prediction: Prediction, batch: Batch) -> _Kept:
        # Predictions, confidences and losses, not logits: those would be tokens times classes.
        assert prediction.token_logits is not None, "only a model with a head for tokens can be scored here"
        assert batch.token_labels is not None, "only labelled examples can be scored"
        logits, labels = prediction.token_logits.detach().float(), batch.token_labels.long()
        row = batch.rows[batch.target_positions // batch.input_ids.shape[1]]
        losses = cross_entropy(logits, labels, reduction="none")
        predicted = self.decode(logits, batch)
        of_predicted = logits.gather(1, predicted[:, None])[:, 0]
        confidences = (of_predicted - logits.logsumexp(-1)).exp().clamp(max=1)  # rounding may bring them a hair above
        return _Kept(batch.rows, row, labels, predicted, losses, confidences)

    def scores(self) -> TaggingScores:
        """Return `loss` (mean cross entropy of a target, in nats) and the scores of `tagging_scores`."""
        kept = _Kept(*self._columns())
        _, rows = in_order(kept.rows)
        order = kept.row.argsort(stable=True)  # positions within a row are already in ascending order
        losses = kept.losses.double().numpy()
        assert len(losses), "no position was a target"
        refuse_non_finite(losses)
        starts = np.searchsorted(kept.row[order].numpy(), rows[1:])
        columns = (kept.labels, kept.predicted, kept.confidences.double())
        labels, predicted, confidences = (np.split(column[order].numpy(), starts) for column in columns)
        scores = tagging_scores(labels, predicted, self.labels, self.main)
        values = {"loss": float(losses.mean()), **scores.values}
        return replace(scores, values=values, rows=rows, confidences=confidences)
