"""A run's checkpoints without a run: created, saved again by a disturbed child, and inspected afterwards."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch

from encoderlab.errors import UserError
from encoderlab.runs.folder import RunFolder
from encoderlab.training.checkpoint import (
    checkpoints,
    clear_unfinished,
    newest_verified,
    prune,
    read_state,
    read_weights,
    save_checkpoint,
    step_of,
)
from faults.host import Host

KEPT = 2
BEFORE, DISTURBED, NEXT = (0, 10), 20, 30  # the existing steps, the one whose saving is disturbed, and one more
SAVED = "saved"  # from here on it must survive
MODULES = ("encoderlab.training.checkpoint", "faults.saving")


@cache
def content(step: int) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Return weights and state that differ for each step, of a size that takes several writes."""
    draw = torch.Generator().manual_seed(step)
    weights = {f"layer.{place}": torch.randn(64, 40, generator=draw) for place in range(4)}
    moments = {name: torch.randn(64, 40, generator=draw) for name in ("exp_avg", "exp_avg_sq")}
    optimizer = {"state": {0: moments}, "param_groups": [{"lr": 1e-3, "params": [0]}]}
    return weights, {"step": step, "optimizer": optimizer, "random_state": draw.get_state()}


def save(folder: str, step: int) -> None:
    """Save a checkpoint, say so, and delete those no longer needed, as a run does. Raises UserError."""
    run = RunFolder(Path(folder))
    with run.continued("train"):
        clear_unfinished(run.checkpoints)
        save_checkpoint(run.checkpoints, step, *content(step))
        print(SAVED, flush=True)
        prune(run.checkpoints, newest=KEPT, keep=())


def delete_then_save(folder: str, step: int) -> None:
    """Save, unlike a run, to one place for all checkpoints, to show that these trials notice losses."""
    for path in checkpoints(RunFolder(Path(folder)).checkpoints):
        shutil.rmtree(path)
    save(folder, step)


def save_unsynced(folder: str, step: int) -> None:
    """Save, unlike a run, without fsync, to show that these trials notice losses."""
    os.fsync = lambda descriptor: None  # in a child that ends after this
    save(folder, step)


def prepared(folder: Path) -> Path:
    """Return the run folder with the undisturbed checkpoints, creating it if necessary."""
    for step in () if folder.exists() else BEFORE:
        save_checkpoint(RunFolder(folder).checkpoints, step, *content(step))
    return folder


@contextlib.contextmanager
def copied(folder: Path, to: Path) -> Iterator[Path]:
    """Yield a copy to disturb, deleted afterwards."""
    shutil.copytree(folder, to)
    try:
        yield to
    finally:
        shutil.rmtree(to)


@contextlib.contextmanager
def host() -> Iterator[Host]:
    """Return a host whose children save."""
    with Host(MODULES) as started:
        yield started


def lost(folder: Path, *, allowed: tuple[int, ...]) -> str:
    """Return what is wrong with the newest verified checkpoint, which must be of one of the `allowed` steps; "" if
    nothing is.
    """
    try:
        newest = newest_verified(RunFolder(folder).checkpoints)
    except UserError as error:
        return str(error)
    if newest is None:
        return "no checkpoint is left"
    step = step_of(newest)
    if step not in allowed:
        return f"the newest verified checkpoint is step {step}"
    weights, state = content(step)
    try:
        kept = same(read_weights(newest), weights) and same(read_state(newest), state)
    except UserError as error:
        return f"step {step} cannot be read: {error}"
    return "" if kept else f"step {step} contains something else"


def stuck(folder: Path) -> str:
    """Return what is wrong with the next save; "" if it works as if nothing had happened."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            save(str(folder), NEXT)
    except (UserError, OSError) as error:
        return f"the next save failed: {error}"
    left = [path.name for path in RunFolder(folder).checkpoints.glob(".tmp-*")]
    return f"{', '.join(left)} is left" if left else lost(folder, allowed=(NEXT,))


def same(one: Any, other: Any) -> bool:
    """Return whether two nested values are equal, tensors in every bit."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other
