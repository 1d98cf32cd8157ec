"""Pictures of a model's answers beside the right ones, where those are no classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from encoderlab.reports.parts.plots import BLUE, GREY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_POINTS = 3000  # that are drawn, spread evenly over the rows
MOST_LABELS = 100


def numbers_figure(labels: np.ndarray, predicted: np.ndarray, width: float) -> Figure:
    """Predicted numbers against the right ones, both [n], `width` inches wide, and the line on which they are the same."""
    from matplotlib.figure import Figure

    some = np.unique(np.linspace(0, len(labels) - 1, min(len(labels), MOST_POINTS)).round().astype(int))
    canvas = Figure(figsize=(width, 0.8 * width), layout="constrained")
    axes = canvas.subplots()
    ends = [min(labels.min(), predicted.min()), max(labels.max(), predicted.max())]
    axes.plot(ends, ends, color=GREY, linestyle="--", linewidth=1)
    axes.scatter(labels[some], predicted[some], s=10, color=BLUE, alpha=min(1.0, 200 / len(some)) * 0.5 + 0.1, linewidths=0)
    axes.set_xlabel("right")
    axes.set_ylabel("predicted")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    return canvas


def labels_figure(f1: Mapping[str, float], width: float) -> Figure:
    """The F1 of each label as a bar, the best first, `width` inches wide; of very many labels the best 50 and the worst 50."""
    from matplotlib.figure import Figure

    ranked = sorted(f1, key=lambda name: -f1[name])
    names = ranked if len(ranked) <= MOST_LABELS else ranked[: MOST_LABELS // 2] + ranked[-MOST_LABELS // 2 :]
    canvas = Figure(figsize=(width, 1.0 + 0.2 * len(names)), layout="constrained")
    axes = canvas.subplots()
    axes.barh(range(len(names)), [f1[name] for name in names], color=BLUE)
    shown = [name if len(name) <= 24 else f"{name[:23]}…" for name in names]
    axes.set_yticks(range(len(names)), shown, fontsize=8, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(0, 1)
    axes.set_xlabel("F1")
    axes.grid(axis="x", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    return canvas
