"""What scoring a split yields, and what anything that collects predictions to score can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from encoderlab.batch import Batch, Prediction
from encoderlab.errors import TrainingError
from encoderlab.metrics.intervals import bootstrap_totals, middle, middle_around, wilson
from encoderlab.metrics.own import OwnScore


@dataclass(frozen=True, kw_only=True)
class SplitScores(ABC):
    """The scores of one split: `values` by name, of which a report puts `main_score` first.

    `n` counts rows, and `rows` are their positions in the split, rising. `intervals` are the 95% intervals that
    `with_intervals` adds, None where nothing can be said.
    """

    n: int
    values: dict[str, float]
    rows: np.ndarray
    main_score: str
    intervals: dict[str, list[float] | None] = field(default_factory=dict)

    @abstractmethod
    def kinds(self, *others: Any) -> tuple[np.ndarray, np.ndarray]:
        """Group the rows that add the same to the totals (see `metrics.intervals`). Return what one row of each group
        adds, [kinds, sides, columns], and how many rows each group has, [kinds]. Side 0 holds the model's own
        predictions, the others those of `others`.
        """

    @abstractmethod
    def scores_of(self, totals: np.ndarray) -> dict[str, np.ndarray]:
        """Return the scores by name, [...] each, from totals of `kinds`, [..., columns]."""

    def with_intervals(self, seed: int) -> Self:
        """Return the same scores with 95% intervals of those that `scores_of` computes (see `metrics.intervals`)."""
        columns, counts = self.kinds()
        totals = bootstrap_totals(columns, counts, seed)[:, 0]
        own = totals[0]
        drawn = totals[1:]
        sizes = self.sample_sizes(own)
        intervals: dict[str, list[float] | None] = {}
        for name, scores in self.scores_of(drawn).items():
            if name in self.values:
                has_rows = counts.sum() > 1
                intervals[name] = _interval(name, self.values[name], scores, sizes.get(name)) if has_rows else None
        own_classes = self.counts_by_class(own)
        per_class = {}
        for name, (_, drawn_counts) in self.counts_by_class(drawn).items():
            _, own_counts = own_classes[name]
            per_class[name] = _with_f1_intervals(getattr(self, name), own_counts, drawn_counts)
        return replace(self, intervals=intervals, **per_class)

    def sample_sizes(self, totals: np.ndarray) -> dict[str, float]:
        """Return how many independent observations each score that is a proportion rests on, from totals, [columns]."""
        return {}

    def counts_by_class(self, totals: np.ndarray) -> dict[str, tuple[Sequence[str], np.ndarray]]:
        """Return single classes' names and counts, [..., 3, classes], by the field that holds their scores."""
        return {}

    def loss_of_frequencies(self, weights: np.ndarray | None = None) -> float | None:
        """Return the loss of predicting for every row how frequent each label is, times its weight in training's loss
        (None: all alike); None if it is not known.
        """
        return None

    def details(self) -> dict[str, Any]:
        """Return what report.json holds besides the scores."""
        return {}

    def undefined(self) -> dict[str, str]:
        """Return the scores that these rows leave undefined whatever is predicted, each with the reason."""
        return {}

    def as_dict(self) -> dict[str, Any]:
        """Return the scores and their intervals as report.json holds them; undefined ones are None."""
        undefined = self.undefined()
        values = self.values | dict.fromkeys(undefined)
        intervals = {f"{name}_ci95": None if name in undefined else own for name, own in self.intervals.items()}
        reasons = {"undefined": undefined} if undefined else {}
        return {"n": self.n, **values, **intervals, **reasons, **self.details()}


