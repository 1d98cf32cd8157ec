"""Runs on nested shares of the same training rows: the curve of their scores, and whether more labels would help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.metrics.resampling.learning_curve import FURTHEST, LearningCurve, fit_learning_curve
from encoderlab.metrics.scores import is_lower_better
from encoderlab.reports.parts.console import words_of
from encoderlab.reports.parts.plots import plain
from encoderlab.reports.training.report import BASELINE_NAMES
from encoderlab.runs.folders.finished import FinishedRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARE = "dataset.train_share"
FEWEST_SIZES = 3
DRAWN_UP_TO, POINTS = 2, 60  # times the largest number of rows; points of the drawn curve
SMALL_GAIN, SMALL_SHARE_OF_ERROR = (
    0.01,
    0.02,
)  # below which more rows are not worth it: of a score, and of an error's present value
NOT_LEARNED = ("majority", "mean", "word_majority")  # baselines that more rows do not improve


def learning_curve_of(
    groups: Sequence[Sequence[FinishedRun]], varied: Sequence[str], figure: str
) -> dict[str, Any] | None:
    """Return compare.json's learning curve, if the runs differ only in their share of training rows.

    `groups` are the runs by setting. None if there are fewer than three sizes.
    """
    if list(varied) != [SHARE]:  # an evaluation may not know its training rows
        return None
    runs = sorted((run for group in groups for run in group), key=_trained_on)
    sizes = [_trained_on(run) for run in runs]
    if len(set(sizes)) < FEWEST_SIZES:
        return None
    lower = is_lower_better(figure)
    scores = [run.scores[figure] for run in runs]
    curve = fit_learning_curve(sizes, scores, _standard_errors(runs, figure), lower_is_better=lower)
    drawn = np.geomspace(min(sizes), DRAWN_UP_TO * max(sizes), POINTS).round().astype(int).tolist()
    return {
        "points": [
            {"rows": rows, "seed": run.seed, "score": score}
            for rows, run, score in zip(sizes, runs, scores, strict=True)
        ],
        "fitted": {
            "a": curve.sign * curve.a[0],
            "b": curve.sign * curve.b[0],
            "c": curve.c[0],
            "largest": curve.largest,
        },
        "table": [_line(curve, rows, sizes, scores) for rows in [*sorted(set(sizes)), 2 * max(sizes), 4 * max(sizes)]],
        "curve": [[rows, curve.at(rows), *curve.interval_at(rows)] for rows in drawn],
        "baseline": _baseline(runs, figure),
        "verdict": _verdict(curve, words_of(figure), lower),
    }


def why_no_curve(groups: Sequence[Sequence[FinishedRun]], varied: Sequence[str]) -> list[str]:
    """Return a note if the runs differ in their share of training rows but have no learning curve; otherwise none."""
    if SHARE not in varied:
        return []
    if others := [name for name in varied if name != SHARE]:
        return [
            f"No learning curve is fitted, because the runs also differ in {', '.join(others)}: compare those of one value"
        ]
    sizes = sorted({_trained_on(run) for group in groups for run in group})
    if len(sizes) >= FEWEST_SIZES:
        return []
    counts = " and ".join(f"{size:,}" for size in sizes)
    takes = (
        f"No learning curve is fitted: that takes runs on at least {FEWEST_SIZES} different numbers of training rows"
    )
    return [f"{takes}, and these have {counts}. Add a share, such as {SHARE}=0.25"]


def _trained_on(run: FinishedRun) -> int:
    return run.dataset["splits"]["train"]["rows"]


def _standard_errors(runs: Sequence[FinishedRun], figure: str) -> list[float]:
    """Return each score's standard error: from its interval over the rows, or half a row of the split if that has no
    width.
    """
    least = [1 / (2 * run.scores["n"]) for run in runs]
    widths = [np.ptp(run.scores.get(f"{figure}_ci95", [0.0, 0.0])) for run in runs]
    return [max(float(width) / 3.92, one) for width, one in zip(widths, least, strict=True)]


def _line(curve: LearningCurve, rows: int, sizes: Sequence[int], scores: Sequence[float]) -> dict[str, Any]:
    measured = [score for size, score in zip(sizes, scores, strict=True) if size == rows]
    mean = float(np.mean(measured)) if measured else None
    return {"rows": rows, "measured": mean, "fitted": curve.at(rows), "interval": curve.interval_at(rows)}


def _baseline(runs: Sequence[FinishedRun], figure: str) -> dict[str, Any] | None:
    """Return the `name` and `points` of the baseline that learns from the rows and is best with most of them."""
    names = [name for name in runs[-1].report["baselines"] if name not in NOT_LEARNED]
    found = {}
    for name in names:
        points = [[_trained_on(run), run.report["baselines"].get(name, {}).get(figure)] for run in runs]
        if all(score is not None for _, score in points):
            found[name] = [list(point) for point in dict.fromkeys(map(tuple, points))]
    if not found:
        return None
    best = (min if is_lower_better(figure) else max)(found, key=lambda name: found[name][-1][1])
    return {"name": BASELINE_NAMES.get(best, best), "points": found[best]}


def _verdict(curve: LearningCurve, score: str, lower: bool) -> str:
    """Return in a sentence or two whether more labels would help, and how many for how much."""
    rows, now = curve.largest, curve.at(curve.largest)
    gain, (low, high) = curve.gain(2 * rows)
    small = SMALL_SHARE_OF_ERROR * now if lower else SMALL_GAIN
    sign = "-" if lower else "+"
    interval = f"95% interval {sign}{low:.3f} to {sign}{high:.3f}"
    expected = f"twice the rows ({rows:,} more) would change {score} by {sign}{gain:.3f} ({interval})"
    if high < small:
        return f"More labels would hardly help: {expected}"
    helps = "More labels would help" if low >= small / 2 else "More labels may help, but these runs do not settle it"
    needed = curve.rows_for(small)
    step = f"{sign}{small:.3g}"
    if needed is None:
        next_step = f"On the fitted curve, {step} takes more than {FURTHEST} times the rows, or is out of reach"
    else:
        next_step = f"On the fitted curve, the next {step} takes about {_rounded(needed - rows)} more"
    advice = "" if low >= small / 2 else ". More seeds (seed=0,1,2) and more test rows would narrow the interval"
    return f"{helps}: {expected}. {next_step}{advice}"


def _rounded(count: int) -> str:
    """Return a count to two figures, because it is not more certain than that."""
    digits = max(len(str(max(count, 1))) - 2, 0)
    return f"{round(count, -digits):,}"


def curve_table(curve: Mapping[str, Any]) -> list[list[str]]:
    """Return the curve as a table: its heading, then a line for each number of rows, the last two extrapolated."""
    heading = ["training rows", "measured", "fitted", "95% interval of the curve"]
    lines = [
        [
            f"{line['rows']:,}",
            "-" if line["measured"] is None else f"{line['measured']:.3f}",
            f"{line['fitted']:.3f}",
            f"{line['interval'][0]:.3f} to {line['interval'][1]:.3f}",
        ]
        for line in curve["table"]
    ]
    return [heading, *lines]


def curve_figure(comparison: Mapping[str, Any]) -> Figure:
    """Plot scores against training rows, with the fitted curve and its interval up to twice the rows, and the baseline."""
    from matplotlib.figure import Figure

    curve, largest = comparison["learning_curve"], comparison["learning_curve"]["fitted"]["largest"]
    canvas = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = canvas.subplots()
    rows, fitted, low, high = (np.array(column) for column in zip(*curve["curve"], strict=True))
    tried, beyond = rows <= largest, rows >= rows[rows <= largest].max()
    axes.fill_between(rows, low, high, color="#0072B2", alpha=0.15, linewidth=0, label="95% interval of the curve")
    axes.plot(rows[tried], fitted[tried], color="#0072B2", linewidth=1.8, label="fitted: a - b n^-c")
    axes.plot(rows[beyond], fitted[beyond], color="#0072B2", linewidth=1.8, linestyle="--", label="extrapolated")
    axes.plot(
        *zip(*((one["rows"], one["score"]) for one in curve["points"]), strict=True), "o", color="#0072B2", markersize=6
    )
    if (baseline := curve["baseline"]) is not None:
        axes.plot(*zip(*baseline["points"], strict=True), "s--", color="#888888", markersize=4, label=baseline["name"])
    axes.axvline(largest, color="#888888", linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    sizes = sorted({one["rows"] for one in curve["points"]} | {DRAWN_UP_TO * largest})
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("training rows")
    axes.set_ylabel(words_of(comparison["figure"]), parse_math=False)
    plain(axes)
    axes.legend(frameon=False, fontsize=8)
    return canvas
