"""A job: the sides to compare and the targets; and how the usual sides are started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.shapes import Shape
from benchmarks.sides import Side, journalled, printed

OURS = "encoderlab"
SST2_LENGTH = 13  # tokens of a row on average, for the size of the products that are probed


@dataclass(frozen=True, slots=True)
class Target:
    """The least or greatest value for one of our figures; `against` a peer, for the ratio to that peer's."""

    figure: str
    against: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    side: str = OURS


@dataclass(frozen=True, slots=True)
class Job:
    """One comparison: ours is the first of the `sides`. `tokens` is the number in one of our steps, for the roof.

    `setup` runs once before the rounds and is not measured. `environment` is added to that of every side.
    """

    what: str
    sides: tuple[Side, ...]
    targets: tuple[Target, ...]
    figure: str = "examples_per_second"
    shape: Shape | None = None
    tokens: int = 0
    setup: tuple[tuple[str, ...], ...] = ()
    note: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


def ours(command: str, *overrides: str, **more: object) -> Side:
    """Return the side of our own training command, with nothing but training; `more` are fields of the side."""
    quiet = ("baselines=false", "training.evaluate_every=1000000", "training.keep=last", "training.log_every=10")
    run = ("training.threads={threads}", "seed={seed}", "training.steps={steps}", "run_dir={folder}/run")
    return Side(OURS, ("-m", "encoderlab", command, *quiet, *run, *overrides), journalled, **more)


PEER = ("--steps", "{steps}", "--threads", "{threads}", "--seed", "{seed}")


def shared(script: str, *arguments: str, watched: tuple[str, ...] = (), **more: object) -> Side:
    """Return the side of an unchanged script from ../shared/peers, with a meter that records more."""
    program = ("-m", "benchmarks.peers.watched", *watched, f"{{shared}}/peers/{script}.py")
    needs = ("shared", "accelerate") if script.startswith("trainer") else ("shared",)
    return Side(script, (*program, *arguments, *PEER), printed, needs=needs, **more)


def own_peer(name: str, data: str, size: str, batch: int, steps: int) -> Side:
    """Return the side of one of our own peers. The built-in task needs nothing; SST-2 and its tokenizer come from the
    hub.
    """
    program = ("-m", f"benchmarks.peers.{name}", "--data", data, "--size", size, "--batch", str(batch))
    needs = (*(["hub"] if data == "sst2" else []), *(["accelerate"] if name == "trainer" else []))
    return Side(name, (*program, *PEER), printed, steps, small=("--limit", "400"), needs=needs)
