"""Run a job: all its sides in turn, round after round (A B A B ...), each in its own process; and show the result."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.jobs import JOBS, OURS, Job, Numbers, Side
from benchmarks.processes import (
    BEFORE,
    busy_processes,
    finished,
    grid,
    mebibytes,
    minilm_folder,
    missing_needs,
    provenance,
    python,
)
from benchmarks.roof import probe

LESS_IS_BETTER = {"seconds"}
COLUMNS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "examples_per_second": ("examples/s", lambda value: f"{value:,.0f}" if value >= 100 else f"{value:.1f}"),
    "tokens_per_second": ("real tokens/s", lambda value: f"{value:,.0f}"),
    "seconds": ("seconds measured", lambda value: f"{value:.2f}"),
    "processor_seconds": ("processor time", lambda value: f"{value:.2f} s"),
    "padding": ("padding", lambda value: f"{value:.1%}"),
    "peak_memory": ("peak memory", mebibytes),
    "first_step_seconds": ("first step after", lambda value: f"{value:.1f} s"),
    "mfu": ("mfu", lambda value: f"{value:.1%}"),
    "batch_size": ("best batch", lambda value: f"{value:.0f}"),
}
Rounds = Sequence[Mapping[str, Numbers]]  # round by round, the numbers of each side


@dataclass(frozen=True, slots=True)
class Settings:
    """How jobs are run: `shared` is the folder of the peers' scripts; `small` runs only a few steps."""

    rounds: int
    threads: int
    shared: Path
    small: bool = False


def spread(values: Sequence[float]) -> tuple[float, float, float] | None:
    """Return the median of some values, the lowest and the highest; None if there are no values."""
    return (statistics.median(values), min(values), max(values)) if values else None


def why_skipped(name: str, settings: Settings) -> str:
    """Return why a job cannot be run; "" if ours and one peer can."""
    first, *peers = (missing_needs(side.needs, settings.shared) for side in JOBS[name].sides)
    return first or (peers[0] if all(peers) else "")


def run_job(name: str, settings: Settings) -> str:
    """Run all rounds of a job and return its table. Raises TrainingError if a side fails."""
    job = JOBS[name]
    sides = [side for side in job.sides if not missing_needs(side.needs, settings.shared)]
    for side in job.sides:
        if side not in sides:
            print(f"  {side.name} is left out: {missing_needs(side.needs, settings.shared)}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as work:
        threads = str(settings.threads)
        environment = {"OMP_NUM_THREADS": threads, "RAYON_NUM_THREADS": threads, **job.environment}
        if not settings.small:  # the first round must find nothing prepared
            environment["ENCODERLAB_CACHE"] = f"{work}/cache"
        places = {"work": work, "threads": threads, "shared": str(settings.shared), "minilm": str(minilm_folder())}
        places["before"] = os.environ.get(BEFORE, "")
        for arguments in job.setup:
            finished(python(*(word.format_map(places) for word in arguments)), environment)
        roofs = {}
        if job.shape:
            roofs = probe(job.shape, job.tokens, "cpu", settings.threads, small=settings.small)
        rounds = [_round(job, sides, places, environment, seed, settings.small) for seed in range(settings.rounds)]
    for numbers in rounds:
        _add_mfu(job, sides, numbers, roofs)
    return job_table(job, rounds, f"{settings.threads} threads", roofs)


def _round(
    job: Job, sides: Sequence[Side], places: dict[str, str], environment: dict[str, str], seed: int, small: bool
) -> dict[str, Numbers]:
    """Run each side once; the seed is the round's number."""
    numbers = {}
    with tempfile.TemporaryDirectory(dir=places["work"]) as of_round:
        for side in sides:
            with tempfile.TemporaryDirectory(dir=of_round) as folder:
                here = {**places, "round": of_round, "folder": folder, "seed": str(seed)}
                command = python(*(word.format_map(here) for word in side.command(small=small)))
                with busy_processes(side.busy):
                    own = {name: value and value.format_map(here) for name, value in side.environment.items()}
                    done = finished(command, {**environment, **own})
                numbers[side.name] = {**side.read(done, Path(folder)), "peak_memory": done.peak_memory}
            print(
                f"  round {seed + 1}, {side.name}: {job.metric} {numbers[side.name].get(job.metric)}", file=sys.stderr
            )
    return numbers


def _add_mfu(job: Job, sides: Sequence[Side], numbers: dict[str, Numbers], roofs: dict[str, float]) -> None:
    """Add to each side its fraction of the roof, in the precision of ours."""
    roof = roofs.get(numbers[OURS].get("precision", ""))
    for side in sides:
        measured = numbers[side.name]
        if roof and measured.get("tokens_per_second"):
            length = measured["tokens_per_second"] / measured["examples_per_second"]
            measured["mfu"] = round((side.shape or job.shape).mfu(roof, measured["tokens_per_second"], length), 4)


def ratio(rounds: Rounds, metric: str, peer: str) -> tuple[float, float, float] | None:
    """Return how many times better than the peer we are, within each round; None if no round has both numbers.

    The two of a round were measured one right after the other, so other load on the machine affects both. For processor
    time, which is a cost, it is how many times as much ours takes.
    """
    pairs = [(numbers[OURS].get(metric), numbers[peer].get(metric)) for numbers in rounds]
    return spread([b / a if metric in LESS_IS_BETTER else a / b for a, b in pairs if a and b])


def job_table(job: Job, rounds: Rounds, threads: str, roofs: Mapping[str, float]) -> str:
    """Return the whole result of a job as Markdown: the ratios, and a row of medians for each side."""
    lines = [f"{job.what[0].upper()}{job.what[1:]}.", ""]
    for peer in list(rounds[0])[1:]:
        ratios = ratio(rounds, job.metric, peer)
        times = "not measured" if ratios is None else "{:.2f}x ({:.2f} to {:.2f})".format(*ratios)
        lines.append(f"* {OURS} / {peer}: {times} ({COLUMNS[job.metric][0]})")
    columns = [name for name in COLUMNS if any(_cell(rounds, side, name) for side in rounds[0])]
    rows = [[side, *(_cell(rounds, side, name) for name in columns)] for side in rounds[0]]
    speeds = [f"{roof / 1e12:.2f} TFLOP/s {precision}" for precision, roof in roofs.items()]
    probed = f" Roof: {', '.join(speeds)}." if speeds else ""
    lines += ["", *grid(["", *(COLUMNS[name][0] for name in columns)], rows), ""]
    return "\n".join([*lines, f"{len(rounds)} rounds, {threads}.{probed} {provenance()}."])


def _cell(rounds: Rounds, side: str, metric: str) -> str:
    """Return the median; for the first step also the first round's value, when nothing had been prepared."""
    values = [numbers[side][metric] for numbers in rounds if numbers[side].get(metric) is not None]
    if not values:
        return ""
    shown = COLUMNS[metric][1]
    cold = rounds[0][side].get(metric)
    median = shown(statistics.median(values))
    return f"{median} (cold {shown(cold)})" if metric == "first_step_seconds" and len(rounds) > 1 and cold else median
