"""The plots of a run's page, drawn narrow enough for a phone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.reports.parts.plots import BLUE, GREEN, GREY, ORANGE, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 6.0  # inches
MOST_LINES = 500  # of metrics.jsonl, drawn as points


def thinned(metrics_lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return at most 500 lines of steps, each the mean of several at the step of the last, and at most 500 evaluations."""
    steps = [line for line in metrics_lines if line["kind"] == "step"]
    others = [line for line in metrics_lines if line["kind"] == "evaluation"]
    every = -(-len(steps) // MOST_LINES)
    groups = [steps[start : start + every] for start in range(0, len(steps), max(every, 1))]
    return [_mean(group) for group in groups] + others[:: -(-len(others) // MOST_LINES) or 1]


def _mean(lines: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    losses = [name for name in lines[-1] if name.startswith("loss")]
    known = {name: [line[name] for line in lines if line.get(name) is not None] for name in losses}
    return {**lines[-1], **{name: sum(values) / len(values) if values else None for name, values in known.items()}}


def reliability_figure(calibration: Mapping[str, Any]) -> Figure:
    """Plot accuracy against confidence, a point for each bin, before and after temperature scaling; below, the counts."""
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(WIDTH, 5.2), layout="constrained")
    upper, lower = canvas.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    upper.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="perfectly calibrated")
    _draw_bins(upper, calibration, BLUE, "o", "as trained")
    if "after_temperature" in calibration:
        after = calibration["after_temperature"]
        _draw_bins(upper, after, ORANGE, "s", f"at temperature {after['temperature']:.2f}")
    upper.set_ylabel("accuracy")
    upper.set_ylim(-0.03, 1.03)
    upper.legend(frameon=False)
    bins = calibration["reliability"]
    lower.bar(
        [one["low"] for one in bins], [one["n"] for one in bins], 1 / calibration["bins"], align="edge", color=BLUE
    )
    lower.set_ylabel("answers")
    lower.set_xlabel("confidence (probability of the prediction)")
    lower.set_xlim(0, 1)
    for axes in (upper, lower):
        plain(axes)
    return canvas


def _draw_bins(axes: Axes, calibration: Mapping[str, Any], color: str, marker: str, label: str) -> None:
    bins = calibration["reliability"]
    x, y = [one["confidence"] for one in bins], [one["accuracy"] for one in bins]
    axes.plot(
        x, y, color=color, marker=marker, markersize=5, linewidth=1.4, label=f"{label}: ECE {calibration['ece']:.3f}"
    )


def lengths_figure(lengths: np.ndarray, unit: str, by_length: Sequence[Mapping[str, Any]], figure: str) -> Figure:
    """Plot the score of each bin of lengths with its interval and, below, the distribution of the scored rows' lengths."""
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(WIDTH, 4.6), layout="constrained")
    upper, lower = canvas.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    scored = [one for one in by_length if one["score"] is not None]
    middle = [(one["low"] + one["high"]) / 2 for one in scored]
    reach = [(one["high"] - one["low"]) / 2 for one in scored]
    score = np.array([one["score"] for one in scored])
    low, high = (np.array([one["ci95"][side] for one in scored]) for side in (0, 1))
    errors = np.maximum([score - low, high - score], 0)
    upper.errorbar(middle, score, errors, reach, fmt="o", color=GREEN, markersize=5, linewidth=1.4, capsize=3)
    upper.set_ylabel(figure)
    shortest, longest = int(lengths.min()), int(lengths.max())
    lower.hist(
        lengths, bins=np.linspace(shortest - 0.5, longest + 0.5, min(longest - shortest + 1, 40) + 1), color=BLUE
    )
    lower.set_ylabel("rows")
    lower.set_xlabel(unit)
    for axes in (upper, lower):
        plain(axes)
    return canvas
