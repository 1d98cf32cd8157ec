"""Plots of several runs side by side, each as a matplotlib figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.reports.plots import BLUE, ORANGE, WIDTH, label_axes, new_figure, own_look
from encoderlab.reports.wording import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def settings_plot(rows: Sequence[Mapping[str, Any]], reference: str, score: str) -> Figure:
    """Plot each setting of a comparison: a mark for each seed, the mean and its 95% interval."""
    figure, axes = new_figure(7.5, 1.2 + 0.38 * len(rows))
    for place, row in enumerate(rows):
        color = ORANGE if row["label"] == reference else BLUE
        if row["interval"]:
            axes.plot(row["interval"], [place, place], color=color, linewidth=2.2, alpha=0.5, solid_capstyle="butt")
        seeds = [run["score"] for run in row["runs"]]
        axes.plot(seeds, [place] * len(seeds), "o", color=color, markersize=4, alpha=0.55)
        axes.plot([row["value"]], [place], "|", color=color, markersize=15, markeredgewidth=2.4)
    axes.set_yticks(range(len(rows)), [short(row["label"], 64) for row in rows], **own_look(fontsize=8))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    label_axes(axes, score)
    return figure


def grid_plot(means: Mapping[str, Mapping[str, float]], first: str, second: str, score: str) -> Figure:
    """Plot the mean scores of a comparison as a heat map, by the values of a `first` factor (down) and a `second` one.

    A combination without a score, nan, stays empty.
    """
    values = np.array([list(row.values()) for row in means.values()])
    across = list(next(iter(means.values())))
    # A page stretches it to its width: a narrower figure would have letters larger than the page's.
    figure, axes = new_figure(min(max(2.6 + 0.8 * len(across), WIDTH), 14), min(1.6 + 0.5 * len(means), 14))
    image = axes.imshow(values, cmap="viridis", aspect="auto")
    low = float(np.nanmin(values))
    high = float(np.nanmax(values))
    for row, column in np.argwhere(~np.isnan(values)).tolist():
        is_light = high > low and values[row, column] > low + 0.6 * (high - low)
        color = "#1b1f24" if is_light else "white"
        axes.text(column, row, f"{values[row, column]:.3f}", color=color, ha="center", va="center", fontsize=8.5)
    axes.set_xticks(range(len(across)), [short(value) for value in across], **own_look(fontsize=8.5))
    axes.set_yticks(range(len(means)), [short(value) for value in means], **own_look(fontsize=8.5))
    axes.set_xlabel(second)
    axes.set_ylabel(first)
    figure.colorbar(image, ax=axes, shrink=0.8).set_label(score)
    return figure
