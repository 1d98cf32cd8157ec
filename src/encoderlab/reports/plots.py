"""Plots of a run, of its predictions, and of several runs side by side, each as a matplotlib figure.

A figure is written as a PNG with a title and then drawn on a page without one. Colours are Okabe and Ito's: the
colour-blind can tell them apart and, with the line styles, so can a reader of a grey print.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.metrics.calibration import DEFAULT
from encoderlab.metrics.scores import PredictionScores, is_lower_better
from encoderlab.metrics.texts import ClassificationScores
from encoderlab.reports.blocks import words_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"
STYLES = ("-", "--", ":", "-.")
# Fonts for Chinese, Japanese, Korean and emoji, used where they are installed.
MORE_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Noto Sans JP", "Noto Sans KR", "WenQuanYi Zen Hei"),
    *("Droid Sans Fallback", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "Arial Unicode MS", "Noto Emoji"),
)
WIDTH = 6.5  # inches
MOST_POINTS = 500  # of a line over the steps
MOST_DOTS = 3000  # of a scatter plot, spread evenly over the rows
MOST_CLASSES_WRITTEN, MOST_CLASSES_NAMED = 30, 110
SQUARED = ("pearson", "spearman", "mae", "rmse")  # metrics of numbers, whose loss is a squared error

Lines = Sequence[Mapping[str, Any]]  # of metrics.jsonl


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def write_png(figure: Figure, path: Path, title: str = "") -> None:
    """Write `figure` under a `title` to `path` as a PNG of 150 dots per inch; the figure itself stays without one.

    The canvas computes the layout as it draws. `Figure.savefig` draws everything twice, the first time for the layout
    alone.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    above = figure.suptitle(drawable(title), wrap=True, **_look(fontsize=11)) if title else None
    figure.set_dpi(150)
    FigureCanvasAgg(figure).print_png(path)
    if above is not None:
        above.set_visible(False)
        above.set_in_layout(False)


def _finish(axes: Axes, below: str | None = None, beside: str | None = None) -> None:
    """Name the axes, and give them a faint grid, a frame at their scales, and a legend for named lines."""
    if below is not None:
        axes.set_xlabel(below, parse_math=False)
    if beside is not None:
        axes.set_ylabel(beside, parse_math=False)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if any(axes.get_legend_handles_labels()[1]):
        axes.legend(frameon=False, fontsize=8.5)


def short(name: str, most: int = 24) -> str:
    """Return a name as plots show it."""
    return drawable(name if len(name) <= most else f"{name[: most - 1]}…")


@cache
def fonts() -> list[str]:
    """Return the fonts that letters are drawn with: each one from the first that has it."""
    from matplotlib.font_manager import fontManager

    return ["DejaVu Sans", *(name for name in MORE_FONTS if name in fontManager.get_font_names())]


@cache
def _letters() -> frozenset[int]:
    """Return the code points that `fonts` can draw."""
    from matplotlib.font_manager import findfont, get_font

    return frozenset().union(*(get_font(findfont(name)).get_charmap() for name in fonts()))


def _look(**look: Any) -> dict[str, Any]:
    """Return how names from the data are drawn: no formulas in them, and each letter from a font that has it."""
    return {"parse_math": False, "family": fonts(), **look}


def drawable(text: str) -> str:
    """Return the text with letters that no font here has, of which matplotlib warns, written as \\u4e2d."""
    return "".join(one if ord(one) in _letters() else one.encode("unicode_escape").decode() for one in text)


def _spread(n: int, most: int) -> np.ndarray:
    """Return at most `most` of the places 0 to n - 1, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int))


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the curves: the names of its values in metrics.jsonl, and a title before their labels.

    `baseline` is the metric's value of the best baseline, None if there is none.
    """

    training_loss: str
    loss: str
    metric: str
    title: str = ""
    baseline: float | None = None