@dataclass(frozen=True, kw_only=True)
class PredictionScores(SplitScores):
    """The scores of a split with the labels and predictions of its rows, in the order of `rows`.

    `losses` are those of the rows, [n], if they are known. A score of one's `own` is among the values.
    """

    labels: Any
    predicted: Any
    losses: np.ndarray | None = None
    own: OwnScore | None = None

    def in_words(self, predicted: Any) -> Any:
        """Return labels or predictions as a score of one's own gets them."""
        return predicted

    @classmethod
    def from_predictions(
        cls, labels: Any, predicted: Any, *, rows: np.ndarray | None = None, loss: float | None = None, **fields: Any
    ) -> Self:
        """Return the scores that follow from labels and predictions, after the mean `loss` if it is known.

        `rows` are their positions in the split; None: these are all rows.
        """
        n = len(labels)
        places = np.arange(n) if rows is None else rows
        scores = cls(n=n, values={}, rows=places, labels=labels, predicted=predicted, **fields)
        columns, counts = scores.kinds()
        totals = np.tensordot(counts, columns[:, 0], 1)
        if loss is not None:
            scores.values["loss"] = loss
        scores.values.update((name, float(score)) for name, score in scores.scores_of(totals).items())
        if scores.own is not None:
            scores.values[scores.own.name] = scores.own.of(scores.in_words(labels), scores.in_words(predicted))
        by_field = {name: by_class(counts, names) for name, (names, counts) in scores.counts_by_class(totals).items()}
        return replace(scores, **by_field)

    def with_intervals(self, seed: int) -> Self:
        scored = super().with_intervals(seed)
        if self.own is not None and self.n > 1:
            drawn = self.own.drawn(self.in_words(self.labels), [self.in_words(self.predicted)], seed)
            bounds = middle(drawn[:, 0])
            scored.intervals[self.own.name] = bounds if bounds[0] < bounds[1] else None
        return scored

    def lead_over(self, predicted: Any, seed: int) -> tuple[float, list[float] | None]:
        """Return by how much the main score is better than that of other predictions, and the 95% interval: None of one
        row.

        `predicted` holds the other predictions for all rows of the split. The bootstrap is paired: a row is drawn with
        both its predictions, because two methods share their hard rows.
        """
        others = self.on_scored_rows(predicted)
        if self.own is not None and self.own.name == self.main_score:
            sides = [self.in_words(side) for side in (self.predicted, others)]
            labels = self.in_words(self.labels)
            own = [[self.own.of(labels, side) for side in sides]]
            scores = np.concatenate([own, self.own.drawn(labels, sides, seed)])
        else:
            columns, counts = self.kinds(others)
            scores = self.scores_of(bootstrap_totals(columns, counts, seed))[self.main_score]
        lead = (scores[:, 0] - scores[:, 1]) * (-1.0 if is_lower_better(self.main_score) else 1.0)
        return float(lead[0]), middle(lead[1:]) if self.n > 1 else None

    def on_scored_rows(self, predicted: Any) -> Any:
        """Return predictions for all rows of the split on the scored ones."""
        return np.asarray(predicted)[self.rows]


@dataclass(frozen=True, kw_only=True)
class ClassScores(PredictionScores):
    """The scores of predicted classes, those in NAMES; `per_class` has precision, recall, F1 and support of each.

    `accuracy` counts rows that are wholly right, `token_accuracy` single predictions. Macro F1 is the plain mean over
    the classes that occur as a label or a prediction (scikit-learn's rule): a class that a split does not have says
    nothing about the model. `f1_weighted` is weighted by how often each class is the label.
    """

    NAMES: ClassVar[tuple[str, ...]]
    label_names: list[str]
    per_class: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def confusion(self) -> list[list[int]]:
        """Return a row for each true class and a column for each predicted one."""
        from sklearn.metrics import confusion_matrix

        sides = (np.concatenate(side) if isinstance(side, list) else side for side in (self.labels, self.predicted))
        return confusion_matrix(*sides, labels=range(len(self.label_names))).tolist()

    def columns(self, right: np.ndarray, *counts: np.ndarray) -> np.ndarray:
        """Return 1 for each row, 1 if all is `right`, and `counts` (hits, labels, predictions), [..., classes]."""
        return np.concatenate([np.ones_like(right)[..., None], right[..., None], *counts], axis=-1, dtype=np.int64)

    def counts(self, totals: np.ndarray) -> np.ndarray:
        """Return hits, labels and predictions of each class: [..., 3, classes]."""
        classes = len(self.label_names)
        return totals[..., 2 : 2 + 3 * classes].reshape(*totals.shape[:-1], 3, classes)

    def scores_of(self, totals: np.ndarray) -> dict[str, np.ndarray]:
        counts = self.counts(totals)
        hits, labels, predicted = np.moveaxis(counts, -2, 0)
        f1 = precision_recall_f1(counts)["f1"]
        scores = {
            "accuracy": share(totals[..., 1], totals[..., 0]),
            "token_accuracy": share(hits.sum(-1), labels.sum(-1)),
            "f1_micro": share(2 * hits.sum(-1), (labels + predicted).sum(-1)),
            "f1_macro": share(f1.sum(-1), (labels + predicted > 0).sum(-1)),
            "f1_weighted": share((labels * f1).sum(-1), labels.sum(-1)),
            "matthews": _matthews(hits, labels, predicted),
            "cohen_kappa": _cohen_kappa(hits, labels, predicted),
            "subset_accuracy": share(totals[..., 1], totals[..., 0]),
        }
        return {name: scores[name] for name in self.NAMES}

    def sample_sizes(self, totals: np.ndarray) -> dict[str, float]:
        counts = self.counts(totals)
        sizes = dict.fromkeys(self.NAMES, float(totals[0]))
        sizes["f1_micro"] = f1_sample_size(counts.sum(-1))
        sizes["f1_macro"] = _macro_sample_size(counts)
        for correlation in ("matthews", "cohen_kappa"):  # which is no proportion
            sizes.pop(correlation, None)
        return sizes

    def counts_by_class(self, totals: np.ndarray) -> dict[str, tuple[Sequence[str], np.ndarray]]:
        return {"per_class": (self.label_names, self.counts(totals))}

    @property
    def occurring(self) -> list[str]:
        """Return the names of the classes that are the label of a row."""
        return [name for name, scores in self.per_class.items() if scores["support"]]

    def details(self) -> dict[str, Any]:
        return {"per_class": self.per_class, "confusion": self.confusion}


