"""Plots of a comparison: each setting's score, scores against a swept setting, and training curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from encoderlab.reports.comparison.comparison import shown
from encoderlab.reports.comparison.learning_curve import SHARE, curve_figure
from encoderlab.reports.parts.console import words_of
from encoderlab.reports.parts.plots import LOSS_UNITS, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, without the yellow that is invisible on white; after seven, the line style changes.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#888888")
STYLES = ("-", "--", ":", "-.")
MARKS = ("o", "s", "^", "D")
MOST_SWEPT, MOST_LINES, MOST_SETTINGS, MOST_TICKS = 6, 12, 60, 8
LONGEST_LABEL = 64
FEW_POINTS = 10  # which a line without markers would not show


def pictures_of(
    comparison: Mapping[str, Any], journals: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, tuple[Figure, str]]:
    """Return each plot by its name, with a sentence that describes it; `journals` are the runs' logged lines by folder."""
    score, rows = words_of(comparison["figure"]), comparison["settings"]
    found = {}
    if comparison["learning_curve"]:
        what = (
            f"Learning curve: {score} against the number of training rows, with the fitted curve up to twice as many."
        )
        found["learning_curve"] = (curve_figure(comparison), what)
    if len(rows) > 1:
        what = f"{score.capitalize()} of each setting: a mark for each seed, the mean and its 95% interval."
        found["scores"] = (_scores(comparison), what)
    for name in _swept(comparison)[:MOST_SWEPT]:
        if name == SHARE and comparison["learning_curve"]:
            continue
        what = f"{score.capitalize()} against {name}: a mark for each seed, a line through the means."
        found[f"{score.replace(' ', '_')}_against_{name.rpartition('.')[2]}"] = (_against(comparison, name), what)
    curves = _curves(comparison, journals)
    if curves is not None:
        found["curves"] = (
            curves,
            "Curves: training loss and evaluations of all runs against steps, one colour per setting.",
        )
    return found


