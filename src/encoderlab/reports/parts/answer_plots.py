"""Plots of a model's predictions against the labels: numbers, F1 by label, precision and recall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from encoderlab.metrics import AnswerScores, LabelSetScores, Scores
from encoderlab.metrics.thresholds import DEFAULT
from encoderlab.reports.parts.plots import BLUE, GREEN, GREY, ORANGE, plain, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_POINTS = 3000  # drawn, spread evenly over the rows
MOST_LABELS = 100
MOST_CURVES = 6


def numbers_figure(labels: np.ndarray, predicted: np.ndarray, width: float) -> Figure:
    """Plot predicted numbers against the true ones, both [n], `width` inches wide, with the diagonal."""
    from matplotlib.figure import Figure

    some = np.unique(np.linspace(0, len(labels) - 1, min(len(labels), MOST_POINTS)).round().astype(int))
    canvas = Figure(figsize=(width, 0.8 * width), layout="constrained")
    axes = canvas.subplots()
    ends = [min(labels.min(), predicted.min()), max(labels.max(), predicted.max())]
    axes.plot(ends, ends, color=GREY, linestyle="--", linewidth=1)
    axes.scatter(
        labels[some], predicted[some], s=10, color=BLUE, alpha=min(1.0, 200 / len(some)) * 0.5 + 0.1, linewidths=0
    )
    axes.set_xlabel("right")
    axes.set_ylabel("predicted")
    plain(axes)
    return canvas


def labels_figure(f1: Mapping[str, float], width: float) -> Figure:
    """Plot the F1 of each label as a bar, best first, `width` inches wide; of very many labels the best 50 and the
    worst 50.
    """
    from matplotlib.figure import Figure

    ranked = sorted(f1, key=lambda name: -f1[name])
    names = ranked if len(ranked) <= MOST_LABELS else ranked[: MOST_LABELS // 2] + ranked[-MOST_LABELS // 2 :]
    canvas = Figure(figsize=(width, 1.0 + 0.2 * len(names)), layout="constrained")
    axes = canvas.subplots()
    axes.barh(range(len(names)), [f1[name] for name in names], color=BLUE)
    axes.set_yticks(range(len(names)), list(map(shortened, names)), fontsize=8, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(0, 1)
    axes.set_xlabel("F1")
    axes.grid(axis="x", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    return canvas


@dataclass(frozen=True, slots=True)
class PrecisionRecallCurve:
    """The data of one label's curve: whether each row has it (bool [n]), its probabilities [n], and the threshold in
    use.
    """

    name: str
    has_label: np.ndarray
    chances: np.ndarray
    threshold: float


def precision_recall_curves(scores: AnswerScores) -> list[PrecisionRecallCurve]:
    """Return the curve of the positive one of two classes, or of the most frequent labels of sets; none for other
    predictions.

    A label that no row has, or all, has no curve.
    """
    if isinstance(scores, Scores) and scores.positive is not None and scores.probabilities is not None:
        threshold, labels = DEFAULT if scores.threshold is None else scores.threshold, np.asarray(scores.labels)
        chances = scores.probabilities[:, scores.positive]
        found = [PrecisionRecallCurve(str(scores.positive_label), labels == scores.positive, chances, threshold)]
    elif isinstance(scores, LabelSetScores):
        columns = np.argsort(-scores.labels.sum(0), kind="stable")[:MOST_CURVES]
        found = [
            PrecisionRecallCurve(
                scores.label_names[label],
                scores.labels[:, label],
                scores.probabilities[:, label],
                float(scores.thresholds[label]),
            )
            for label in columns
        ]
    else:
        return []
    return [curve for curve in found if curve.has_label.any() and not curve.has_label.all()]


def precision_recall_figure(curves: Sequence[PrecisionRecallCurve], width: float) -> Figure:
    """Plot precision against recall for every threshold, `width` inches wide, with a dot at the threshold in use."""
    from matplotlib.figure import Figure
    from sklearn.metrics import average_precision_score, precision_recall_curve

    canvas = Figure(figsize=(width, 0.75 * width), layout="constrained")
    axes = canvas.subplots()
    for place, curve in enumerate(curves):
        precision, recall, _ = precision_recall_curve(curve.has_label, curve.chances)
        some = np.unique(np.linspace(0, len(recall) - 1, min(len(recall), MOST_POINTS)).round().astype(int))
        area = average_precision_score(curve.has_label, curve.chances)
        name = shortened(curve.name).replace("$", r"\$")
        color, style = (BLUE, ORANGE, GREEN)[place % 3], "-" if place < 3 else "--"
        axes.plot(
            recall[some], precision[some], color=color, linestyle=style, linewidth=1.6, label=f"{name}: {area:.3f}"
        )
        given = curve.chances >= curve.threshold
        if given.any():
            hits = (given & curve.has_label).sum()
            axes.plot(hits / curve.has_label.sum(), hits / given.sum(), "o", color=color, markersize=7)
    axes.set_xlabel("recall")
    axes.set_ylabel("precision")
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    plain(axes)
    axes.legend(frameon=False, title="average precision", loc="lower left")
    return canvas
