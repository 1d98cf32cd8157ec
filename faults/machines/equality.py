"""The promise that several machines compute the same as one process: training, pretraining, evaluating, resuming."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from encoderlab.runs.folder import RunFolder
from encoderlab.training.checkpoint import checkpoints, step_of
from faults.machines.launching import Launch, Launched, alone
from faults.machines.machine import Machine, machines
from faults.promise import Conditions, Trial
from faults.running import OF_THE_CLOCK, difference, outcome

STEPS, RESUMED_AFTER = 8, 4
MODEL = (
    "model.n_layers=2",
    "model.d_model=16",
    "model.n_heads=2",
    "model.d_ff=32",
    "model.dropout=0",
    "baselines=false",
)
SHORT = (
    *("training.threads=1", "training.precision=fp32", "training.batch_size=12", "training.log_every=1"),
    *(f"training.steps={STEPS}", f"training.checkpoint_every={RESUMED_AFTER}", "training.evaluate_every=4"),
)
ROWS = ("task=reverse", "dataset.train_rows=120", "dataset.validation_rows=32", "dataset.test_rows=31")
TEXTS = ("dataset=files", "dataset.path=texts.txt", "tokenizer.vocabulary_size=100", "dataset.validation_fraction=0.2")
SETTINGS = {"train": (*ROWS, *MODEL, *SHORT), "pretrain": (*TEXTS, *MODEL, *SHORT, "model.max_length=32")}
ROUNDING = 2e-5  # of a loss: sums over several processes round differently from sums over one
GRID = tuple(product(("train", "pretrain"), (2, 3, 4), (1, 2), ("none", "full")))


def equal(conditions: Conditions) -> Iterator[Trial]:
    """Train or pretrain on several machines, evaluate the run there, and resume it from its middle."""
    for command, number, per_machine, sharding in conditions.of(GRID):
        with machines(number, conditions.scratch / f"{command}-{number}-{per_machine}-{sharding}") as up:
            for machine in up:
                (machine.work / "texts.txt").write_text(texts(), encoding="utf-8")
            failure = _tried(up, per_machine, command, sharding)
        case = f"{command} on {number} machines, {per_machine} processes each, sharding={sharding}"
        yield Trial(case, failure)


def texts() -> str:
    """Write a few documents of distinct sentences."""
    sentences = [
        f"The {a} {b} looks at the {c} {b}."
        for a in ("old", "red")
        for b in ("cat", "dog", "king")
        for c in ("new", "big")
    ]
    documents = ["\n".join(" ".join(sentences[(n * k) % 12] for k in (1, 5, 7)) for _ in range(3)) for n in range(24)]
    return "\n\n".join(documents) + "\n"


def _tried(up: Sequence[Machine], per_machine: int, command: str, sharding: str) -> str:
    """Return what is wrong with the runs; "" if nothing is."""
    first, settings = up[0], SETTINGS[command]
    launch = partial(_launched, up, per_machine)
    failure = _failed([alone(first, command, *settings, "run_dir=one")])
    failure = failure or launch(command, *settings, f"training.sharding={sharding}", "run_dir=many")
    if failure:
        return failure
    left = [machine.name for machine in up[1:] if (machine.work / "many").exists()]
    failure = f"a run folder on {', '.join(left)}" if left else unlike(first.work / "many", first.work / "one")
    failure = failure or _scored_otherwise(first, launch)
    return failure or _resumed_otherwise(first, command, launch)


def _scored_otherwise(first: Machine, launch: Any) -> str:
    """Evaluate the run on all machines and on one: scores and predictions must be identical to the last bit."""
    score = ("eval", "run=many", "threads=1", "precision=fp32")
    failure = launch(*score, "run_dir=scored-by-many") or _failed([alone(first, *score, "run_dir=scored-by-one")])
    if failure:
        return failure
    by_many, by_one = (RunFolder(first.work / f"scored-by-{name}") for name in ("many", "one"))
    same = _report(by_many)["splits"] == _report(by_one)["splits"]
    if by_one.predictions.exists():
        same = same and by_many.predictions.read_bytes() == by_one.predictions.read_bytes()
    return "" if same else "other scores than those of one process"


def _resumed_otherwise(first: Machine, command: str, launch: Any) -> str:
    """Remove everything after a checkpoint in mid-run, and resume: the run must end as it did."""
    run = first.work / "many"
    wanted = outcome(run)
    cut_back(run, RESUMED_AFTER)
    return launch(command, "resume=many") or difference(outcome(run), wanted)


def cut_back(run: Path, step: int) -> None:
    """Reduce a finished run to what a kill after the checkpoint of `step` would have left."""
    folder = RunFolder(run)
    for path in checkpoints(folder.checkpoints):
        if step_of(path) > step:
            shutil.rmtree(path)
    for path in (folder.report, folder.predictions, folder.page):
        path.unlink(missing_ok=True)
    for path in (folder.model, folder.plots):
        shutil.rmtree(path, ignore_errors=True)


def unlike(run: Path, other: Path) -> str:
    """Return how two runs differ beyond the rounding of sums; "" if not at all."""
    lines, others = _journal(run), _journal(other)
    if [(line["kind"], line["step"]) for line in lines] != [(line["kind"], line["step"]) for line in others]:
        return "other steps than those of one process"
    for line, like in zip(lines, others, strict=True):
        if line["kind"] == "step" and abs(line["loss"] - like["loss"]) > ROUNDING * abs(like["loss"]):
            return f"a loss of {line['loss']} instead of {like['loss']} in step {line['step']}"
    return ""


def _launched(up: Sequence[Machine], per_machine: int, *typed: str) -> str:
    return _failed(Launch(up, per_machine, *typed).wait())


def _failed(ended: Sequence[Launched]) -> str:
    last = {one.name: (one.errors or one.lines or ["nothing was printed"])[-1] for one in ended}
    bad = [f"{one.name} ended with {one.code}: {last[one.name]}" for one in ended if one.code]
    return "; ".join(bad) or next((f"{one.name} did not end" for one in ended if one.code is None), "")


def _report(folder: RunFolder) -> dict[str, Any]:
    return json.loads(folder.report.read_text(encoding="utf-8"))


def _journal(run: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in RunFolder(run).metrics.read_text(encoding="utf-8").splitlines()]
    return [{name: value for name, value in line.items() if name not in OF_THE_CLOCK} for line in lines]
