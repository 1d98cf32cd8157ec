"""How our own cost grows with the work: length, width and depth of the model, and reviews to learn from."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.jobs import logged
from benchmarks.processes import finished, grid, mebibytes, provenance, python
from benchmarks.roof import Shape
from benchmarks.synthetic import write_digits, write_reviews

BATCH, REVIEWS = 32, 36_000  # reviews: a hundredth of Amazon's
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
    def words(self) -> list[str]:
        """Return the command-line overrides; with mean pooling, every layer computes all tokens."""
        model = {"max_length": self.length, "d_model": self.d_model, "n_layers": self.n_layers, "pooling": "mean"}
        model["n_heads"] = max(self.d_model // 64, 1)
        return [f"model.{name}={value}" for name, value in model.items()]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a run: milliseconds of a step, seconds to the first one, and peak memory in bytes."""

    milliseconds: float
    first_step_seconds: float
    peak_memory: int


SIZES: Mapping[str, tuple[Sequence[int], Callable[[int], Size]]] = {
    "length": ((32, 64, 128, 256, 512), lambda value: Size(length=value)),
    "d_model": ((64, 128, 256, 512), lambda value: Size(d_model=value)),
    "n_layers": ((1, 2, 4, 8), lambda value: Size(n_layers=value)),
}
AXES = (*SIZES, "reviews")


def grow(axis: str, threads: int, *, small: bool) -> str:
    """Measure one axis and return its table; factors are relative to the row above. Raises TrainingError."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        measure = _sizes if axis in SIZES else _reviews
        lines = measure(axis, Path(folder), threads, small)
    return "\n".join([*lines, "", f"{threads} threads. {provenance()}."])


def _sizes(axis: str, folder: Path, threads: int, small: bool) -> list[str]:
    values, size_of = SIZES[axis]
    rows: list[list[str]] = []
    earlier = None
    for value in values[:2] if small else values:
        size = size_of(value)
        write_digits(data := folder / f"{value}.csv", 400 if small else 4000, size.length)
        words = ("task=classification", "dataset=files", f"dataset.path={data}", "tokenizer=symbols", *size.words)
        cost = _trained(words, folder / f"run-{value}", folder / "cache", 20 if small else 60, threads)
        print(f"  {axis} {value}: {cost.milliseconds:.1f} ms a step", file=sys.stderr)
        factors = ["", ""]
        if earlier is not None:
            factors = [f"{cost.milliseconds / earlier[0]:.2f}", f"{size.flops / earlier[1]:.2f}"]
        speed = f"{size.flops / cost.milliseconds / 1e6:,.0f}"
        rows.append([str(value), f"{cost.milliseconds:.1f}", *factors, speed, mebibytes(cost.peak_memory)])
        earlier = cost.milliseconds, size.flops
    return grid([axis, "ms a step", "factor", "of the FLOPs", "GFLOP/s", "peak memory"], rows)


def _reviews(axis: str, folder: Path, threads: int, small: bool) -> list[str]:
    """Prepare from scratch, then train in another process on what was prepared."""
    rows = []
    for times in (1, 2) if small else (1, 10, 100):
        count = write_reviews(folder / str(times), times, 300 if small else REVIEWS)
        paths = [f"dataset.{split}={folder}/{times}/{split}.parquet" for split in ("train", "validation")]
        words, cache = ("task=classification", "dataset=files", *paths), folder / f"cache-{times}"
        first = _trained(words, folder / f"first-{times}", cache, 1, threads)
        again = _trained(words, folder / f"again-{times}", cache, 20 if small else 60, threads)
        started = [f"{first.first_step_seconds:.1f} s", mebibytes(first.peak_memory)]
        prepared = [f"{again.first_step_seconds:.1f} s", f"{again.milliseconds:.1f}", mebibytes(again.peak_memory)]
        rows.append([f"{count:,} (x{times})", *started, *prepared])
        print(f"  {axis} x{times}: first step after {started[0]}, again after {prepared[0]}", file=sys.stderr)
    first_run = ["first step, nothing prepared", "its peak memory"]
    return grid([axis, *first_run, "first step, prepared", "ms a step", "peak memory"], rows)


def _trained(words: Sequence[str], run: Path, cache: Path, steps: int, threads: int) -> Cost:
    size = (f"training.batch_size={BATCH}", f"training.steps={steps}", f"training.threads={threads}")
    environment = {"ENCODERLAB_CACHE": str(cache), "OMP_NUM_THREADS": str(threads), "RAYON_NUM_THREADS": str(threads)}
    run.mkdir()
    done = finished(python("-m", "encoderlab", "train", *words, *QUIET, *size, f"run_dir={run}/run"), environment)
    numbers = logged(done, run)
    milliseconds = 1000 * numbers["seconds"] / max(numbers["steps"], 1)
    return Cost(milliseconds, numbers["first_step_seconds"], done.peak_memory)
