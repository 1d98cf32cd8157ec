"""How our own cost grows with the work: length, width and depth of the model, and rows of data, each measured
separately.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import streamed
from benchmarks.machine import on_threads, provenance, provenance_in_words
from benchmarks.page import grid, mebibytes
from benchmarks.processes import finished, python
from benchmarks.shapes import Shape
from benchmarks.sides import journalled
from benchmarks.synthetic import write_digits

BATCH = 32
QUIET = ("baselines=false", "training.evaluate_every=1000000", "training.keep=last", "training.log_every=10")


@dataclass(frozen=True, slots=True)
class Size:
    """A model and the length of its sequences."""

    length: int = 128
    d_model: int = 128
    n_layers: int = 2

    @property
    def flops(self) -> float:
        """Return the FLOPs of a training step."""
        shape = Shape(self.n_layers, self.d_model, self.d_model, 4 * self.d_model)
        return BATCH * self.length * shape.flops_per_token(self.length)

    @property
    def overrides(self) -> tuple[str, ...]:
        """Return the command-line overrides; with mean pooling, every layer computes all tokens."""
        heads = max(self.d_model // 64, 1)
        model = {
            "max_length": self.length,
            "d_model": self.d_model,
            "n_layers": self.n_layers,
            "n_heads": heads,
            "pooling": "mean",
        }
        return tuple(f"model.{name}={value}" for name, value in model.items())


SIZES: Mapping[str, tuple[str, tuple[int, ...], tuple[int, ...], Callable[[int], Size]]] = {  # in full, and small
    "length": ("length", (32, 64, 128, 256, 512), (16, 32), lambda value: Size(length=value)),
    "d_model": ("model.d_model", (64, 128, 256, 512), (32, 64), lambda value: Size(d_model=value)),
    "n_layers": ("model.n_layers", (1, 2, 4, 8), (1, 2), lambda value: Size(n_layers=value)),
}
REPEATED, REPEATED_SMALL = (1, 10, 100), (1, 2)
AXES = (*SIZES, "rows", "documents", "reviews", "streamed")


def grow(axis: str, threads: int, *, small: bool) -> dict[str, Any]:
    """Measure one axis. Raises TrainingError if a run fails."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        if axis == "streamed":
            points = streamed.measure(Path(folder), threads, small)
        else:
            measure = _sizes if axis in SIZES else _repeated
            points = measure(axis, Path(folder), threads, small)
    return {**provenance(), "axis": axis, "threads": threads, "points": points}


def _sizes(axis: str, folder: Path, threads: int, small: bool) -> list[dict[str, Any]]:
    name, full, few, size_of = SIZES[axis]
    points = []
    for value in few if small else full:
        size = size_of(value)
        write_digits(data := folder / f"{value}.csv", 400 if small else 4000, size.length)
        chosen = ("task=classification", "dataset=files", f"dataset.path={data}", "tokenizer=symbols", *size.overrides)
        found = _trained("train", chosen, folder / f"run-{value}", folder / "cache", 20 if small else 60, threads)
        points.append({name: value, "flops": size.flops, **found})
        print(f"  {name} {value}: {found['milliseconds']:.1f} ms a step", file=sys.stderr)
    return points


def _repeated(axis: str, folder: Path, threads: int, small: bool) -> list[dict[str, Any]]:
    """Prepare from scratch, then train in another process on what was prepared."""
    points = []
    for times in REPEATED_SMALL if small else REPEATED:
        size = ["--kind", axis, "--times", str(times), *(["--limit", "300"] if small else [])]
        written = finished(python("-m", "benchmarks.repeated", *size, "--output", str(folder / str(times)))).last_line
        data = json.loads(written)
        cache, steps = folder / f"cache-{times}", 20 if small else 60
        first = _trained(data["command"], data["overrides"], folder / f"prepare-{times}", cache, 1, threads)
        then = _trained(data["command"], data["overrides"], folder / f"train-{times}", cache, steps, threads)
        prepared = {"seconds": first["first_step_seconds"], "memory": first["peak_memory"]}
        again = {
            "milliseconds": then["milliseconds"],
            "seconds": then["first_step_seconds"],
            "memory": then["peak_memory"],
        }
        points.append({"times": times, "rows": data["rows"], "prepared": prepared, "trained": again})
        print(
            f"  {axis} x{times}: first step after {prepared['seconds']} s, again after {again['seconds']} s",
            file=sys.stderr,
        )
    return points


def _trained(
    command: str, overrides: tuple[str, ...], run: Path, cache: Path, steps: int, threads: int
) -> dict[str, Any]:
    """Return the milliseconds per step, the seconds to the first one, and the peak memory of a run."""
    chosen = (
        *QUIET,
        f"training.batch_size={BATCH}",
        f"training.steps={steps}",
        f"training.threads={threads}",
        f"run_dir={run}/run",
    )
    environment = {"ENCODERLAB_CACHE": str(cache), "OMP_NUM_THREADS": str(threads), "RAYON_NUM_THREADS": str(threads)}
    run.mkdir()
    done = finished(python("-m", "encoderlab", command, *overrides, *chosen), environment)
    figures = journalled(done, run)
    milliseconds = 1000 * figures["seconds"] / figures["steps"] if figures["steps"] else None
    return {
        "milliseconds": milliseconds,
        "first_step_seconds": figures["first_step_seconds"],
        "peak_memory": done.peak_memory,
    }


def growth_table(result: Mapping[str, Any]) -> str:
    """Return the table of one axis; factors are relative to the row above."""
    if result["axis"] == "streamed":
        lines = streamed.streamed_rows(result)
    else:
        lines = _size_rows(result) if result["axis"] in SIZES else _repeated_rows(result)
    return "\n".join([*lines, "", f"{on_threads(result['threads'])}. {provenance_in_words(result)}."])


def _size_rows(result: Mapping[str, Any]) -> list[str]:
    name, points = SIZES[result["axis"]][0], result["points"]
    rows = []
    for before, point in zip([None, *points], points, strict=False):
        factor = "" if before is None else f"{point['milliseconds'] / before['milliseconds']:.2f}"
        theory = "" if before is None else f"{point['flops'] / before['flops']:.2f}"
        speed = f"{point['flops'] / point['milliseconds'] / 1e6:,.0f}"
        rows.append(
            [str(point[name]), f"{point['milliseconds']:.1f}", factor, theory, speed, mebibytes(point["peak_memory"])]
        )
    return grid([name, "ms a step", "factor", "of the FLOPs", "GFLOP/s", "peak memory"], rows)


def _repeated_rows(result: Mapping[str, Any]) -> list[str]:
    rows = []
    for point in result["points"]:
        prepared, trained = point["prepared"], point["trained"]
        started = [f"{prepared['seconds']:.1f} s", mebibytes(prepared["memory"]), f"{trained['seconds']:.1f} s"]
        rows.append(
            [
                f"{point['rows']:,} (x{point['times']})",
                *started,
                f"{trained['milliseconds']:.1f}",
                mebibytes(trained["memory"]),
            ]
        )
    head = [
        result["axis"],
        "first step, nothing prepared",
        "its peak memory",
        "first step, prepared",
        "ms a step",
        "peak memory",
    ]
    return grid(head, rows)
