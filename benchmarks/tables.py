"""A job's result as Markdown: ratios next to their targets, and a row of figures for each side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.jobs import JOBS, OURS, Job, Target
from benchmarks.machine import on_threads, provenance_in_words
from benchmarks.page import grid, mebibytes
from benchmarks.ratios import Spread, over_rounds, ratio, reached

COLUMNS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "examples_per_second": ("examples/s", lambda value: f"{value:,.0f}" if value >= 100 else f"{value:.1f}"),
    "tokens_per_second": ("real tokens/s", lambda value: f"{value:,.0f}"),
    "seconds_to_target": ("seconds to target", lambda value: f"{value:.2f}"),
    "seconds": ("seconds measured", lambda value: f"{value:.2f}"),
    "processor_seconds": ("processor time", lambda value: f"{value:.2f} s"),
    "padding": ("padding", lambda value: f"{value:.1%}"),
    "peak_memory": ("peak memory", mebibytes),
    "first_step_seconds": ("first step after", lambda value: f"{value:.1f} s"),
    "mfu": ("mfu", lambda value: f"{value:.1%}"),
    "batch_size": ("best batch", lambda value: f"{value:.0f}"),
}


def job_table(name: str, result: Mapping[str, Any]) -> str:
    """Return the whole result of a job."""
    job, rounds = JOBS[name], result["rounds"]
    lines = [f"{job.what[0].upper()}{job.what[1:]}.", ""]
    lines += [f"* {line}" for side in rounds[0] if _is_peer(job, side) for line in _compared(job, rounds, side)]
    lines += [f"* {_aimed(rounds, target)}" for target in job.targets if target.against is None]
    lines += ["", *_figures(rounds), ""]
    roofs = ", ".join(f"{roof / 1e12:.2f} TFLOP/s {precision}" for precision, roof in result["roofs"].items())
    count = f"{len(rounds)} round{'s' if len(rounds) > 1 else ''}, {on_threads(result['threads'])}"
    lines += [
        f"{count}. {f'Roof: {roofs}. ' if roofs else ''}{job.note}".strip(),
        "",
        f"{provenance_in_words(result)}.",
        "",
        "```",
    ]
    return "\n".join([*lines, *result["commands"].values(), "```"])


def _is_peer(job: Job, side: str) -> bool:
    """Return whether a side is compared with ours; our own other sides only have targets of their own."""
    return side not in {OURS, *(target.side for target in job.targets)}


def _compared(job: Job, rounds: Sequence[dict[str, Any]], peer: str) -> list[str]:
    """Return the ratios to a peer next to their targets; without a target, the ratio of the job's figure."""
    aimed = [_aimed(rounds, target) for target in job.targets if target.against == peer]
    return aimed or [f"{OURS} / {peer}: {_times(ratio(rounds, job.figure, peer))} ({_words(job.figure)})"]


def _aimed(rounds: Sequence[dict[str, Any]], target: Target) -> str:
    """Return a figure next to its target."""
    spread, met = reached(rounds, target)
    verdict = "met" if met else "missed"
    if target.against is not None:
        wanted = f"{target.at_least:g}x" if target.at_most is None else f"at most {target.at_most:g}x"
        figures = f"({_words(target.figure)}; target {wanted}, {verdict})"
        return f"**{target.side} / {target.against}: {_times(spread)}** {figures}"
    shown = COLUMNS[target.figure][1]
    wanted = f"at least {shown(target.at_least)}" if target.at_least is not None else f"at most {shown(target.at_most)}"
    found = (
        "not measured"
        if spread is None
        else f"{shown(spread.median)} ({shown(spread.lowest)} to {shown(spread.highest)})"
    )
    return f"**{target.side}, {_words(target.figure)}: {found}** (target {wanted}, {verdict})"


def _times(spread: Spread | None) -> str:
    return "not measured" if spread is None else f"{spread.median:.2f}x ({spread.lowest:.2f} to {spread.highest:.2f})"


def _words(figure: str) -> str:
    return COLUMNS[figure][0]


def _figures(rounds: Sequence[dict[str, Any]]) -> list[str]:
    """Return a row of medians for each side, in the columns that any side fills."""
    sides = list(rounds[0])
    columns = [name for name in COLUMNS if any(over_rounds(rounds, side, name) for side in sides)]
    rows = [[side, *(_cell(rounds, side, name) for name in columns)] for side in sides]
    return grid(["", *(COLUMNS[name][0] for name in columns)], rows)


def _cell(rounds: Sequence[dict[str, Any]], side: str, figure: str) -> str:
    """Return the median; for the first step also the first round's value, when nothing had been prepared."""
    spread, shown = over_rounds(rounds, side, figure), COLUMNS[figure][1]
    if spread is None:
        return ""
    cold = rounds[0][side].get(figure)
    if figure == "first_step_seconds" and len(rounds) > 1 and cold is not None:
        return f"{shown(spread.median)} (cold {shown(cold)})"
    return shown(spread.median)