def cross_entropy_of_frequencies(ids: np.ndarray, n_classes: int, weights: np.ndarray | None) -> float:
    """Return the mean cross entropy, in nats, of class ids, [n], if their frequencies times `weights` are predicted."""
    shares = np.bincount(ids, minlength=n_classes) / max(len(ids), 1)
    predicted = shares if weights is None else shares * weights
    occurs = shares > 0
    predicted = predicted[occurs] / predicted.sum()
    return float(-(shares[occurs] * np.log(predicted)).sum())


class Metrics(ABC):
    """Scores predictions that were made batch by batch, in any order."""

    @abstractmethod
    def columns(self, prediction: Prediction, batch: Batch) -> tuple[Tensor, ...]:
        """Return what `scores` needs of the predictions for one batch, on their device and without waiting for it."""

    @abstractmethod
    def scores(self, kept: Sequence[tuple[Tensor, ...]]) -> SplitScores:
        """Score a split from the `columns` of its batches. Raises TrainingError if a prediction is not finite."""


def columns_of_batches(kept: Sequence[tuple[Tensor, ...]]) -> list[Tensor]:
    """Return each column on the CPU, with all batches one after another."""
    assert kept, "there are no batches"
    return [torch.cat(column).cpu() for column in zip(*kept, strict=True)]


class TextMetrics(Metrics):
    """Scores the logits of each row: of a label, a set of labels or a number for the whole text."""

    def columns(self, prediction: Prediction, batch: Batch) -> tuple[Tensor, ...]:
        assert prediction.sequence_logits is not None, "only a model with a head for whole sequences can be scored here"
        assert batch.labels is not None, "only labelled examples can be scored"
        # A compiled model may overwrite these with its next output, hence the copy.
        return batch.rows, batch.labels, prediction.sequence_logits.detach().to(torch.float32, copy=True)

    def _in_order(self, kept: Sequence[tuple[Tensor, ...]]) -> tuple[np.ndarray, Tensor, Tensor]:
        """Return the rows' positions in their split, [n]; their targets, [n, ...], and their logits, [n, outputs]."""
        rows, targets, logits = columns_of_batches(kept)
        order, rows = in_order(rows)
        return rows, targets[order], logits[order]


def in_order(rows: Tensor) -> tuple[Tensor, np.ndarray]:
    """Return the order in which the rows' positions rise, and these positions: [n] each."""
    order = rows.argsort()
    assert bool((rows[order].diff() > 0).all()), "a row was added twice"
    return order, rows[order].numpy()


SHARES = ("accuracy", "f1", "f_beta", "precision", "recall", "roc_auc", "average_precision_macro")


def is_lower_better(score: str) -> bool:
    """Return whether the least value of a score is the best."""
    return score.endswith(("loss", "perplexity", "mae", "rmse"))


def score_range(score: str) -> tuple[float, float]:
    """Return the least and the greatest value that a score can have."""
    if score in ("matthews", "cohen_kappa", "pearson", "spearman") or score.endswith("cosine"):
        return -1.0, 1.0
    if is_lower_better(score):
        return 0.0, float("inf")
    return (0.0, 1.0) if score.endswith(SHARES) or score.startswith("f1_") else (-float("inf"), float("inf"))


def within_range(score: str, bounds: Sequence[float] | None) -> list[float] | None:
    """Return an interval without values that the score cannot have."""
    if bounds is None:
        return None
    low, high = score_range(score)
    return [min(max(bound, low), high) for bound in bounds]