def curves(lines: Lines, columns: Sequence[Column]) -> Figure:
    """Plot loss, metric and learning rate against steps, in a column for each objective.

    The training loss is drawn as logged (faint) and smoothed, evaluations as logged. Each line has at most 500 points,
    which are means of the values between them.
    """
    steps, evaluations = _thinned(lines)
    heights = [3.0, 3.0, 1.2] if evaluations else [3.0, 1.2]
    figure = new_figure(WIDTH * len(columns), sum(heights))
    grid = figure.subplots(len(heights), len(columns), sharex=True, squeeze=False, height_ratios=heights).T
    for panels, column in zip(grid, columns, strict=True):
        unit = "squared error" if column.metric in SQUARED else "nats"
        _draw_training_loss(panels[0], steps, column.training_loss)
        _draw_evaluations(panels[0], evaluations, column.loss, ORANGE)
        _finish(panels[0], beside=f"{column.title}loss ({unit})")
        if evaluations:
            _draw_evaluations(panels[1], evaluations, column.metric, GREEN)
            if column.baseline is not None:
                label = f"best baseline: {column.baseline:.3f}"
                panels[1].axhline(column.baseline, color=GREY, linestyle="-.", linewidth=1.2, label=label)
            _finish(panels[1], beside=f"{column.title}{words_of(column.metric)}")
        rates = [line["learning_rate"] for line in steps]
        panels[-1].plot([line["step"] for line in steps], rates, color=GREY, linewidth=1.5)
        panels[-1].ticklabel_format(axis="y", style="sci", scilimits=(-2, 2))
        panels[-1].set_ylim(bottom=0)
        panels[-1].xaxis.set_major_formatter("{x:,.0f}")
        _finish(panels[-1], "optimizer step", "learning rate")
    return figure


