"""Plots of a run and of its predictions, each as a matplotlib figure.

Colours are Okabe and Ito's: the colour-blind can tell them apart and, with the line styles, so can a reader of a grey
print.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.metrics.scores import PredictionScores, is_lower_better
from encoderlab.metrics.texts import ClassificationScores
from encoderlab.reports.wording import short, words_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE = "#0072B2"
ORANGE = "#D55E00"
GREEN = "#009E73"
GREY = "#666666"
STYLES = ("-", "--", ":", "-.")
# Fonts for Chinese, Japanese, Korean and emoji, used where they are installed.
MORE_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Noto Sans JP", "Noto Sans KR", "WenQuanYi Zen Hei"),
    *("Droid Sans Fallback", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "Arial Unicode MS", "Noto Emoji"),
)
WIDTH = 6.5  # inches
MOST_POINTS = 500  # of a line over the steps
MOST_DOTS = 3000  # of a scatter plot, spread evenly over the rows
MOST_SPACIOUS = 30  # classes in a confusion matrix with large cells
MOST_CLASSES_NAMED = 240  # in a confusion matrix
SQUARED = ("pearson", "spearman", "mae", "rmse")  # metrics of numbers, whose loss is a squared error


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **grid: Any) -> tuple[Figure, Any]:
    """Return an empty figure of this size in inches, and its axes: one, or a grid of them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **grid)


def write_png(figure: Figure, path: Path) -> None:
    """Write `figure` to `path` as a PNG of 150 dots per inch.

    The canvas computes the layout as it draws. `Figure.savefig` draws everything twice, the first time for the layout
    alone. Drawn once more, for a page, it keeps its layout.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(150)
    with quietly_drawn():
        FigureCanvasAgg(figure).print_png(path)
    figure.set_layout_engine("none")


@contextmanager
def quietly_drawn() -> Iterator[None]:
    """Suppress the warnings about letters that no font here has, which are drawn as boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        yield


def label_axes(axes: Axes, below: str = "", beside: str = "") -> None:
    """Name the axes, and give them a faint grid, a frame at their scales, and a legend for named lines."""
    axes.set_xlabel(below)
    axes.set_ylabel(beside)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if any(axes.get_legend_handles_labels()[1]):
        axes.legend(frameon=False, fontsize=8.5)


@cache
def _fonts() -> list[str]:
    """Return the fonts that letters are drawn with: each one from the first that has it."""
    from matplotlib.font_manager import fontManager

    return ["DejaVu Sans", *(name for name in MORE_FONTS if name in fontManager.get_font_names())]


def own_look(**look: Any) -> dict[str, Any]:
    """Return how names from the data are drawn: no formulas in them, and each letter from a font that has it."""
    return {"parse_math": False, "family": _fonts(), **look}


def curves(
    lines: Sequence[Mapping[str, Any]],
    columns: Sequence[tuple[str, str, str, str]],
    gaps: Sequence[tuple[int, int]] = (),
) -> Figure:
    """Plot loss, metric and learning rate of the `lines` of metrics.jsonl against steps, in a column for each
    objective: the names of its training loss, loss and metric in the lines, and a title before their labels.

    The training loss is drawn as logged (faint) and smoothed, evaluations as logged. Each line has at most 500 points,
    which are means of the values between them. The `gaps`, each the first and last step without a line, are grey.
    """
    import pandas as pd

    table: Any = pd.DataFrame(lines)
    evaluations = table[table["kind"] == "evaluation"]
    steps = table[table["kind"] == "step"]
    steps_of_a_point = math.ceil(len(steps) / MOST_POINTS)
    steps = steps.groupby(np.arange(len(steps)) // steps_of_a_point).mean(numeric_only=True)
    heights = [3.0, 3.0, 1.2] if len(evaluations) else [3.0, 1.2]
    n_rows = len(heights)
    n_columns = len(columns)
    figure, grid = new_figure(
        WIDTH * n_columns, sum(heights), n_rows, n_columns, sharex=True, squeeze=False, height_ratios=heights
    )
    for panels, (training_loss, loss, metric, title) in zip(grid.T, columns, strict=True):
        losses_axes = panels[0]
        rate_axes = panels[-1]
        unit = "squared error" if metric in SQUARED else "nats"
        if training_loss in steps:
            losses = steps[training_loss]
            smoothed = losses.rolling(len(losses) // 10 + 1, center=True, min_periods=1).mean()
            losses_axes.plot(steps["step"], losses, color=BLUE, alpha=0.25, linewidth=0.8, label="training, as logged")
            losses_axes.plot(steps["step"], smoothed, color=BLUE, linewidth=1.8, label="training, running mean")
        if len(evaluations):
            _plot_evaluations(losses_axes, evaluations, loss, ORANGE)
            _plot_evaluations(panels[1], evaluations, metric, GREEN)
            label_axes(panels[1], beside=f"{title}{words_of(metric)}")
        label_axes(losses_axes, beside=f"{title}loss ({unit})")
        rate_axes.plot(steps["step"], steps["learning_rate"], color=GREY, linewidth=1.5)
        rate_axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 2))
        rate_axes.set_ylim(bottom=0)
        rate_axes.xaxis.set_major_formatter("{x:,.0f}")
        for first, last in gaps:
            for axes in panels:
                axes.axvspan(first, last, color=GREY, alpha=0.2, linewidth=0)
        label_axes(rate_axes, "optimizer step", "learning rate")
    return figure