def share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return part / whole; 0 if both are."""
    return part / np.maximum(whole, 1)


def precision_recall_f1(counts: np.ndarray) -> dict[str, np.ndarray]:
    """Return precision, recall and F1, [..., classes], of hits, labels, predictions, [..., 3, classes]; 0 for 0 / 0."""
    hits, labels, predicted = np.moveaxis(counts, -2, 0)
    f1 = share(2 * hits, labels + predicted)
    return {"precision": share(hits, predicted), "recall": share(hits, labels), "f1": f1}


def by_class(counts: np.ndarray, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return precision, recall, F1 and support (how many labels) of each class, from counts [3, classes]."""
    scores = {**precision_recall_f1(counts), "support": counts[1].astype(int)}
    columns = zip(names, *(values.tolist() for values in scores.values()), strict=True)
    return {name: dict(zip(scores, values, strict=True)) for name, *values in columns}


def f1_sample_size(counts: np.ndarray) -> float:
    """Return how many observations an F1 rests on, from its hits, labels and predictions, [3]."""
    _, labels, predicted = counts.tolist()
    return (labels + predicted) / 2


def _macro_sample_size(counts: np.ndarray) -> float:
    """Return how many observations macro F1 rests on: the number for which a proportion varies as much as the mean over
    the classes that occur, from counts [3, classes].
    """
    sizes = counts[1:].sum(0) / 2
    sizes = sizes[sizes > 0]
    return float(len(sizes) ** 2 / (1 / sizes).sum()) if len(sizes) else 0.0


def _interval(name: str, score: float, drawn: np.ndarray, sample_size: float | None) -> list[float] | None:
    """Return the 95% interval of a score: Wilson's of a proportion of 0 or 1, otherwise the bootstrap's of the `drawn`
    scores, unless they are all the same.
    """
    if sample_size is not None and score in (0.0, 1.0):
        return wilson(score, sample_size)
    # Of all scores, a mean over classes alone is biased: see `middle_around`.
    bounds = middle_around(score, drawn) if name == "f1_macro" else middle(drawn)
    return bounds if bounds[0] < bounds[1] else None


def _with_f1_intervals(
    per_class: dict[str, dict[str, Any]], counts: np.ndarray, drawn: np.ndarray
) -> dict[str, dict[str, Any]]:
    """Return the scores of each class with the 95% interval of its F1, None for a class of fewer than two rows.

    `counts` are those of the split, [3, classes], and `drawn` those of the bootstrap splits, [splits, 3, classes].
    """
    with_intervals = {}
    drawn_f1 = precision_recall_f1(drawn)["f1"]
    for place, (name, scores) in enumerate(per_class.items()):
        bounds = None
        if scores["support"] > 1:
            bounds = _interval("f1", scores["f1"], drawn_f1[:, place], f1_sample_size(counts[:, place]))
        with_intervals[name] = scores | {"f1_ci95": bounds}
    return with_intervals


def _matthews(hits: np.ndarray, labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return the Matthews correlation of labels and predictions, for two or more classes (Gorodkin 2004, R_K), from
    counts by class.

    [..., classes] -> [...], from -1 to 1; 0 if all labels or all predictions are of one class, when it is undefined.
    """
    hits = hits.astype(np.float64)
    labels = labels.astype(np.float64)
    predicted = predicted.astype(np.float64)
    n = labels.sum(-1)
    covariance = hits.sum(-1) * n - (labels * predicted).sum(-1)
    spread = (n**2 - (labels**2).sum(-1)) * (n**2 - (predicted**2).sum(-1))
    is_defined = spread > 0
    return np.where(is_defined, covariance / np.sqrt(np.where(is_defined, spread, 1.0)), 0.0)


def _cohen_kappa(hits: np.ndarray, labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return Cohen's kappa of labels and predictions (Cohen 1960), from counts by class: [..., classes] -> [...].

    0 if chance alone would agree everywhere, when it is undefined.
    """
    n = np.maximum(labels.sum(-1), 1).astype(np.float64)
    observed = hits.sum(-1) / n
    by_chance = (labels.astype(np.float64) * predicted).sum(-1) / n**2
    is_defined = by_chance < 1
    return np.where(is_defined, (observed - by_chance) / np.where(is_defined, 1 - by_chance, 1.0), 0.0)


def refuse_non_finite(losses: np.ndarray) -> None:
    """Raise TrainingError unless every loss is a finite number; losses are as good as logits here, and fewer."""
    broken = int((~np.isfinite(losses)).sum())
    if broken:
        raise TrainingError(
            f"The model's predictions are not finite numbers in {broken:,} of {len(losses):,} scored positions",
            remedy="Its weights have diverged: train with a lower training.learning_rate or a longer training.warmup",
        )
