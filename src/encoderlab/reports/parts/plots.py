"""Plots of a run: its curves over the steps, and its confusion matrix."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.metrics.scores import is_lower_better

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours: distinguishable for the colour-blind and, with their line styles, in grey print.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"

LOSS_UNITS: dict[str, str] = dict.fromkeys(
    ("pearson", "spearman", "mae", "rmse"), "squared error"
)  # by the evaluated figure, if it is not nats
QUESTIONS = {"mlm": "masked tokens", "nsp": "pairs"}


def write_png(figure: Figure, path: Path) -> None:
    """Write `figure` to `path` as a PNG of 150 dots per inch.

    The canvas computes the layout as it draws. `Figure.savefig` draws everything twice, the first time for the layout
    alone.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(150)
    FigureCanvasAgg(figure).print_png(path)


def plot_curves(
    metrics_lines: Sequence[Mapping[str, Any]], path: Path, *, title: str, figure: str = "accuracy"
) -> None:
    """Write `curves` to `path`, under a `title`."""
    canvas = curves(metrics_lines, figure, 7.5)
    canvas.suptitle(title, fontsize=11, wrap=True, parse_math=False)
    write_png(canvas, path)


def curves(metrics_lines: Sequence[Mapping[str, Any]], figure: str, width: float) -> Figure:
    """Plot loss, the evaluated `figure` and the learning rate against steps, from the lines of metrics.jsonl, `width`
    inches wide.

    Training loss is drawn as logged (faint) and smoothed; evaluations as logged.
    """
    from matplotlib.figure import Figure

    steps = [line for line in metrics_lines if line["kind"] == "step"]
    evaluations = [line for line in metrics_lines if line["kind"] == "evaluation"]
    heights = (
        {f"loss ({LOSS_UNITS.get(figure, 'nats')})": 3.0}
        | ({figure.replace("_", " "): 3.0} if evaluations else {})
        | {"learning rate": 1.2}
    )
    canvas = Figure(figsize=(width, sum(heights.values())), layout="constrained")
    panels = canvas.subplots(len(heights), 1, sharex=True, height_ratios=list(heights.values()))
    _draw_training_loss(panels[0], steps, "loss")
    _draw_evaluations(panels[0], evaluations, "loss", ORANGE)
    if evaluations:
        _draw_evaluations(panels[1], evaluations, figure, GREEN)
    _draw_learning_rate(panels[-1], steps)
    for axes, label in zip(panels, heights, strict=True):
        _finish(axes, label)
    return canvas


def plot_pretraining_curves(
    metrics_lines: Sequence[Mapping[str, Any]],
    path: Path,
    *,
    title: str,
    token_guess: float | None,
    pair_guess: float | None,
) -> None:
    """Write `pretraining_curves` to `path`, under a `title`."""
    canvas = pretraining_curves(metrics_lines, token_guess, pair_guess, 6.5)
    canvas.suptitle(title, fontsize=11, wrap=True, parse_math=False)
    write_png(canvas, path)


def pretraining_curves(
    metrics_lines: Sequence[Mapping[str, Any]], token_guess: float | None, pair_guess: float | None, width: float
) -> Figure:
    """Plot losses, accuracies and the learning rate against steps, from the lines of metrics.jsonl.

    Masked tokens are on the left and, if there are pairs, pairs on the right. `token_guess` and `pair_guess` are the
    accuracies of the best baselines, drawn as horizontal lines; None if there is none. Each panel is `width` inches
    wide.
    """
    from matplotlib.figure import Figure

    steps = [line for line in metrics_lines if line["kind"] == "step"]
    evaluations = [line for line in metrics_lines if line["kind"] == "evaluation"]
    paired = any("loss_sequence" in line for line in steps) or any("nsp_loss" in line for line in evaluations)
    heights = [3.0, 3.0, 1.2] if evaluations else [3.0, 1.2]
    canvas = Figure(figsize=(width * (1 + paired), sum(heights)), layout="constrained")
    columns = canvas.subplots(len(heights), 1 + paired, sharex=True, squeeze=False, height_ratios=heights).T
    _draw_question(columns[0], steps, evaluations, "mlm", "loss_token" if paired else "loss", token_guess)
    if paired:
        _draw_question(columns[1], steps, evaluations, "nsp", "loss_sequence", pair_guess)
    return canvas


def _draw_question(
    panels: Sequence[Axes],
    steps: Sequence[Mapping[str, Any]],
    evaluations: Sequence[Mapping[str, Any]],
    question: str,
    training_loss: str,
    guess: float | None,
) -> None:
    """Draw one column: its loss, its accuracy if there are evaluations, and the learning rate."""
    _draw_training_loss(panels[0], steps, training_loss)
    _draw_evaluations(panels[0], evaluations, f"{question}_loss", ORANGE)
    _finish(panels[0], f"{QUESTIONS[question]}: loss (nats)")
    if evaluations:
        _draw_evaluations(panels[1], evaluations, f"{question}_accuracy", GREEN)
        if guess is not None:
            panels[1].axhline(guess, color=GREY, linestyle="-.", linewidth=1.2, label=f"best baseline: {guess:.3f}")
        _finish(panels[1], f"{QUESTIONS[question]}: accuracy")
    _draw_learning_rate(panels[-1], steps)
    _finish(panels[-1], "learning rate")