def _plot_evaluations(axes: Axes, evaluations: Any, name: str, color: str) -> None:
    """Plot the score `name` of each evaluated split against steps, its best value in the legend."""
    if name not in evaluations:
        return
    known = evaluations[["split", "step", name]].dropna()
    for (split, points), style in zip(known.groupby("split"), STYLES, strict=False):
        scores = points[name]
        best = points.loc[scores.idxmin() if is_lower_better(name) else scores.idxmax()]
        label = f"{split}: best {best[name]:.3f} at step {best['step']:,.0f}"
        axes.plot(points["step"], scores, style, marker="o", markersize=4, color=color, label=label)


def confusion_plot(confusion: Sequence[Sequence[int]], labels: Sequence[str]) -> Figure:
    """Plot the confusion matrix, true classes as rows: counts as text, shares of the row as shade; zeros stay empty.

    The matrix grows with the classes up to 24 inches, and the letters become smaller from there on: 150 classes are
    named and counted in letters of 7 points. Of more than 240 classes only some are named, and none is counted.
    """
    counts = np.array(confusion)
    names = [short(label) for label in labels]
    n = len(names)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    side = min(max(4.5, 1.8 + (0.62 if n <= MOST_SPACIOUS else 0.2) * n), 24)
    cell_points = 72 * side / n
    named = range(0, n, math.ceil(n / MOST_CLASSES_NAMED))
    figure, axes = new_figure(side + 1.2, side + 0.4)
    # As a mesh, not as an image: an image of 24 inches is resampled in 400 MB of numbers.
    borders = np.arange(n + 1) - 0.5
    image = axes.pcolormesh(borders, borders, shares, cmap="Blues", vmin=0, vmax=1)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    is_counted = n <= MOST_CLASSES_NAMED
    for row, column in np.argwhere(counts).tolist() if is_counted else ():
        color = "white" if shares[row, column] > 0.6 else "black"
        digits = f"{counts[row, column]:,}"
        size = min(9.0, 0.65 * cell_points, 1.5 * cell_points / len(digits))
        axes.text(column, row, digits, color=color, ha="center", va="center", fontsize=size)
    letters = min(10.0, 0.8 * cell_points * (named.step if is_counted else 1))
    turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if n <= MOST_SPACIOUS else {"rotation": 90}
    shown_names = [names[place] for place in named]
    axes.set_xticks(named, shown_names, **own_look(fontsize=letters, **turned))
    axes.set_yticks(named, shown_names, **own_look(fontsize=letters))
    axes.set_xlabel("predicted", fontsize=max(10, side))
    axes.set_ylabel("true", fontsize=max(10, side))
    figure.colorbar(image, ax=axes, shrink=0.8, format="{x:.0%}").set_label("share of the true class")
    return figure


