"""Scores of token classification: a prediction at each target position, and entities if the labels are BIO or BIOES."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor
from torch.nn.functional import cross_entropy

from encoderlab.batch import Batch, Prediction
from encoderlab.metrics.entities import ENTITY_SCORES, entity_counts, entity_labels
from encoderlab.metrics.intervals import class_score, lead_of_columns, middle, score_of_columns, totals_of_resamples
from encoderlab.metrics.scores import AnswerScores, Metrics, figures_by_class, refuse_non_finite, with_bounds

Decode = Callable[[Tensor, Batch], Tensor]  # from the logits of a batch's places to label ids


@dataclass(frozen=True, slots=True)
class TaggingScores(AnswerScores):
    """The figures of one split, and the answers they were computed from.

    `labels` and `predicted` hold an array of class ids for each sentence, in the order of `rows`, the sentences' places
    in their split; `confidences` the probability of each answer, if known. `confusion` has a row for each true class, a
    column for each predicted one. `per_entity` has precision, recall, F1 and support (how many there are) of each type
    of entity; it is empty if labels are neither BIO nor BIOES.
    """

    n: int
    figures: dict[str, float]
    per_class: dict[str, dict[str, float]]
    confusion: list[list[int]]
    per_entity: dict[str, dict[str, Any]]
    rows: np.ndarray
    labels: list[np.ndarray]
    predicted: list[np.ndarray]
    confidences: list[np.ndarray] | None
    label_names: list[str]
    main: str
    intervals: dict[str, list[float]] = field(default_factory=dict)

    def with_intervals(self, seed: int) -> TaggingScores:
        """Return the same scores with 95% bootstrap intervals, also of the F1 of each type of entity.

        A sentence is drawn whole, because its words are not independent.
        """
        columns = columns_of(self.labels, self.predicted, self.label_names)
        scored = columns[columns[:, 0] > 0]
        totals = totals_of_resamples(np.ones(len(scored), np.int64), scored, seed)
        found = scores_of_totals(totals, len(self.label_names))
        bounds = {name: middle(values) for name, values in found.items()}
        f1 = ENTITY_SCORES["entity_f1"](np.moveaxis(_entities_of_totals(totals, len(self.label_names)), 1, 2))
        by_type = {
            name: figures | {"f1_ci95": middle(f1[:, place])}
            for place, (name, figures) in enumerate(self.per_entity.items())
        }
        return replace(self, intervals=bounds, per_entity=by_type)

    def as_dict(self) -> dict[str, Any]:
        """See `SplitScores.as_dict`."""
        entities = {"per_entity": self.per_entity} if self.per_entity else {}
        figures = with_bounds(self.figures, self.intervals)
        return {"n": self.n, **figures, **entities, "per_class": self.per_class, "confusion": self.confusion}

    def lead_over(self, predicted: Any, seed: int) -> tuple[float, list[float]]:
        """See `AnswerScores.lead_over`; words beyond the model's reach have no prediction and are not compared."""
        other = [predicted[row][: len(labels)] for row, labels in zip(self.rows, self.labels, strict=True)]
        return self.lead_on_rows(other, seed)

    def lead_on_rows(self, other: Sequence[np.ndarray], seed: int) -> tuple[float, list[float]]:
        """Return the same for the predictions `other` on the labelled words of the scored rows, in their order."""
        sides = [columns_of(self.labels, side, self.label_names) for side in (self.predicted, other)]
        has_words = sides[0][:, 0] > 0
        return lead_of_columns([side[has_words] for side in sides], self._main_of_totals, seed)

    def score_on(self, places: np.ndarray, seed: int) -> tuple[float | None, list[float] | None]:
        """See `AnswerScores.score_on`."""
        labels, predicted = ([side[place] for place in places] for side in (self.labels, self.predicted))
        if not any(map(len, labels)):  # sentences without a word
            return None, None
        columns = columns_of(labels, predicted, self.label_names)
        return score_of_columns(columns[columns[:, 0] > 0], self._main_of_totals, seed)

    def _main_of_totals(self, totals: np.ndarray) -> np.ndarray:
        return scores_of_totals(totals, len(self.label_names))[self.main]


