"""What scoring a split yields, and what anything that collects predictions to score can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from encoderlab.batch import Batch, Prediction
from encoderlab.errors import TrainingError
from encoderlab.metrics.intervals import bootstrap_totals, middle, middle_around


@dataclass(frozen=True, kw_only=True)
class SplitScores(ABC):
    """The scores of one split: `values` by name, of which a report puts `main` first.

    `n` counts rows, and `rows` are their positions in the split, rising. `intervals` are the 95% intervals that
    `with_intervals` adds.
    """

    n: int
    values: dict[str, float]
    rows: np.ndarray
    main: str
    intervals: dict[str, list[float]] = field(default_factory=dict)

    @abstractmethod
    def kinds(self, *others: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return what a row of each kind adds to the totals that scores are computed from, [kinds, sides, columns], and
        how many rows are of each kind. The first side are the own predictions, then come those of `others`.
        """

    @abstractmethod
    def scores_of(self, totals: np.ndarray) -> dict[str, np.ndarray]:
        """Return the scores by name, [...] each, from totals of `kinds`, [..., columns]."""

    def resampled(self, seed: int, *others: Any) -> np.ndarray:
        """Return the totals of the split and of each bootstrap split, [1 + RESAMPLES, sides, columns]. A row is drawn
        with the predictions of all sides.
        """
        return bootstrap_totals(*self.kinds(*others), seed)

    def with_intervals(self, seed: int) -> Self:
        """Return the same scores with 95% bootstrap intervals of those that `scores_of` computes."""
        totals = self.resampled(seed)[1:, 0]
        # Of all scores, a mean over classes alone is biased: see `middle_around`.
        intervals = {
            name: middle_around(self.values[name], drawn) if name == "f1_macro" else middle(drawn)
            for name, drawn in self.scores_of(totals).items()
            if name in self.values
        }
        return replace(self, intervals=intervals, **self.details_with_intervals(totals))

    def details_with_intervals(self, totals: np.ndarray) -> dict[str, Any]:
        """Return fields that hold the scores of single classes, with intervals from the totals of bootstrap splits."""
        return {}

    def details(self) -> dict[str, Any]:
        """Return what report.json holds besides the scores."""
        return {}

    def as_dict(self) -> dict[str, Any]:
        """Return the scores and their intervals as report.json holds them."""
        intervals = {f"{name}_ci95": bounds for name, bounds in self.intervals.items()}
        return {"n": self.n, **self.values, **intervals, **self.details()}


@dataclass(frozen=True, kw_only=True)
class PredictionScores(SplitScores):
    """The scores of a split with the labels and predictions of its rows, in the order of `rows`."""

    labels: Any
    predicted: Any

    @classmethod
    def of(cls, labels: Any, predicted: Any, **fields: Any) -> Self:
        """Return the scores that follow from labels and predictions alone, without probabilities."""
        n = len(labels)
        scores = cls(n=n, values={}, rows=np.arange(n), labels=labels, predicted=predicted, **fields)
        columns, counts = scores.kinds()
        by_name = scores.scores_of(np.tensordot(counts, columns[:, 0], 1))
        return replace(scores, values={name: float(score) for name, score in by_name.items()})

    def lead_over(self, predicted: Any, seed: int) -> tuple[float, list[float]]:
        """Return by how much the main score is better than that of other predictions, and the 95% interval.

        `predicted` holds the other predictions for all rows of the split. The bootstrap is paired: a row is drawn with
        both its predictions. Two methods that share their hard rows differ by less luck than their separate intervals
        suggest.
        """
        scores = self.scores_of(self.resampled(seed, self.on_scored_rows(predicted)))[self.main]
        lead = (scores[:, 0] - scores[:, 1]) * (-1.0 if is_lower_better(self.main) else 1.0)
        return float(lead[0]), middle(lead[1:])

    def on_scored_rows(self, predicted: Any) -> Any:
        """Return predictions for all rows of the split on the scored ones."""
        return np.asarray(predicted)[self.rows]


class Metrics(ABC):
    """Collects predictions batch by batch, in any order, and scores them once."""

    def __init__(self) -> None:
        self._kept: list[tuple[Tensor, ...]] = []  # of each batch, the columns that `scores` needs

    @abstractmethod
    def columns(self, prediction: Prediction, batch: Batch) -> tuple[Tensor, ...]:
        """Return what `scores` needs of the predictions for one batch, on their device and without waiting for it."""

    def keep(self, columns: tuple[Tensor, ...]) -> None:
        """Keep the `columns` of a batch."""
        self._kept.append(columns)

    def collected(self) -> list[tuple[Tensor, ...]]:
        """Return what was added, batch by batch, in a form that can be sent to another process."""
        return [tuple(column.cpu() for column in batch) for batch in self._kept]

    def replace(self, collected: list[tuple[Tensor, ...]]) -> None:
        """Replace what was added with the outputs of `collected`, of this process and others."""
        self._kept = list(collected)

    @abstractmethod
    def scores(self) -> SplitScores:
        """Score all that was added, in the order of the split. Raises TrainingError if a prediction is not a finite
        number.
        """

    def _columns(self) -> list[Tensor]:
        """Return each column that was kept, with all batches one after another."""
        assert self._kept, "nothing was added"
        return [torch.cat(column).cpu() for column in zip(*self._kept, strict=True)]