def numbers_plot(labels: np.ndarray, predicted: np.ndarray) -> Figure:
    """Plot predicted numbers against the true ones, both [n], with the diagonal."""
    shown = slice(None, None, math.ceil(len(labels) / MOST_DOTS))
    figure, axes = new_figure(WIDTH, 0.8 * WIDTH)
    axes.scatter(labels[shown], predicted[shown], s=10, color=BLUE, alpha=0.1 + 0.5 * (len(labels) < 500), linewidths=0)
    axes.axline((labels.mean(), labels.mean()), slope=1, color=GREY, linestyle="--", linewidth=1)
    label_axes(axes, "true", "predicted")
    return figure


def precision_recall_plot(scores: PredictionScores) -> Figure | None:
    """Plot precision against recall of the positive one of two classes for every threshold, with a dot at the one in
    use.

    Return None for other predictions, and if no row or every row has that class.
    """
    from sklearn.metrics import precision_recall_curve

    if not isinstance(scores, ClassificationScores) or scores.positive is None or scores.probabilities is None:
        return None
    has_label = scores.labels == scores.positive
    if not has_label.any() or has_label.all():
        return None
    figure, axes = new_figure(WIDTH, 0.75 * WIDTH)
    chances = scores.probabilities[:, scores.positive]
    precision, recall, _ = precision_recall_curve(has_label, chances, drop_intermediate=True)
    axes.step(recall, precision, where="post", color=BLUE, label="all thresholds")
    if (scores.predicted == scores.positive).any():
        own = scores.per_class[scores.label_names[scores.positive]]
        axes.plot(own["recall"], own["precision"], "o", color=BLUE, markersize=7)
    label_axes(axes, "recall", "precision")
    return figure


def reliability_plot(calibration: Mapping[str, Any]) -> Figure:
    """Plot accuracy against confidence with the 95% interval of each bin; below, the counts of the bins.

    Bins without an interval, which hold few predictions, have no accuracy.
    """
    import pandas as pd

    figure, (upper, lower) = new_figure(WIDTH, 5.2, 2, sharex=True, height_ratios=[3, 1])
    bins: Any = pd.DataFrame(calibration["reliability"])
    upper.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="perfectly calibrated")
    for row in calibration["reliability"]:
        if row["accuracy_ci95"] is not None:
            upper.plot([row["confidence"]] * 2, row["accuracy_ci95"], color=BLUE, linewidth=2.2, alpha=0.4)
            upper.plot(row["confidence"], row["accuracy"], "o", color=BLUE, markersize=5)
    upper.set_ylim(-0.03, 1.03)
    label_axes(upper, beside="accuracy")
    lower.bar(bins["low"], bins["n"], 1 / calibration["bins"], align="edge", color=BLUE)
    lower.set_xlim(0, 1)
    label_axes(lower, "confidence (probability of the prediction)", "predictions")
    return figure


def attention_plot(weights: np.ndarray, tokens: Sequence[str], title: str) -> Figure:
    """Plot the attention maps of all heads of one layer: weights [heads, queries, keys]; each row sums to 1.

    All maps share one scale, from 0 to the layer's greatest weight. The figure grows with the tokens and names each of
    them, up to 80; beyond that it stays at that size and names some.
    """
    heads = len(weights)
    length = len(tokens)
    if heads <= 3:
        across = heads
    elif length <= 16:
        across = 4
    else:
        across = math.ceil(math.sqrt(heads))
    down = math.ceil(heads / across)
    side = min(max(2.6, 0.14 * length + 1.0), 12)
    named = range(0, length, math.ceil(length / 80))
    names = [short(tokens[place], 16) for place in named]
    figure, grid = new_figure(across * side + 1.2, down * side + 0.8, down, across, squeeze=False)
    for axes in grid.flat[heads:]:
        axes.set_visible(False)
    for head, axes in enumerate(grid.flat[:heads]):
        image = axes.imshow(weights[head], cmap="viridis", vmin=0, vmax=float(weights.max()), interpolation="nearest")
        axes.set_title(f"head {head + 1}")
        axes.set_xticks(named, names, **own_look(rotation=90, fontsize=7))
        axes.set_yticks(named, names, **own_look(fontsize=7))
    figure.suptitle(title, wrap=True, **own_look())
    figure.supxlabel("attended to (key)")
    figure.supylabel("attending token (query)")
    figure.colorbar(image, ax=grid, shrink=0.8, aspect=25 * down).set_label("attention weight")
    return figure
