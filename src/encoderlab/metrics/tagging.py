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
    per_class_and_confusion,
    refuse_non_finite,
    with_bounds,
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
    per_entity: dict[str, dict[str, Any]]
    confidences: list[np.ndarray] | None
    label_names: list[str]

    def kinds(self, *predicted: Sequence[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
        columns = [columns_of(self.labels, side, self.label_names) for side in predicted]
        has_words = columns[0][:, 0] > 0
        return [side[has_words] for side in columns], np.ones(has_words.sum(), np.int64)

    def scores_of(self, totals: np.ndarray) -> dict[str, np.ndarray]:
        return scores_of_totals(totals, len(self.label_names))

    def parts_with_intervals(self, totals: np.ndarray) -> dict[str, Any]:
        f1 = ENTITY_SCORES["entity_f1"](np.moveaxis(_entities_of_totals(totals, len(self.label_names)), 1, 2))
        return {
            "per_entity": {
                name: scores | {"f1_ci95": middle(f1[:, kind])}
                for kind, (name, scores) in enumerate(self.per_entity.items())
            }
        }

    def on_scored_rows(self, predicted: Any) -> list[np.ndarray]:
        """Return the predictions for the scored rows, without those for words beyond the model's reach."""
        return [predicted[row][: len(labels)] for row, labels in zip(self.rows, self.labels, strict=True)]

    def as_dict(self) -> dict[str, Any]:
        entities = {"per_entity": self.per_entity} if self.per_entity else {}
        figures = with_bounds(self.figures, self.intervals)
        return {"n": self.n, **figures, **entities, "per_class": self.per_class, "confusion": self.confusion}


def columns_of(labels: Sequence[np.ndarray], predicted: Sequence[np.ndarray], names: Sequence[str]) -> np.ndarray:
    """Return what each sentence adds to the totals that scores are computed from: `class_columns`, with 0 instead of 1
    for one without words, and what `entity_counts` gives.
    """
    lengths = np.array([len(sentence) for sentence in labels], np.int64)
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    true, other = (np.concatenate([np.empty(0, np.int64), *side]) for side in (labels, predicted))
    hit = true == other

    def per_class(where: np.ndarray, ids: np.ndarray) -> np.ndarray:
        cells = sentence[where] * len(names) + ids[where]
        return np.bincount(cells, minlength=len(lengths) * len(names)).reshape(len(lengths), len(names))

    hits = per_class(hit, true)
    right = (hits.sum(1) == lengths) & (lengths > 0)
    columns = class_columns(right, hits, per_class(true >= 0, true), per_class(other >= 0, other))
    columns[:, 0] = lengths > 0
    scheme = entity_labels(names)
    entities = [] if scheme is None else [entity_counts(scheme, labels, predicted).reshape(len(lengths), -1)]
    return np.concatenate([columns, *entities], axis=1)


def _entities_of_totals(totals: np.ndarray, n_classes: int) -> np.ndarray:
    """Return entities rightly predicted, predicted and in truth: [splits, 3, types]."""
    return totals[:, 2 + 3 * n_classes :].reshape(len(totals), 3, -1)


def scores_of_totals(totals: np.ndarray, n_classes: int) -> dict[str, np.ndarray]:
    """Return the scores by name, [splits] each, from totals of `columns_of`, [splits, columns]."""
    scores = class_scores(totals[:, : 2 + 3 * n_classes])
    del scores["matthews"]
    if totals.shape[1] > 2 + 3 * n_classes:
        entities = _entities_of_totals(totals, n_classes).sum(2)
        scores |= {name: score(entities) for name, score in ENTITY_SCORES.items()}
    return scores


def tagging_scores(
    labels: Sequence[np.ndarray], predicted: Sequence[np.ndarray], names: Sequence[str], main: str
) -> TaggingScores:
    """Return the scores of predictions without probabilities, such as a baseline's: an array of class ids for each
    sentence.

    Over all target positions: `token_accuracy`, `f1_macro`, `f1_weighted`; `accuracy` is the share of sentences that
    are right at every one, among those with any. Where labels are BIO or BIOES also `entity_precision`,
    `entity_recall`, `entity_f1`.
    """
    totals = columns_of(labels, predicted, names).sum(0, keepdims=True)
    per_class, confusion = per_class_and_confusion(np.concatenate(labels), np.concatenate(predicted), names)
    entities = entity_labels(names)
    return TaggingScores(
        n=len(labels),
        figures={name: float(values[0]) for name, values in scores_of_totals(totals, len(names)).items()},
        per_class=per_class,
        confusion=confusion,
        per_entity={} if entities is None else _per_type(entities.types, _entities_of_totals(totals, len(names))[0]),
        rows=np.arange(len(labels)),
        labels=list(labels),
        predicted=list(predicted),
        confidences=None,
        label_names=list(names),
        main=main,
    )


def _per_type(types: Sequence[str], counts: np.ndarray) -> dict[str, dict[str, Any]]:
    """Return the scores of each type of entity, from its counts: [3, types]."""
    scores = {name.removeprefix("entity_"): score(counts.T).tolist() for name, score in ENTITY_SCORES.items()}
    return {
        name: {score: values[kind] for score, values in scores.items()} | {"support": int(counts[2, kind])}
        for kind, name in enumerate(types)
    }


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
        rows = kept.rows.sort().values.numpy()
        assert (np.diff(rows) > 0).all(), "an example was added twice"
        order = kept.row.argsort(stable=True)  # positions within a row are already in ascending order
        row, labels, predicted = kept.row[order].numpy(), kept.labels[order].numpy(), kept.predicted[order].numpy()
        losses = kept.losses.double().numpy()
        assert len(losses), "no position was a target"
        refuse_non_finite(losses)
        starts = np.searchsorted(row, rows[1:])
        confidences = np.split(kept.confidences[order].double().numpy(), starts)
        scores = tagging_scores(np.split(labels, starts), np.split(predicted, starts), self.labels, self.main)
        figures = {"loss": float(losses.mean()), **scores.figures}
        return replace(scores, figures=figures, rows=rows, confidences=confidences)