def plain(axes: Axes) -> None:
    """Give a plot a faint grid, and a frame only where its scales are."""
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def shortened(name: str) -> str:
    """Return a label's name as plots show it: at most 24 characters."""
    return name if len(name) <= 24 else f"{name[:23]}…"


def _draw_learning_rate(axes: Axes, steps: Sequence[Mapping[str, Any]]) -> None:
    axes.plot([line["step"] for line in steps], [line["learning_rate"] for line in steps], color=GREY, linewidth=1.5)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 2))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("optimizer step")
    axes.xaxis.set_major_formatter("{x:,.0f}")


def _finish(axes: Axes, label: str) -> None:
    axes.set_ylabel(label)
    plain(axes)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=9)


def _draw_training_loss(axes: Axes, steps: Sequence[Mapping[str, Any]], name: str) -> None:
    drawn = [(line["step"], line[name]) for line in steps if line.get(name) is not None]
    at, losses = np.array([step for step, _ in drawn]), np.array([loss for _, loss in drawn], dtype=float)
    axes.plot(at, losses, color=BLUE, alpha=0.25, linewidth=0.8, label="training batches, as logged")
    axes.plot(at, smoothed(losses), color=BLUE, linewidth=1.8, label="training batches, running mean")


def _draw_evaluations(axes: Axes, evaluations: Sequence[Mapping[str, Any]], figure: str, color: str) -> None:
    """Draw one line for each split, with the best point in words (highest, or for the loss lowest)."""
    for split, style in zip(dict.fromkeys(line["split"] for line in evaluations), ("-", "--", ":"), strict=False):
        points = [
            (line["step"], line[figure])
            for line in evaluations
            if line["split"] == split and line.get(figure) is not None
        ]
        if not points:
            continue
        best = min(points, key=lambda point: point[1] if is_lower_better(figure) else -point[1])
        label = f"{split}: best {best[1]:.3f} at step {best[0]:,}"
        axes.plot(
            *zip(*points, strict=True),
            color=color,
            linestyle=style,
            marker="o",
            markersize=4,
            linewidth=1.5,
            label=label,
        )


def smoothed(values: np.ndarray) -> np.ndarray:
    """Return the centred running mean over a twentieth of the values on each side, fewer towards the ends; [values] ->
    [values].
    """
    reach = len(values) // 20
    sums = np.concatenate([[0.0], np.cumsum(values)])
    low = np.maximum(np.arange(len(values)) - reach, 0)
    high = np.minimum(np.arange(len(values)) + reach + 1, len(values))
    return (sums[high] - sums[low]) / np.maximum(high - low, 1)


def plot_confusion(confusion: Sequence[Sequence[int]], labels: Sequence[str], path: Path, *, title: str) -> None:
    """Plot the confusion matrix, true classes as rows, predicted as columns: counts as text, shares of the row as shade
    and text.

    Beyond 30 classes there are only shades; beyond 110 not every class is named.
    """
    from matplotlib.figure import Figure

    counts = np.array(confusion)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    names = list(map(shortened, labels))
    written = len(names) <= 30
    side = min(max(4.5, 1.8 + (0.62 if written else 0.2) * len(names)), 24)
    named = range(0, len(names), math.ceil(len(names) / 110))
    canvas = Figure(figsize=(side + 1.2, side + 0.4), layout="constrained")
    axes = canvas.subplots()
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    if written:
        _write_cells(axes, counts, shares)
    upright = len(names) <= 4 and max(map(len, names)) <= 10
    turned = {"rotation": 0, "ha": "center"} if upright else {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(named, [names[i] for i in named], parse_math=False, **turned)
    axes.set_yticks(named, [names[i] for i in named], parse_math=False)
    size = max(10, side)
    axes.set_xlabel("predicted", fontsize=size)
    axes.set_ylabel("true", fontsize=size)
    canvas.suptitle(
        f"{title}\n{counts.sum():,} predictions; percentages of each true class",
        fontsize=size,
        parse_math=False,
        wrap=True,
    )
    canvas.colorbar(image, ax=axes, shrink=0.8, format="{x:.0%}").set_label("share of the true class", fontsize=size)
    write_png(canvas, path)


def _write_cells(axes: Axes, counts: np.ndarray, shares: np.ndarray) -> None:
    for row, column in np.ndindex(*counts.shape):
        count, share = counts[row, column], shares[row, column]
        percent = "<1%" if share < 0.005 else ">99%" if 0.995 <= share < 1 else f"{share:.0%}"
        axes.text(
            column,
            row,
            f"{count:,}\n{percent}" if count else "0",
            ha="center",
            va="center",
            fontsize=11 if len(counts) <= 4 else 7,
            color="white" if share > 0.6 else "black" if count else GREY,
        )
