"""What scoring a split yields, and what anything that collects predictions to score can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from encoderlab.batch import Batch, Prediction
from encoderlab.errors import TrainingError
from encoderlab.metrics.intervals import (
    f1_macro,
    f1_of,
    f1_weighted,
    matthews,
    middle,
    middle_around,
    totals_of_resamples,
)

WITHOUT_WARNING: Any = 0  # `zero_division`: scikit-learn has no types, and type checkers infer text from its default


class SplitScores(Protocol):
    """What any kind of scores has: `n` rows, the scores by name in `figures`, and which of them is the main one."""

    @property
    def n(self) -> int: ...

    @property
    def figures(self) -> dict[str, float]: ...

    @property
    def main(self) -> str: ...

    def as_dict(self) -> dict[str, Any]:
        """Return the scores as report.json holds them."""
        ...


@dataclass(frozen=True, kw_only=True)
class PredictionScores(ABC):
    """The scores of one split, with the labels and predictions of its rows.

    `n` counts examples. `figures` holds the scores by name, `intervals` the 95% intervals that `with_intervals` adds,
    and `main` names the score that a report puts first. `rows` are the examples' positions in their split, rising;
    `labels` and `predicted` are in that order.
    """

    n: int
    figures: dict[str, float]
    rows: np.ndarray
    labels: Any
    predicted: Any
    main: str
    intervals: dict[str, list[float]] = field(default_factory=dict)

    @abstractmethod
    def kinds(self, *predicted: Any) -> tuple[list[np.ndarray], np.ndarray]:
        """Return what an example of each kind adds to the totals that scores are computed from, [kinds, columns], for
        each of the `predicted`; and how many examples there are of each kind.
        """

    @abstractmethod
    def scores_of(self, totals: np.ndarray) -> dict[str, np.ndarray]:
        """Return the scores by name, [splits] each, from totals of `kinds`, [splits, columns]."""

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Return the scores as report.json holds them."""

    def parts_with_intervals(self, totals: np.ndarray) -> dict[str, Any]:
        """Return fields that hold the scores of single classes, with intervals from the totals of bootstrap splits."""
        return {}

    def with_intervals(self, seed: int) -> Self:
        """Return the same scores with 95% bootstrap intervals of those that `scores_of` computes."""
        [columns], counts = self.kinds(self.predicted)
        totals = totals_of_resamples(columns, seed, counts)
        intervals = {
            name: middle_around(self.figures[name], values) if name == "f1_macro" else middle(values)
            for name, values in self.scores_of(totals).items()
            if name in self.figures
        }
        return replace(self, intervals=intervals, **self.parts_with_intervals(totals))

    def lead_over(self, predicted: Any, seed: int) -> tuple[float, list[float]]:
        """Return by how much the main score is better than that of other predictions, and the 95% interval.

        `predicted` holds the other predictions for all rows of the split. The bootstrap is paired: an example is drawn
        with both its predictions. Two methods that share their hard examples differ by less luck than their separate
        intervals suggest.
        """
        sides, counts = self.kinds(self.predicted, self.on_scored_rows(predicted))
        columns, width = np.concatenate(sides, axis=1), sides[0].shape[1]
        sign = -1.0 if is_lower_better(self.main) else 1.0

        def lead(totals: np.ndarray) -> np.ndarray:
            ours, theirs = (self.scores_of(side)[self.main] for side in (totals[:, :width], totals[:, width:]))
            return sign * (ours - theirs)

        whole = (counts @ columns)[None].astype(np.float64)
        return float(lead(whole)[0]), middle(lead(totals_of_resamples(columns, seed, counts)))

    def on_scored_rows(self, predicted: Any) -> Any:
        """Return predictions for all rows of the split on the scored ones."""
        return np.asarray(predicted)[self.rows]


class Metrics(ABC):
    """Collects predictions batch by batch, in any order, and scores them once."""

    def __init__(self) -> None:
        self._kept: list[tuple[Tensor, ...]] = []  # of each batch, the columns that `scores` needs

    def add(self, prediction: Prediction, batch: Batch) -> None:
        """Keep what `scores` needs of the predictions for one batch."""
        self.keep(self.columns(prediction, batch))

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
    """Collects the logits of each example: of a label, a set of labels or a number for the whole text."""

    def columns(self, prediction: Prediction, batch: Batch) -> tuple[Tensor, ...]:
        assert prediction.sequence_logits is not None, "only a model with a head for whole sequences can be scored here"
        assert batch.labels is not None, "only labelled examples can be scored"
        # A compiled model may overwrite these with its next output, hence the copy.
        return batch.rows, batch.labels, prediction.sequence_logits.detach().to(torch.float32, copy=True)

    def _in_order(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the examples' positions in their split, rising: [n]; their targets, and their logits: [n, outputs]."""
        rows, targets, logits = self._columns()
        order = rows.argsort()
        rows = rows[order]
        assert bool((rows.diff() > 0).all()), "an example was added twice"
        return rows, targets[order], logits[order]


def with_bounds(figures: Mapping[str, float], intervals: Mapping[str, list[float]]) -> dict[str, Any]:
    """Return the scores, then their 95% intervals, as report.json names them."""
    return {**figures, **{f"{name}_ci95": list(bounds) for name, bounds in intervals.items()}}


def is_lower_better(score: str) -> bool:
    """Return whether the least value of a score is the best."""
    return score.endswith(("loss", "perplexity", "mae", "rmse"))


def class_columns(right: np.ndarray, hits: np.ndarray, labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return what examples add to the totals of `class_scores`, [n, 2 + 3 classes]: 1 for each, 1 if all of it is
    `right`, and of each class the hits, labels and predictions.
    """
    return np.concatenate([np.ones((len(right), 1), np.int64), right[:, None], hits, labels, predicted], axis=1)


def class_scores(totals: np.ndarray, positive: int | None = None) -> dict[str, np.ndarray]:
    """Return the scores of classes, [splits] each, from totals of `class_columns`, [splits, columns].

    `accuracy` counts examples that are wholly right, `token_accuracy` single predictions. `f1` is that of the class
    `positive`.
    """
    hits, labels, predicted = np.split(totals[:, 2:], 3, axis=1)
    scores = {
        "accuracy": totals[:, 1] / np.maximum(totals[:, 0], 1),
        "token_accuracy": hits.sum(1) / np.maximum(labels.sum(1), 1),
        "f1_macro": f1_macro(hits, labels + predicted),
        "f1_weighted": f1_weighted(hits, labels, predicted),
        "matthews": matthews(hits, labels, predicted),
    }
    return scores if positive is None else scores | {"f1": f1_of(hits, labels + predicted)[:, positive]}


def per_class_and_confusion(
    labels: np.ndarray, predicted: np.ndarray, names: Sequence[str]
) -> tuple[dict[str, dict[str, float]], list[list[int]]]:
    """Return precision, recall, F1 and support of each class, zeros instead of divisions by zero, and the confusion
    matrix: a row for each true class and a column for each predicted one. Class ids are [n].
    """
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    ids = range(len(names))
    columns: Any = precision_recall_fscore_support(labels, predicted, labels=ids, zero_division=WITHOUT_WARNING)
    return per_class_of(names, columns), confusion_matrix(labels, predicted, labels=ids).tolist()


def per_class_of(names: Sequence[str], columns: Any) -> dict[str, dict[str, float]]:
    """Return what scikit-learn's precision_recall_fscore_support has found, by class."""
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
