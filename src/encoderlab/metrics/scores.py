"""What scoring a split yields, and what anything that collects scores can do."""

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
    bootstrap,
    class_score,
    difference,
    kinds_of_answers,
    kinds_of_confusion,
    matthews,
    score_difference,
    score_of_columns,
    wilson,
)

WITHOUT_WARNING: Any = 0  # `zero_division`: scikit-learn has no types, and type checkers infer text from its default


class AnswerScores(ABC):
    """The figures of one split with the answers they were computed from, whatever is right about a row.

    `n` counts examples. `figures` holds the scores by name, `intervals` the 95% intervals that `with_intervals` adds.
    `rows` are the examples' places in their split, rising; `labels` and `predicted` hold what is right and what was
    answered, in that order.
    """

    n: int
    figures: dict[str, float]
    rows: np.ndarray
    labels: Any
    predicted: Any
    intervals: dict[str, list[float]]
    main: str

    @abstractmethod
    def with_intervals(self, seed: int) -> Self:
        """Return the same scores with 95% bootstrap intervals; see `encoderlab.metrics.intervals`."""

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """See `SplitScores.as_dict`."""

    @abstractmethod
    def lead_over(self, predicted: Any, seed: int) -> tuple[float, list[float]]:
        """Return by how much the main figure is better than that of other answers to the same rows, and the paired 95%
        interval.

        `predicted` holds the other answers to all rows of the split.
        """

    @abstractmethod
    def score_on(self, places: np.ndarray, seed: int) -> tuple[float | None, list[float] | None]:
        """Return the main figure on some rows, at these places in `rows`, and its 95% interval; None if they have no
        target.
        """


@dataclass(frozen=True, slots=True)
class Scores(AnswerScores):
    """The figures of one split, and the answers they were computed from.

    `n` counts examples. `figures` holds the scores by name. `confusion` has a row for each true class, a column for
    each predicted one. `rows` are the examples' places in their split, rising; `labels` and `predicted` hold class ids
    in that order, [n], and `probabilities` is [n, classes], None if they are not known. `intervals` are the 95%
    intervals that `with_intervals` adds. `headline` names the figure that a report puts first (None: the share of right
    answers). `positive` is the id of the class that the figures of two classes are about, such as `f1`; None for other
    numbers of classes. `threshold` is the probability from which it was given, None if the likelier class was the
    answer.
    """

    n: int
    figures: dict[str, float]
    per_class: dict[str, dict[str, float]]
    confusion: list[list[int]]
    rows: np.ndarray
    labels: np.ndarray
    predicted: np.ndarray
    probabilities: np.ndarray | None
    label_names: list[str]
    intervals: dict[str, list[float]] = field(default_factory=dict)
    headline: str | None = None
    positive: int | None = None
    threshold: float | None = None

    @property
    def main(self) -> str:  # type: ignore[override]
        """Return the main figure of a report: the `headline`, or the share of right answers."""
        return self.headline or "accuracy"

    @property
    def positive_label(self) -> str | None:
        """Return the name of the `positive` class."""
        return None if self.positive is None else self.label_names[self.positive]

    def lead_over(self, predicted: Any, seed: int) -> tuple[float, list[float]]:
        """See `AnswerScores.lead_over`."""
        return self.lead_on_rows(np.asarray(predicted)[self.rows], seed)

    def lead_on_rows(self, other: np.ndarray, seed: int) -> tuple[float, list[float]]:
        """Return the same for the predictions `other` on the scored rows, in their order."""
        if self.main == "accuracy":
            return difference(self.labels, self.predicted, other, seed)
        score = class_score(self.main, self.positive)
        return score_difference(self.labels, self.predicted, other, len(self.label_names), score, seed)

    def score_on(self, places: np.ndarray, seed: int) -> tuple[float | None, list[float] | None]:
        """See `AnswerScores.score_on`.

        Intervals of accuracy are Wilson's (1927), which have a width even if all answers are right; others draw texts,
        as in `encoderlab.metrics.intervals`.
        """
        if self.main == "accuracy":
            hits = int((self.labels[places] == self.predicted[places]).sum())
            return hits / len(places), wilson(hits, len(places))
        each = np.ones(len(places), dtype=np.int64)
        kinds = kinds_of_answers(self.labels[places], self.predicted[places], each, len(self.label_names))
        return score_of_columns(kinds.columns, class_score(self.main, self.positive), seed)

    def with_intervals(self, seed: int) -> Scores:
        """Return the same scores with 95% bootstrap intervals of accuracy and of F1; see
        `encoderlab.metrics.intervals`.
        """
        found = bootstrap(kinds_of_confusion(np.array(self.confusion)), seed, self.positive)
        return replace(self, intervals={name: found[name] for name in found if name in self.figures})

    def as_dict(self) -> dict[str, Any]:
        """Return the scores as report.json holds them."""
        named = {} if self.positive is None else {"positive_label": self.positive_label}
        named |= {} if self.threshold is None else {"threshold": self.threshold}
        figures = with_bounds(self.figures, self.intervals)
        return {"n": self.n, **named, **figures, "per_class": self.per_class, "confusion": self.confusion}


