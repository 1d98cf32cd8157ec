"""Check that a GPU computes what the CPU computes, and resumes a run exactly: short runs in fp32 and bf16, compiled and
not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.gpu.budget import Row
from benchmarks.gpu.runs import Runs

STEPS, HALF = 12, 6
# All start from the shipped encoder: with trained weights, a wrong mask or position changes the loss itself, and not
# only its last digits. There is no dropout, because every kind of device draws different numbers.
SAME_RUN = (
    "dataset.pack=sentences",  # so that there is padding to mask
    *(
        "init_from=mini-en",
        "tokenizer=as_pretrained",
        "model=as_pretrained",
        "model.dropout=0",
        "model.attention_dropout=0",
    ),
    *("training.batch_size=32", f"training.steps={STEPS}", "training.log_every=1", "training.learning_rate=1e-4"),
)
DETERMINISTIC = (
    *("model.dropout=0.1", "model.attention_dropout=0.1"),
    *("training.deterministic=true", f"training.checkpoint_every={HALF}"),
)
FIGURES = ("loss", "gradient_norm")
Steps = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Agreement:
    """A run on the tested device, to be compared with one on the CPU in fp32.

    The bounds are the largest differences, in nats, that rounding explains: that of the first loss, when the weights
    are still the same, and that of any loss. RESULTS.md says why.
    """

    name: str
    settings: tuple[str, ...]
    first_bound: float
    bound: float


AGREEMENTS = (
    Agreement("fp32", ("training.precision=fp32", "training.compile=never"), 2e-5, 1e-4),
    Agreement("bf16", ("training.precision=bf16", "training.compile=never"), 2e-3, 1e-1),
    Agreement("bf16, compiled", ("training.precision=bf16", "training.compile=always"), 2e-3, 1e-1),
)
RESUMED = {"resumed": "training.compile=never", "resumed, compiled": "training.compile=always"}


def reference_row(runs: Runs, length: int) -> Row:
    """Return the run on the CPU that all others are compared with; it prepares the corpus for all of them."""

    def measure(seconds: float) -> dict[str, Any]:
        settings = (*_same_run(length), "training.device=cpu", *AGREEMENTS[0].settings)
        done = runs.pretrain("reference", *settings, seconds=seconds)
        return {"seconds": round(done.seconds, 1)}

    return Row("reference", "reference", measure)


def agreement_rows(runs: Runs, length: int, *, compiled: bool) -> list[Row]:
    """Return a row for each agreement, including compiled ones if `compiled`."""
    wanted = [each for each in AGREEMENTS if compiled or "compiled" not in each.name]
    return [
        Row(each.name, f"agreement {'compiled' in each.name}", partial(_agreement, runs, length, each))
        for each in wanted
    ]


def resume_rows(runs: Runs, length: int, *, compiled: bool) -> list[Row]:
    """Return a row for each way to resume, including compiled ones if `compiled`."""
    wanted = {name: setting for name, setting in RESUMED.items() if compiled or "compiled" not in name}
    return [Row(name, name, partial(_resumed, runs, length, setting)) for name, setting in wanted.items()]


def compared(reference: Steps, other: Steps) -> dict[str, Any]:
    """Return the number of steps, the difference of their first losses, the largest of all losses, and that of gradient
    norms.

    Losses differ in nats, norms relative to the reference. A figure that is not finite or missing differs by infinity.
    """
    complete = len(reference) == len(other) > 0
    pairs = list(zip(reference, other, strict=True)) if complete else []
    loss, norm = ([_difference(name, *pair) for pair in pairs] or [math.inf] for name in FIGURES)
    return {"steps": len(pairs), "first_loss": loss[0], "loss": max(loss), "gradient_norm": max(norm)}


def _difference(name: str, reference: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    expected, found = reference[name], other[name]
    if expected is None or found is None:  # not finite
        return math.inf
    return abs(found - expected) if name == "loss" else abs(found / expected - 1)


def _same_run(length: int) -> tuple[str, ...]:
    return (*SAME_RUN, f"model.max_length={length}")


def _agreement(runs: Runs, length: int, each: Agreement, seconds: float) -> dict[str, Any]:
    name = each.name.replace(", ", "-")
    runs.pretrain(name, *_same_run(length), f"training.device={runs.device}", *each.settings, seconds=seconds)
    found = compared(runs.steps("reference"), runs.steps(name))
    runs.remove(name)
    passed = found["first_loss"] <= each.first_bound and found["loss"] <= each.bound
    return {**found, "first_bound": each.first_bound, "bound": each.bound, "passed": passed}


def _resumed(runs: Runs, length: int, compiling: str, seconds: float) -> dict[str, Any]:
    """Train a run, then its second half again from the checkpoint in the middle, in a new process; compare both."""
    ends = time.monotonic() + seconds
    settings = (*_same_run(length), *DETERMINISTIC, f"training.device={runs.device}", compiling)
    runs.pretrain("whole", *settings, seconds=seconds)
    runs.cut_in_two("whole", "half", HALF)
    runs.resume("half", seconds=ends - time.monotonic())
    whole, half = ([[step[name] for name in FIGURES] for step in runs.steps(run)] for run in ("whole", "half"))
    losses = whole == half and len(half) == STEPS
    weights = runs.weights_hash("whole") == runs.weights_hash("half")
    runs.remove("whole", "half")
    return {"steps": STEPS - HALF, "losses_equal": losses, "weights_equal": weights, "passed": losses and weights}
