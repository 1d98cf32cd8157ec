"""A plot of new texts beside the rows that a run was trained on."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.reports.plots import BLUE, ORANGE, STYLES, WIDTH, label_axes, own_look
from encoderlab.reports.wording import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAST_BINS = 8  # of a distribution
MOST_BINS = 25
TITLE_WIDTH = 100  # characters


def drift_plot(
    verdict: str,
    similarities: Mapping[str, np.ndarray],
    lengths: Mapping[str, np.ndarray],
    labels: Mapping[str, Mapping[str, Any]],
    n_labels: int,
) -> Figure:
    """Plot new texts beside the rows that a run was trained on, under the verdict.

    Above are the distributions of the texts' `similarities` to the nearest training text, and of their `lengths` in
    words: arrays [texts] by the name of their side, the new texts last. Below are the shares of `labels`, which may be
    a few of `n_labels`, or none: those of the training rows, and those predicted with their 95% intervals.
    """
    from matplotlib.figure import Figure

    panels: list[Any] = [["similarities", "lengths"]]
    heights = [2.8]
    if labels:
        panels.append(["labels", "labels"])
        heights.append(0.9 + 0.27 * len(labels))
    figure = Figure(figsize=(1.4 * WIDTH, 0.6 + sum(heights)), layout="constrained")
    axes = figure.subplot_mosaic(panels, height_ratios=heights)
    figure.suptitle(textwrap.fill(verdict, TITLE_WIDTH), fontsize=11)

    # How the texts are distributed.
    every = np.concatenate(list(similarities.values()))
    n_bins = int(np.clip(min(map(len, similarities.values())) ** 0.5, LEAST_BINS, MOST_BINS))
    edges = np.linspace(every.min() - 0.01, every.max() + 0.01, n_bins + 1)
    _plot_distributions(axes["similarities"], similarities, edges)
    label_axes(axes["similarities"], "similarity to the\nnearest training text", "share of texts")
    _legend_above(axes["similarities"])
    longest = math.ceil(max(np.percentile(counts, 99) for counts in lengths.values()))
    step = math.ceil((longest + 1) / n_bins)
    shown = {name: np.minimum(counts, longest) for name, counts in lengths.items()}
    _plot_distributions(axes["lengths"], shown, np.arange(0, longest + 1 + step, step) - 0.5)
    label_axes(axes["lengths"], "length in words\n(the longest in the last bar)", "share of texts")
    _legend_above(axes["lengths"])

    # What is predicted for them.
    if labels:
        _plot_label_shares(axes["labels"], labels, n_labels)
    return figure


def _plot_distributions(axes: Axes, values: Mapping[str, np.ndarray], edges: np.ndarray) -> None:
    """Plot the share of each side's texts between the edges."""
    for (name, numbers), color, style in zip(values.items(), (BLUE, ORANGE), STYLES, strict=False):
        counts, _ = np.histogram(numbers, edges)
        shares = counts / len(numbers)
        axes.stairs(shares, edges, fill=True, color=color, alpha=0.25)
        axes.stairs(shares, edges, color=color, linestyle=style, linewidth=1.5, label=name)
    axes.yaxis.set_major_formatter(_percent)


def _percent(share: float, _: float) -> str:
    """Return a share as the label of a tick."""
    return f"{100 * share:.3g}%"


def _legend_above(axes: Axes) -> None:
    """Put the legend where it hides nothing."""
    axes.legend(frameon=False, fontsize=8.5, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1))


def _plot_label_shares(axes: Axes, labels: Mapping[str, Mapping[str, Any]], n_labels: int) -> None:
    """Plot for each label its share of the training rows, and that of the predictions for new texts with its
    interval.
    """
    places = np.arange(len(labels))
    low, high = np.array([label["predicted_ci95"] for label in labels.values()]).T
    trained = [label["train"] for label in labels.values()]
    predicted = [label["predicted"] for label in labels.values()]
    axes.plot(trained, places, "D", color=BLUE, markersize=6, fillstyle="none", label="training rows")
    axes.hlines(places, low, high, color=ORANGE, linewidth=2.2, alpha=0.5)
    axes.plot(predicted, places, "o", color=ORANGE, markersize=5, label="predicted for new texts, with 95% interval")
    axes.set_yticks(places, [short(name, 30) for name in labels], **own_look(fontsize=8.5))
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(_percent)
    of = f" (the {len(labels)} of {n_labels} labels that changed most)" if len(labels) < n_labels else ""
    label_axes(axes, f"share of texts by label{of}")
    _legend_above(axes)
