"""The sides of a comparison: how each is started, and how its figures are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.processes import Finished, finished, python
from benchmarks.shapes import Shape

WARMUP = 10  # steps not counted in the speed, as in the peers' own meter
Figures = dict[str, Any]
Reader = Callable[[Finished, Path], Figures]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the programs to compare.

    `arguments` are Python's, with places such as {steps} to be filled in; `small` are added where only a few
    `small_steps` are wanted. `needs` names what has to be there: hub, shared, accelerate. `shape` is the model's where
    it differs from the job's.
    """

    name: str
    arguments: tuple[str, ...]
    read: Reader
    steps: int = 0
    small_steps: int = 20
    small: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    shape: Shape | None = None

    def command(self, *, small: bool) -> tuple[str, ...]:
        """Return Python's arguments with the number of steps filled in, but not the other places."""
        steps = str(self.small_steps if small else self.steps)
        given = (*self.arguments, *self.small) if small else self.arguments
        return tuple(argument.replace("{steps}", steps) for argument in given)

    def run(self, places: Mapping[str, str], environment: Mapping[str, str], *, small: bool) -> Figures:
        """Run it to its end. Raises TrainingError if it fails."""
        done = finished(python(*filled(self.command(small=small), places)), environment)
        read = self.read(done, Path(places["folder"]))
        return {**read, "peak_memory": done.peak_memory, "process_seconds": round(done.seconds, 2)}


def filled(arguments: Sequence[str], places: Mapping[str, str]) -> list[str]:
    """Return the arguments with every {place} filled in."""
    return [argument.format_map(places) for argument in arguments]


def printed(done: Finished, folder: Path) -> Figures:
    """Return the figures of a script that ends with a line of JSON."""
    figures = json.loads(done.last_line)
    return {name.removeprefix("real_"): value for name, value in figures.items()}


def processor_time(done: Finished, folder: Path) -> Figures:
    """Return the cost of the whole process, from start to end."""
    return {"processor_seconds": round(done.processor_seconds, 3)}


def journalled(done: Finished, folder: Path, *, compiled: bool = False) -> Figures:
    """Return the figures of our own run in `folder`/run, between the first logged step after the warmup and the last
    one.

    If the model was `compiled`, they start after the last recompilation.
    """
    run = folder / "run"
    steps = [line for line in _journal(run) if line["kind"] == "step"]
    last = steps[-1]
    counted_from = max(WARMUP, _last_slow_step(steps) if compiled else 0)
    first = next((line for line in steps[:-1] if line["step"] >= counted_from), steps[0])
    counted = {name: last[name] - first[name] for name in ("examples", "tokens", "padded_tokens", "seconds")}
    seconds = max(counted["seconds"], 1e-9)
    return {
        "steps": last["step"] - first["step"],
        "seconds": round(seconds, 3),
        "examples_per_second": round(counted["examples"] / seconds, 1),
        "tokens_per_second": round(counted["tokens"] / seconds, 1),
        "padding": round(1 - counted["tokens"] / max(counted["padded_tokens"], 1), 4),
        "first_step_seconds": steps[0]["since_start"],
        "precision": json.loads((run / "environment.json").read_text(encoding="utf-8"))["hardware"]["precision"],
    }


def _last_slow_step(steps: Sequence[Mapping[str, Any]]) -> int:
    """Return the last logged step preceded by one of more than twice the usual time, with an interval left to measure;
    else 0.
    """
    pairs = list(zip(steps[:-1], steps[1:], strict=True))
    paces = [(after["seconds"] - before["seconds"]) / (after["step"] - before["step"]) for before, after in pairs]
    slow = [after["step"] for (_, after), pace in zip(pairs[:-1], paces, strict=False) if pace > 2 * median(paces)]
    return max(slow, default=0)


def journalled_until(accuracy: float) -> Reader:
    """Return `journalled` and the seconds of training before the first evaluation that reached `accuracy` (None: none
    did).
    """

    def read(done: Finished, folder: Path) -> Figures:
        evaluations = [line for line in _journal(folder / "run") if line["kind"] == "evaluation"]
        reached = next((line["seconds"] for line in evaluations if line["accuracy"] >= accuracy), None)
        return {**journalled(done, folder), "seconds_to_target": reached}

    return read


def _journal(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