class TextMetrics(Metrics):
    """Collects the logits of each row: of a label, a set of labels or a number for the whole text."""

    def columns(self, prediction: Prediction, batch: Batch) -> tuple[Tensor, ...]:
        assert prediction.sequence_logits is not None, "only a model with a head for whole sequences can be scored here"
        assert batch.labels is not None, "only labelled examples can be scored"
        # A compiled model may overwrite these with its next output, hence the copy.
        return batch.rows, batch.labels, prediction.sequence_logits.detach().to(torch.float32, copy=True)

    def _in_order(self) -> tuple[np.ndarray, Tensor, Tensor]:
        """Return the rows' positions in their split, [n]; their targets, [n, ...], and their logits, [n, outputs]."""
        rows, targets, logits = self._columns()
        order, rows = in_order(rows)
        return rows, targets[order], logits[order]


def in_order(rows: Tensor) -> tuple[Tensor, np.ndarray]:
    """Return the order in which the rows' positions rise, and these positions: [n] each."""
    order = rows.argsort()
    assert bool((rows[order].diff() > 0).all()), "a row was added twice"
    return order, rows[order].numpy()


def is_lower_better(score: str) -> bool:
    """Return whether the least value of a score is the best."""
    return score.endswith(("loss", "perplexity", "mae", "rmse"))


def share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return part / whole; 0 if both are."""
    return part / np.maximum(whole, 1)


def f1_macro(hits: np.ndarray, occurrences: np.ndarray) -> np.ndarray:
    """Return F1 = 2 hits / (labels + predictions), averaged over the classes that occur: [..., classes] -> [...]."""
    return share(share(2 * hits, occurrences).sum(-1), (occurrences > 0).sum(-1))


def class_columns(right: np.ndarray, hits: np.ndarray, labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return what rows add to the totals of `class_scores`, [n, 2 + 3 classes]: 1 for each, 1 if all of it is `right`,
    and of each class the hits, labels and predictions.
    """
    return np.concatenate([np.ones((len(right), 1), np.int64), right[:, None], hits, labels, predicted], axis=1)


def class_scores(totals: np.ndarray, positive: int | None = None) -> dict[str, np.ndarray]:
    """Return the scores of classes, [...] each, from totals of `class_columns`, [..., columns].

    `accuracy` counts rows that are wholly right, `token_accuracy` single predictions. `f1` is that of the class
    `positive`, `f1_weighted` is weighted by how often each class is the label.
    """
    hits, labels, predicted = np.split(totals[..., 2:], 3, axis=-1)
    f1 = share(2 * hits, labels + predicted)
    scores = {
        "accuracy": share(totals[..., 1], totals[..., 0]),
        "token_accuracy": share(hits.sum(-1), labels.sum(-1)),
        "f1_macro": f1_macro(hits, labels + predicted),
        "f1_weighted": share((labels * f1).sum(-1), labels.sum(-1)),
        "matthews": _matthews(hits, labels, predicted),
    }
    return scores if positive is None else scores | {"f1": f1[..., positive]}


def _matthews(hits: np.ndarray, labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return the Matthews correlation of labels and predictions, for two or more classes (Gorodkin 2004, R_K), from
    counts by class.

    [..., classes] -> [...], from -1 to 1; 0 if all labels or all predictions are of one class, when it is undefined.
    """
    hits, labels, predicted = (counts.astype(np.float64) for counts in (hits, labels, predicted))
    n = labels.sum(-1)
    covariance = hits.sum(-1) * n - (labels * predicted).sum(-1)
    spread = (n**2 - (labels**2).sum(-1)) * (n**2 - (predicted**2).sum(-1))
    return np.where(spread > 0, covariance / np.sqrt(np.where(spread > 0, spread, 1.0)), 0.0)


def confusion(labels: np.ndarray, predicted: np.ndarray, names: Sequence[str]) -> list[list[int]]:
    """Return the confusion matrix of class ids [n]: a row for each true class, a column for each predicted one."""
    from sklearn.metrics import confusion_matrix

    return confusion_matrix(labels, predicted, labels=range(len(names))).tolist()


def per_class(labels: np.ndarray, predicted: np.ndarray, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return precision, recall, F1 and support of each class, zeros instead of divisions by zero; class ids are [n], of
    sets of labels 0 or 1 [n, classes].
    """
    from sklearn.metrics import precision_recall_fscore_support

    ids = range(len(names))
    zero: Any = 0  # scikit-learn has no types, and type checkers infer text from its default
    columns: Any = precision_recall_fscore_support(labels, predicted, labels=ids, zero_division=zero)
    keys = ("precision", "recall", "f1")
    return {
        name: {**{key: float(value) for key, value in zip(keys, values[:3], strict=True)}, "support": int(values[3])}
        for name, *values in zip(names, *columns, strict=True)
    }


def refuse_non_finite(losses: np.ndarray) -> None:
    """Raise TrainingError unless every loss is a finite number; losses are as good as logits here, and fewer."""
    broken = int((~np.isfinite(losses)).sum())
    if broken:
        raise TrainingError(
            f"The model's predictions are not finite numbers in {broken:,} of {len(losses):,} scored positions",
            remedy="Its weights have diverged: train with a lower training.learning_rate or a longer training.warmup",
        )
