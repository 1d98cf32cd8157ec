"""The chart of the suite: the scores on each data set, and how far each kind of run is ahead of the linear model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.suite.kinds import KINDS
from benchmarks.suite.sets import GROUPS, SETS
from benchmarks.suite.tables import words_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Result = dict[str, Any]
LINEAR = "linear"
# Okabe and Ito's colours with a shape each: distinguishable for the colour-blind and in grey print.
STYLES: Mapping[str, tuple[str, str]] = {
    LINEAR: ("#666666", "D"),
    "scratch": ("#E69F00", "v"),
    "box": ("#0072B2", "o"),
    "minilm": ("#009E73", "s"),
    "student": ("#CC79A7", "^"),
}
TITLES = {
    LINEAR: "TF-IDF (tagging: each word's most frequent label)",
    **{name: kind.title for name, kind in KINDS.items()},
}
INK, FAINT, BAND = "#222222", "#BBBBBB", "#F4F5F7"
ROW, HEADING = 0.58, 0.46  # inches
OFFSET = 0.165  # between the marks of one set, as a fraction of its row


def draw(results: Mapping[str, Result], path: Path) -> None:
    """Write the chart of `results` to `path`, a PNG."""
    from matplotlib.figure import Figure

    places, headings = _places(results)
    height = ROW * len(places) + HEADING * len(headings)
    canvas = Figure(figsize=(11, height + 1.6), layout="constrained")
    scores, leads = canvas.subplots(1, 2, sharey=True, width_ratios=(5, 4))
    for number, (name, y) in enumerate(places.items()):
        for axes in (scores, leads):
            if number % 2 == 0:
                axes.axhspan(y - ROW / 2, y + ROW / 2, color=BAND, zorder=0, linewidth=0)
        _draw_set(scores, leads, results[name], y)
    _finish_scores(scores, {_named(results[name]): y for name, y in places.items()}, headings, height)
    _finish_leads(leads)
    handles, labels = _legend_entries(scores, results)
    canvas.legend(
        handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=10, handletextpad=0.3
    )
    canvas.supxlabel("Lines are 95% intervals. Scores are means over the seeds.", fontsize=9.5, color=INK)
    canvas.savefig(path, dpi=150, metadata={"Software": None})


def _places(results: Mapping[str, Result]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the distance from the top, in inches, of the middle of each set's row and of each group's heading."""
    places, headings, top = {}, {}, 0.0
    for group, title in GROUPS.items():
        names = [name for name, one in SETS.items() if one.group == group and name in results]
        if names:
            headings[title.replace("`", "")] = top + HEADING / 2
            top += HEADING
        for name in names:
            places[name] = top + ROW / 2
            top += ROW
    return places, headings


def _shown(results: Sequence[Result]) -> list[str]:
    """Return the kinds that have a finished run, in the order of the styles."""
    return [kind for kind in STYLES if any("score" in result["kinds"].get(kind, {}) for result in results)]


def _draw_set(scores: Axes, leads: Axes, result: Result, y: float) -> None:
    linear = result["baselines"].get(result["best_baseline"] or "", {})
    found = {LINEAR: linear, **{kind: result["kinds"].get(kind, {}) for kind in _shown([result])}}
    found = {kind: one for kind, one in found.items() if "score" in one}
    middle = (len(found) - 1) / 2
    for number, (kind, one) in enumerate(found.items()):
        at = y + (number - middle) * OFFSET * ROW
        _mark(scores, kind, one["score"], one["interval"], at)
        ahead = one.get("ahead") or {}
        if ahead.get("interval"):
            _mark(leads, kind, 100 * ahead["value"], [100 * bound for bound in ahead["interval"]], at)


def _mark(axes: Axes, kind: str, value: float, interval: Sequence[float], at: float) -> None:
    colour, shape = STYLES[kind]
    axes.plot(interval, [at, at], color=colour, linewidth=1.6, alpha=0.55, solid_capstyle="round", zorder=2)
    size = 5.5 if shape == "D" else 6.5
    axes.plot(value, at, shape, color=colour, markersize=size, markeredgecolor="white", markeredgewidth=0.7, zorder=3)


def _finish_scores(axes: Axes, places: Mapping[str, float], headings: Mapping[str, float], height: float) -> None:
    axes.set_ylim(height, 0)
    axes.set_yticks(list(places.values()), list(places), fontsize=10.5, color=INK)
    for title, y in headings.items():
        at = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        axes.annotate(title, (0, y), (6, 0), **at, va="center", fontsize=10.5, weight="bold", color=INK)
    _plain(axes, "Score (accuracy where no other is named)")


def _named(result: Result) -> str:
    """Return the name of the data set, with its score if that is not accuracy."""
    return result["name"] if result["figure"] == "accuracy" else f"{result['name']}, {words_of(result['figure'])}"


def _finish_leads(axes: Axes) -> None:
    axes.axvline(0, color=STYLES[LINEAR][0], linewidth=1.2, zorder=1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:+g}".replace("-", "\N{MINUS SIGN}") if value else "0")
    axes.tick_params(axis="y", labelleft=False)
    _plain(axes, "Points ahead of the linear model")


def _plain(axes: Axes, title: str) -> None:
    """Put a title on top and the scale at both ends of the panel, and remove everything that is not data."""
    axes.set_title(title, loc="left", fontsize=11.5, color=INK, pad=8)
    axes.grid(axis="x", color=FAINT, linewidth=0.5, alpha=0.6, zorder=0)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelcolor=INK, labeltop=True)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _legend_entries(axes: Axes, results: Mapping[str, Result]) -> tuple[list[Any], list[str]]:
    kinds = [LINEAR, *_shown(list(results.values()))]
    handles = [axes.plot([], [], STYLES[kind][1], color=STYLES[kind][0], markersize=7)[0] for kind in kinds]
    return handles, [TITLES[kind] for kind in kinds]