def _thinned(lines: Lines) -> tuple[Lines, Lines]:
    """Return at most 500 lines of steps, each the mean of several, and at most 500 evaluations."""
    steps = [line for line in lines if line["kind"] == "step"]
    evaluations = [line for line in lines if line["kind"] == "evaluation"]
    every = max(-(-len(steps) // MOST_POINTS), 1)
    groups = [steps[start : start + every] for start in range(0, len(steps), every)]
    return [_mean(group) for group in groups], evaluations[:: -(-len(evaluations) // MOST_POINTS) or 1]


def _mean(lines: Lines) -> Mapping[str, Any]:
    losses = [name for name in lines[-1] if name.startswith("loss")]
    known = {name: [line[name] for line in lines if line.get(name) is not None] for name in losses}
    return {**lines[-1], **{name: sum(values) / len(values) if values else None for name, values in known.items()}}


def _draw_training_loss(axes: Axes, steps: Lines, name: str) -> None:
    points = [(line["step"], line[name]) for line in steps if line.get(name) is not None]
    if len(points) < 2:
        return
    at, losses = np.array([step for step, _ in points]), np.array([loss for _, loss in points], dtype=float)
    axes.plot(at, losses, color=BLUE, alpha=0.25, linewidth=0.8, label="training batches, as logged")
    axes.plot(at, smoothed(losses), color=BLUE, linewidth=1.8, label="training batches, running mean")


def smoothed(values: np.ndarray) -> np.ndarray:
    """Return the centred running mean over a twentieth of the values on each side, fewer towards the ends: [values]."""
    reach = len(values) // 20
    sums = np.concatenate([[0.0], np.cumsum(values)])
    low = np.maximum(np.arange(len(values)) - reach, 0)
    high = np.minimum(np.arange(len(values)) + reach + 1, len(values))
    return (sums[high] - sums[low]) / np.maximum(high - low, 1)


def _draw_evaluations(axes: Axes, evaluations: Lines, name: str, color: str) -> None:
    """Draw one line for each split, with its best point in words."""
    for split, style in zip(dict.fromkeys(line["split"] for line in evaluations), STYLES, strict=False):
        points = [
            (line["step"], line[name]) for line in evaluations if line["split"] == split and line.get(name) is not None
        ]
        if points:
            best = min(points, key=lambda point: point[1] if is_lower_better(name) else -point[1])
            label = f"{split}: best {best[1]:.3f} at step {best[0]:,}"
            look: dict[str, Any] = {"linestyle": style, "marker": "o", "markersize": 4, "linewidth": 1.5}
            axes.plot(*zip(*points, strict=True), label=label, color=color, **look)


def confusion_plot(confusion: Sequence[Sequence[int]], labels: Sequence[str]) -> Figure:
    """Plot the confusion matrix, true classes as rows: counts as text, shares of the row as shade and text.

    Beyond 30 classes there are only shades; beyond 110 not every class is named.
    """
    counts = np.array(confusion)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    names = list(map(short, labels))
    written = len(names) <= MOST_CLASSES_WRITTEN
    side = min(max(4.5, 1.8 + (0.62 if written else 0.2) * len(names)), 24)
    named = range(0, len(names), math.ceil(len(names) / MOST_CLASSES_NAMED))
    figure = new_figure(side + 1.2, side + 0.4)
    axes = figure.subplots()
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for row, column in np.ndindex(*counts.shape) if written else ():
        count, share = counts[row, column], shares[row, column]
        percent = "<1%" if share < 0.005 else ">99%" if 0.995 <= share < 1 else f"{share:.0%}"
        look = {"ha": "center", "va": "center", "fontsize": 11 if len(counts) <= 4 else 7}
        color = "white" if share > 0.6 else "black" if count else GREY
        axes.text(column, row, f"{count:,}\n{percent}" if count else "0", color=color, **look)
    upright = len(names) <= 4 and max(map(len, names)) <= 10
    turned = {"rotation": 0, "ha": "center"} if upright else {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(named, [names[i] for i in named], **_look(**turned))
    axes.set_yticks(named, [names[i] for i in named], **_look())
    axes.set_xlabel("predicted", fontsize=max(10, side))
    axes.set_ylabel("true", fontsize=max(10, side))
    axes.set_title(f"{counts.sum():,} predictions; percentages of each true class", fontsize=10)
    figure.colorbar(image, ax=axes, shrink=0.8, format="{x:.0%}").set_label("share of the true class")
    return figure


def numbers_plot(labels: np.ndarray, predicted: np.ndarray) -> Figure:
    """Plot predicted numbers against the true ones, both [n], with the diagonal."""
    places = _spread(len(labels), MOST_DOTS)
    figure = new_figure(WIDTH, 0.8 * WIDTH)
    axes = figure.subplots()
    ends = [min(labels.min(), predicted.min()), max(labels.max(), predicted.max())]
    axes.plot(ends, ends, color=GREY, linestyle="--", linewidth=1)
    alpha = min(1.0, 200 / len(places)) * 0.5 + 0.1
    axes.scatter(labels[places], predicted[places], s=10, color=BLUE, alpha=alpha, linewidths=0)
    _finish(axes, "true", "predicted")
    return figure


def precision_recall_plot(scores: PredictionScores) -> Figure | None:
    """Plot precision against recall of the positive one of two classes for every threshold, with a dot at the one in
    use.

    Return None for other predictions, and if no row or every row has that class.
    """
    from sklearn.metrics import average_precision_score, precision_recall_curve

    if not isinstance(scores, ClassificationScores) or scores.positive is None or scores.probabilities is None:
        return None
    has_label, probabilities = scores.labels == scores.positive, scores.probabilities[:, scores.positive]
    if not has_label.any() or has_label.all():
        return None
    figure = new_figure(WIDTH, 0.75 * WIDTH)
    axes = figure.subplots()
    precision, recall, _ = precision_recall_curve(has_label, probabilities)
    drawn = _spread(len(recall), MOST_DOTS)
    area = average_precision_score(has_label, probabilities)
    axes.plot(recall[drawn], precision[drawn], color=BLUE, linewidth=1.6, label=f"average precision {area:.3f}")
    predicted = probabilities >= (DEFAULT if scores.threshold is None else scores.threshold)
    if predicted.any():
        hits = (predicted & has_label).sum()
        axes.plot(hits / has_label.sum(), hits / predicted.sum(), "o", color=BLUE, markersize=7)
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    _finish(axes, "recall", "precision")
    return figure


def reliability_plot(calibration: Mapping[str, Any]) -> Figure:
    """Plot accuracy against confidence before and after temperature scaling; below, the counts of the bins."""
    figure = new_figure(WIDTH, 5.2)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    upper.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="perfectly calibrated")
    each = [(calibration, BLUE, "o", "saved model")]
    if (before := calibration.get("uncalibrated")) is not None:
        each.append((before, ORANGE, "s", f"before temperature {calibration['temperature']:.2f}"))
    for one, color, marker, name in each:
        points = [(one_bin["confidence"], one_bin["accuracy"]) for one_bin in one["reliability"]]
        label = f"{name}: ECE {one['ece']:.3f}"
        upper.plot(*zip(*points, strict=True), color=color, marker=marker, markersize=5, linewidth=1.4, label=label)
    upper.set_ylim(-0.03, 1.03)
    _finish(upper, beside="accuracy")
    bins = calibration["reliability"]
    low, counts = [one["low"] for one in bins], [one["n"] for one in bins]
    lower.bar(low, counts, 1 / calibration["bins"], align="edge", color=BLUE)
    lower.set_xlim(0, 1)
    _finish(lower, "confidence (probability of the prediction)", "predictions")
    return figure


def settings_plot(rows: Sequence[Mapping[str, Any]], reference: str, score: str) -> Figure:
    """Plot each setting of a comparison: a mark for each seed, the mean and its 95% interval."""
    figure = new_figure(7.5, 1.2 + 0.38 * len(rows))
    axes = figure.subplots()
    for place, row in enumerate(rows):
        color = ORANGE if row["label"] == reference else BLUE
        if row["interval"]:
            axes.plot(row["interval"], [place, place], color=color, linewidth=2.2, alpha=0.5, solid_capstyle="butt")
        seeds = [run["score"] for run in row["runs"]]
        axes.plot(seeds, [place] * len(seeds), "o", color=color, markersize=4, alpha=0.55)
        axes.plot([row["value"]], [place], "|", color=color, markersize=15, markeredgewidth=2.4)
    axes.set_yticks(range(len(rows)), [short(row["label"], 64) for row in rows], **_look(fontsize=8))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    _finish(axes, score)
    return figure


def attention_plot(weights: np.ndarray, tokens: Sequence[str], title: str) -> Figure:
    """Plot the attention maps of all heads of one layer: weights [heads, queries, keys]; each row sums to 1.

    All maps share one scale, from 0 to the layer's greatest weight. The figure grows with the tokens and names each of
    them, up to 80; beyond that it stays at that size and names some.
    """
    heads, length = weights.shape[0], len(tokens)
    across = heads if heads <= 3 else 4 if length <= 16 else math.ceil(math.sqrt(heads))
    down = -(-heads // across)
    side = min(max(2.6, 0.14 * length + 1.0), 12)
    named = range(0, length, math.ceil(length / 80))
    names = [short(tokens[place], 16) for place in named]
    figure = new_figure(across * side + 1.2, down * side + 0.8)
    grid = figure.subplots(down, across, squeeze=False)
    for axes in grid.flat[heads:]:
        axes.set_visible(False)
    for head, axes in enumerate(grid.flat[:heads]):
        image = axes.imshow(weights[head], cmap="viridis", vmin=0, vmax=float(weights.max()), interpolation="nearest")
        axes.set_title(f"head {head}", fontsize=max(9, side))
        axes.set_xticks(named, names, **_look(rotation=90, fontsize=7))
        axes.set_yticks(named, names, **_look(fontsize=7))
        axes.tick_params(length=2, pad=1)
    size = max(9, side * across / 1.8)
    figure.suptitle(drawable(title), wrap=True, **_look(fontsize=size + 1))
    figure.supxlabel("attended to (key)", fontsize=size)
    figure.supylabel("attending token (query)", fontsize=size)
    bar = figure.colorbar(image, ax=grid, shrink=0.8, aspect=25 * down)
    bar.set_label("attention weight", fontsize=size)
    bar.ax.tick_params(labelsize=size)
    return figure