def columns_of(labels: Sequence[np.ndarray], predicted: Sequence[np.ndarray], names: Sequence[str]) -> np.ndarray:
    """Return what each sentence adds to the totals that scores are computed from: [sentences, 2 + 3 classes + 3 types].

    1 if it has any word, 1 if all are right, then of each class hits, labels and answers, and what `entity_counts`
    gives.
    """
    lengths = np.array([len(sentence) for sentence in labels], np.int64)
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    label, answer = (np.concatenate([np.empty(0, np.int64), *side]) for side in (labels, predicted))
    hit = label == answer

    def per_class(where: np.ndarray, ids: np.ndarray) -> np.ndarray:
        places = sentence[where] * len(names) + ids[where]
        return np.bincount(places, minlength=len(lengths) * len(names)).reshape(len(lengths), len(names))

    hits, by_label, by_answer = per_class(hit, label), per_class(label >= 0, label), per_class(answer >= 0, answer)
    counts = np.stack([lengths > 0, (hits.sum(1) == lengths) & (lengths > 0)], axis=1)
    found = entity_labels(names)
    entities = [] if found is None else [entity_counts(found, labels, predicted).reshape(len(lengths), -1)]
    return np.concatenate([counts, hits, by_label, by_answer, *entities], axis=1)


def _entities_of_totals(totals: np.ndarray, n_classes: int) -> np.ndarray:
    """Return entities rightly predicted, predicted and in truth: [splits, 3, types]."""
    return totals[:, 2 + 3 * n_classes :].reshape(len(totals), 3, -1)


def scores_of_totals(totals: np.ndarray, n_classes: int) -> dict[str, np.ndarray]:
    """Return the scores by name, [splits] each, from totals of `columns_of`, [splits, columns]."""
    of_classes = totals[:, : 2 + 3 * n_classes]
    found = {name: class_score(name)(of_classes) for name in ("token_accuracy", "accuracy", "f1_macro", "f1_weighted")}
    if totals.shape[1] > of_classes.shape[1]:
        entities = _entities_of_totals(totals, n_classes).sum(2)
        found |= {name: score(entities) for name, score in ENTITY_SCORES.items()}
    return found


def answered_words(
    labels: Sequence[np.ndarray], predicted: Sequence[np.ndarray], names: Sequence[str], main: str
) -> TaggingScores:
    """Return the scores of predictions without probabilities, such as a baseline's: an array of class ids for each
    sentence.

    Figures over all target positions: `token_accuracy`, `f1_macro`, `f1_weighted`; `accuracy` is the share of sentences
    answered rightly at every one, among those with any. Where labels are BIO or BIOES also `entity_precision`,
    `entity_recall`, `entity_f1`.
    """
    totals = columns_of(labels, predicted, names).sum(0, keepdims=True)
    by_class = figures_by_class(np.concatenate(labels), np.concatenate(predicted), names)
    figures = {name: float(values[0]) for name, values in scores_of_totals(totals, len(names)).items()}
    entities = entity_labels(names)
    return TaggingScores(
        n=len(labels),
        figures=figures,
        per_class=by_class["per_class"],
        confusion=by_class["confusion"],
        per_entity={} if entities is None else _by_type(entities.types, _entities_of_totals(totals, len(names))[0]),
        rows=np.arange(len(labels)),
        labels=list(labels),
        predicted=list(predicted),
        confidences=None,
        label_names=list(names),
        main=main,
    )


def _by_type(types: Sequence[str], counts: np.ndarray) -> dict[str, dict[str, Any]]:
    """Return the figures of each type of entity, from its counts: [3, types]."""
    found = {name.removeprefix("entity_"): score(counts.T).tolist() for name, score in ENTITY_SCORES.items()}
    return {
        name: {figure: values[place] for figure, values in found.items()} | {"support": int(counts[2, place])}
        for place, name in enumerate(types)
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
    """Collects an answer for each target position.

    `labels` names the classes in the order of their ids, `main` the figure that a report puts first. `decode` chooses
    the labels.
    """

    def __init__(self, labels: Sequence[str], main: str, decode: Decode) -> None:
        super().__init__()
        self.labels, self.main, self.decode = list(labels), main, decode

    def columns(self, prediction: Prediction, batch: Batch) -> _Kept:
        """See `Metrics.columns`. Returns predictions, confidences and losses, not logits: those would be tokens times
        classes.
        """
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
        """See `Metrics.scores`. Figures: `loss` (mean cross entropy of a place, in nats) and those of `answered_words`."""
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
        scores = answered_words(np.split(labels, starts), np.split(predicted, starts), self.labels, self.main)
        figures = {"loss": float(losses.mean()), **scores.figures}
        return replace(scores, figures=figures, rows=rows, confidences=confidences)