class SplitScores(Protocol):
    """What any kind of scores has: `n` rows, the `figures` by name, and which of them is put first."""

    @property
    def n(self) -> int:
        """Return how many rows were scored."""
        ...

    @property
    def figures(self) -> dict[str, float]:
        """Return the scores by name."""
        ...

    @property
    def main(self) -> str:
        """Return the main figure of a report."""
        ...

    def as_dict(self) -> dict[str, Any]:
        """Return the scores as report.json holds them."""
        ...


class Metrics(ABC):
    """Collects answers batch by batch, in any order, and scores them once."""

    def __init__(self) -> None:
        self._kept: list[tuple[Tensor, ...]] = []  # of each batch, the columns that `scores` needs

    def add(self, prediction: Prediction, batch: Batch) -> None:
        """Keep what `scores` needs of the answers to one batch."""
        self.keep(self.columns(prediction, batch))

    @abstractmethod
    def columns(self, prediction: Prediction, batch: Batch) -> tuple[Tensor, ...]:
        """Return what `scores` needs of the answers to one batch, on their device and without waiting for it."""

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
        """Score all that was added, in the order of the split. Raises TrainingError if an answer is not a finite
        number.
        """

    def _columns(self) -> list[Tensor]:
        """Return each column that was kept, with all batches one after another."""
        assert self._kept, "nothing was added"
        return [torch.cat(column).cpu() for column in zip(*self._kept, strict=True)]


class TextMetrics(Metrics):
    """Collects the logits of each example: of a label, a set of labels or a number for the whole text."""

    def columns(self, prediction: Prediction, batch: Batch) -> tuple[Tensor, ...]:
        """See `Metrics.columns`."""
        assert prediction.sequence_logits is not None, "only a model with a head for whole sequences can be scored here"
        assert batch.labels is not None, "only labelled examples can be scored"
        # A compiled model may overwrite these with its next output, hence the copy.
        return batch.rows, batch.labels, prediction.sequence_logits.detach().to(torch.float32, copy=True)

    def _in_order(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the examples' places in their split, rising: [n]; their targets, and their logits: [n, outputs]."""
        rows, targets, logits = self._columns()
        order = rows.argsort()
        rows = rows[order]
        assert bool((rows.diff() > 0).all()), "an example was added twice"
        return rows, targets[order], logits[order]


def with_bounds(figures: Mapping[str, float], intervals: Mapping[str, list[float]]) -> dict[str, Any]:
    """Return the figures, then their 95% intervals, as report.json names them."""
    return {**figures, **{f"{name}_ci95": list(bounds) for name, bounds in intervals.items()}}


def is_lower_better(figure: str) -> bool:
    """Return whether the least value of a figure is the best."""
    return figure.endswith(("loss", "perplexity", "mae", "rmse"))


def figures_by_class(labels: np.ndarray, predicted: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """Return F1 over the classes, scores of each class, and the confusion matrix, for class ids of shape [answers].

    Macro F1 is the plain mean over the classes that occur as a label or an answer (scikit-learn's rule): a class that a
    split does not have says nothing about the model. `per_class` lists all classes, with zeros instead of divisions by
    zero. `matthews` is the correlation of `encoderlab.metrics.intervals.matthews`.
    """
    from sklearn.metrics import confusion_matrix, f1_score, precision_recall_fscore_support

    ids = range(len(names))
    columns: Any = precision_recall_fscore_support(labels, predicted, labels=ids, zero_division=WITHOUT_WARNING)
    keys = ("precision", "recall", "f1")
    per_class = {
        name: {**{key: float(value) for key, value in zip(keys, values[:3], strict=True)}, "support": int(values[3])}
        for name, *values in zip(names, *columns, strict=True)
    }
    confusion = confusion_matrix(labels, predicted, labels=ids)
    return {
        "f1_macro": float(f1_score(labels, predicted, average="macro", zero_division=WITHOUT_WARNING)),
        "f1_weighted": float(f1_score(labels, predicted, average="weighted", zero_division=WITHOUT_WARNING)),
        "matthews": float(matthews(np.diag(confusion)[None], confusion.sum(1)[None], confusion.sum(0)[None])[0]),
        "per_class": per_class,
        "confusion": confusion.tolist(),
    }


def refuse_non_finite(losses: np.ndarray) -> None:
    """Raise TrainingError unless every loss is a finite number; losses are as good as logits here, and fewer."""
    broken = int((~np.isfinite(losses)).sum())
    if broken:
        raise TrainingError(
            f"The model's predictions are not finite numbers in {broken:,} of {len(losses):,} scored positions",
            remedy="Its weights have diverged: train with a lower training.learning_rate or a longer training.warmup",
        )
