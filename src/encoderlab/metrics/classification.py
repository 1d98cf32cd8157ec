"""Scores of sequence classification: one prediction for each example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch.nn.functional import cross_entropy

from encoderlab.metrics.scores import Scores, TextMetrics, figures_by_class, refuse_non_finite
from encoderlab.metrics.thresholds import ThresholdRule


class ClassificationMetrics(TextMetrics):
    """Collects one prediction for each example.

    `labels` names the classes in the order of their ids. `main` is the figure that a report puts first. Of two classes,
    `positive` is the id of the one that `f1` and `roc_auc` are about, and `threshold` says from which probability on it
    is given; one that is not known is fitted on the scored rows themselves. None: the more probable class is predicted.
    """

    def __init__(
        self, labels: Sequence[str], main: str = "accuracy", positive: int = 1, threshold: ThresholdRule | None = None
    ) -> None:
        super().__init__()
        self.labels, self.main, self.threshold = list(labels), main, threshold
        self.positive = positive

    def scores(self) -> Scores:
        """See `Metrics.scores`.

        Figures: `loss` (mean cross entropy of an example, in nats), `accuracy`, `f1_macro`, `f1_weighted`, `matthews`
        (Matthews correlation). For two classes also `f1`, `roc_auc` and `average_precision` of the positive one; the
        last two are left out where the split holds one class only.
        """
        rows, labels, logits = self._in_order()
        labels = labels.long()
        losses = cross_entropy(logits, labels, reduction="none").double().numpy()
        refuse_non_finite(losses)
        probabilities = logits.double().softmax(-1).numpy()
        return self._scored(rows.numpy(), labels.numpy(), probabilities, float(losses.mean()))

    def _scored(self, rows: np.ndarray, labels: np.ndarray, probabilities: np.ndarray, loss: float) -> Scores:
        positive, chances = labels == self.positive, probabilities[:, self.positive]
        threshold = None if self.threshold is None else self.threshold.on(chances, positive)
        predicted = probabilities.argmax(-1) if threshold is None else given_from(chances, threshold, self.positive)
        scores = answered_classes(labels, predicted, self.labels, self.main, self.positive)
        figures = {"loss": loss, **scores.figures}
        if scores.positive is not None and len(np.unique(labels)) == 2:
            from sklearn.metrics import average_precision_score, roc_auc_score

            figures["roc_auc"] = float(roc_auc_score(positive, chances))
            figures["average_precision"] = float(average_precision_score(positive, chances))
        return replace(scores, figures=figures, rows=rows, probabilities=probabilities, threshold=threshold)


def given_from(chances: np.ndarray, threshold: float, positive: int) -> np.ndarray:
    """Return the `positive` class of two if its probability is at least the threshold, else the other: [n] -> class ids
    [n].
    """
    return np.where(chances >= threshold, positive, 1 - positive)


def answered_classes(
    labels: np.ndarray, predicted: np.ndarray, names: Sequence[str], main: str, positive: int
) -> Scores:
    """Return the scores of predictions without probabilities, such as a baseline's: class ids [n] each, by row; see
    `Scores`.
    """
    by_class = figures_by_class(labels, predicted, names)
    figures = {"accuracy": float((labels == predicted).mean())}
    figures |= {name: by_class[name] for name in ("f1_macro", "f1_weighted", "matthews")}
    if len(names) == 2:
        figures["f1"] = by_class["per_class"][names[positive]]["f1"]
    return Scores(
        n=len(labels),
        figures=figures,
        per_class=by_class["per_class"],
        confusion=by_class["confusion"],
        rows=np.arange(len(labels)),
        labels=labels,
        predicted=predicted,
        probabilities=None,
        label_names=list(names),
        headline=main,
        positive=positive if len(names) == 2 else None,
    )