def _look(number: int) -> dict[str, Any]:
    return {"color": COLORS[number % len(COLORS)], "linestyle": STYLES[number // len(COLORS) % len(STYLES)]}


def _scores(comparison: Mapping[str, Any]) -> Figure:
    from matplotlib.figure import Figure

    rows = comparison["settings"][:MOST_SETTINGS]
    canvas = Figure(figsize=(7.5, 1.2 + 0.38 * len(rows)), layout="constrained")
    axes = canvas.subplots()
    for place, row in enumerate(rows):
        color = COLORS[0] if row["label"] != comparison["reference"] else COLORS[1]
        if row["interval"]:
            axes.plot(row["interval"], [place, place], color=color, linewidth=2.2, alpha=0.5, solid_capstyle="butt")
        axes.plot(
            [run["score"] for run in row["runs"]],
            [place] * len(row["runs"]),
            "o",
            color=color,
            markersize=4,
            alpha=0.55,
        )
        axes.plot([row["value"]], [place], "|", color=color, markersize=15, markeredgewidth=2.4)
    axes.set_yticks(range(len(rows)), [_shortened(row["label"]) for row in rows], parse_math=False, fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    _finish(axes, words_of(comparison["figure"]), None)
    return canvas


def _shortened(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"


def _swept(comparison: Mapping[str, Any]) -> list[str]:
    """Return the settings with several numbers, and the number of parameters if the model's shape differs in other
    ways.
    """
    found = [
        name for name in comparison["varied"] if _is_numeric([row["values"][name] for row in comparison["settings"]])
    ]
    shapes = any(name.startswith("model.") for name in comparison["differing"])
    sizes = {row["parameters"] for row in comparison["settings"]}
    return [*found, *(["parameters"] if shapes and len(sizes) > 1 and "model.name" in comparison["varied"] else [])]


def _is_numeric(values: Sequence[Any]) -> bool:
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    return len(numbers) == len(values) and len(set(numbers)) > 1


def _against(comparison: Mapping[str, Any], name: str) -> Figure:
    """Return the plot of scores against one setting: a line for each combination of the other distinguishing settings."""
    from matplotlib.figure import Figure

    lines: dict[str, list[Mapping[str, Any]]] = {}
    others = [
        other
        for other in comparison["varied"]
        if other != name and not (name == "parameters" and other == "model.name")
    ]
    for row in comparison["settings"]:
        label = ", ".join(f"{other.rpartition('.')[2]}={shown(row['values'][other])}" for other in others)
        lines.setdefault(label, []).append(row)
    canvas = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = canvas.subplots()
    for number, (label, rows) in enumerate(list(lines.items())[:MOST_LINES]):
        points = sorted(((_at(row, name), row) for row in rows), key=lambda point: point[0])
        axes.plot(
            [x for x, _ in points],
            [row["value"] for _, row in points],
            linewidth=1.8,
            label=_shortened(label),
            **_look(number),
        )
        seeds = [(x, run["score"]) for x, row in points for run in row["runs"]]
        mark: dict[str, Any] = {"color": COLORS[number % len(COLORS)], "marker": MARKS[number % len(MARKS)]}
        axes.plot(*zip(*seeds, strict=True), linestyle="none", markersize=5, alpha=0.6, **mark)
    places = [_at(row, name) for row in comparison["settings"]]
    if min(places) > 0 and max(places) / min(places) >= 20:
        axes.set_xscale("log")
    elif len(set(places)) <= MOST_TICKS:
        axes.set_xticks(sorted(set(places)))
    _finish(axes, name, words_of(comparison["figure"]))
    return canvas


def _at(row: Mapping[str, Any], name: str) -> float:
    return row["parameters"] if name == "parameters" else row["values"][name]


def _curves(comparison: Mapping[str, Any], journals: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure | None:
    """Return training loss and the compared figure against steps, one colour per setting; None if nothing was logged."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    logged = [line for lines in journals.values() for line in lines]
    training_loss = f"training loss ({LOSS_UNITS.get(comparison['figure'], 'nats')})"
    kinds = [
        (kind, name, title)
        for kind, name, title in (
            ("step", "loss", training_loss),
            ("evaluation", comparison["figure"], "at evaluations"),
        )
        if sum(line["kind"] == kind and line.get(name) is not None for line in logged) > 1
    ]
    if not kinds:
        return None
    canvas = Figure(figsize=(7.5, 3.2 * len(kinds)), layout="constrained")
    panels = canvas.subplots(len(kinds), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (kind, name, title) in zip(panels, kinds, strict=True):
        for number, row in enumerate(comparison["settings"][:MOST_LINES]):
            for one, run in enumerate(row["runs"]):
                label = _shortened(row["label"]) if one == 0 and kind == kinds[0][0] else None
                _draw(axes, journals.get(run["folder"], []), kind, name, {"label": label, **_look(number)})
        _finish(axes, None, title if kind == "step" else f"{words_of(name)} {title}")
    panels[-1].set_xlabel("optimizer step")
    panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    panels[-1].xaxis.set_major_formatter("{x:,.0f}")
    return canvas


def _draw(axes: Axes, lines: Sequence[Mapping[str, Any]], kind: str, name: str, look: Mapping[str, Any]) -> None:
    points = [(line["step"], line[name]) for line in lines if line["kind"] == kind and line.get(name) is not None]
    points = [(step, value) for step, value in points if math.isfinite(value)]
    if points:
        marked = kind == "evaluation" or len(points) < FEW_POINTS
        axes.plot(*zip(*points, strict=True), linewidth=1.3, alpha=0.8, marker="." if marked else None, **look)


def _finish(axes: Axes, below: str | None, beside: str | None) -> None:
    axes.set_xlabel(below or "", parse_math=False)
    axes.set_ylabel(beside or "", parse_math=False)
    plain(axes)
    if any(axes.get_legend_handles_labels()[1]):
        axes.legend(frameon=False, fontsize=8)
