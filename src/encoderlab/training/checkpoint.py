"""Checkpoints that survive a kill at any moment: written to a temporary folder, synced, hashed, and renamed into place.

Every file is written and synced in a temporary folder, a manifest with each file's SHA-256 is written last, the folder
is synced and renamed to a name never used before, and only then are older checkpoints deleted. Reading uses the newest
folder whose manifest verifies, never a link.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import uuid
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn

from encoderlab.errors import DataError
from encoderlab.system import files
from encoderlab.system.processes import Processes
from encoderlab.system.records import json_of
from encoderlab.system.tensor_files import write_tensors

WEIGHTS = "model.safetensors"
STATE = "state.pt"
NAME = re.compile(r"step-(\d+)")


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    """Return the weights as they are stored: on the CPU and contiguous."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}


def frozen_names(network: nn.Module) -> set[str]:
    """Return the names of the weights that no step changes."""
    return {name for name, parameter in network.named_parameters() if not parameter.requires_grad}


def load_trained(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Load the `weights` of a state of the same training into a network, which may lack frozen ones: the network has
    them already. Raises RuntimeError if they are those of another network.
    """
    frozen = frozen_names(network)
    missing, unexpected = network.load_state_dict(weights, strict=False)
    if unexpected or not frozen.issuperset(missing):
        differing = unexpected or sorted({*missing} - frozen)
        raise RuntimeError(f"the weights are those of another network: {differing}")


def save_checkpoint(folder: Path, step: int, weights: dict[str, Tensor], state: dict[str, Any]) -> Path:
    """Write `folder`/step-N and return its path. Raises OSError if that is not possible."""
    folder.mkdir(exist_ok=True)  # and not its parent, which someone may have deleted meanwhile
    final = folder / f"step-{step}"
    if final.exists():  # it is damaged, or the run would have resumed from it, and it could not be moved
        _set_aside(final)
    with files.atomic_write(final) as temporary:
        temporary.mkdir()
        # Nothing is copied in memory first: weights and moments together may be three times the model.
        write_tensors(temporary / WEIGHTS, weights)
        with (temporary / STATE).open("wb") as file:
            _save_state(state, file)
            file.flush()
            os.fsync(file.fileno())
        files.write_manifest(temporary, (WEIGHTS, STATE), step=step)
        _sync_folder(temporary)
    _sync_folder(folder)
    return final


def read_weights(checkpoint: Path) -> dict[str, Tensor]:
    """Return the weights of a checkpoint. Raises DataError if a file is missing or differs from the manifest."""
    _refuse_damaged(checkpoint)
    try:
        return safetensors.torch.load_file(checkpoint / WEIGHTS)
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        raise _damaged(checkpoint, error) from None


def read_state(checkpoint: Path) -> dict[str, Any]:
    """Return what resuming needs besides the weights: numbers, texts and tensors, never code. Raises DataError."""
    _refuse_damaged(checkpoint)
    try:
        state = torch.load(checkpoint / STATE, map_location="cpu", weights_only=True)
    except Exception as error:  # invalid bytes can raise errors of any kind
        raise _damaged(checkpoint, str(error) or type(error).__name__) from None
    if not isinstance(state, dict) or state.get("step") != step_of(checkpoint):
        raise _damaged(checkpoint, "its state belongs to another step")
    return state


def verified(checkpoint: Path) -> bool:
    """Return whether every file of the checkpoint has the hash in its manifest, which must be of this step."""
    return not files.differing_files(checkpoint, {WEIGHTS, STATE}, step=step_of(checkpoint))


def checkpoints(folder: Path) -> list[Path]:
    """Return the finished checkpoints in `folder`, oldest step first."""
    return sorted((path for path in folder.glob("step-*") if NAME.fullmatch(path.name)), key=step_of)


def step_of(checkpoint: Path) -> int:
    """Return the number of steps after which a checkpoint was written."""
    return int(checkpoint.name.removeprefix("step-"))


def newest_verified(folder: Path) -> Path | None:
    """Return the newest intact checkpoint; None if there are no checkpoints at all.

    Damaged ones are renamed to `corrupt-step-N`, with a line for each. Raises DataError if no other is left.
    """
    for path in reversed(checkpoints(folder)):
        if verified(path):
            return path
        _set_aside(path)
    if any(folder.glob("corrupt-step-*")):
        raise DataError(f"Every checkpoint in {folder} is damaged", remedy="Start the run again, in a new folder")
    return None


def prune(folder: Path, *, newest: int, keep: Collection[int]) -> None:
    """Delete all checkpoints but the `newest` ones and those of the steps in `keep`."""
    for path in checkpoints(folder)[:-newest]:
        if step_of(path) not in keep:
            # Half a checkpoint must never have a valid name.
            gone = path.rename(folder / f".tmp-{uuid.uuid4().hex[:8]}-{path.name}")
            shutil.rmtree(gone, ignore_errors=True)  # some network file systems keep open files; see `clear_unfinished`


def keep_only_weights(folder: Path, steps: Collection[int]) -> None:
    """Delete all checkpoints but the newest one and those of `steps`, and of these the state: no run resumes there."""
    prune(folder, newest=1, keep=steps)
    for path in checkpoints(folder):
        manifest = json_of((path / files.MANIFEST).read_text(encoding="utf-8"))
        if manifest["sha256"].pop(STATE, None):
            files.atomic_write_text(path / files.MANIFEST, json.dumps(manifest, indent=2))
            (path / STATE).unlink()


def clear_unfinished(folder: Path) -> None:
    """Delete what interrupted saves and deletions have left. Call it only while holding the run folder's lock."""
    for path in folder.glob(".tmp-*"):
        shutil.rmtree(path, ignore_errors=True)


def _refuse_damaged(checkpoint: Path) -> None:
    if not verified(checkpoint):
        raise _damaged(checkpoint, "a file is missing or differs from the manifest")


def _damaged(checkpoint: Path, reason: object) -> DataError:
    words = " ".join(str(reason).split())[:200]
    remedy = "Use another checkpoint of the same run, or train again"
    return DataError(f"The checkpoint {checkpoint} is damaged: {words}", remedy=remedy)


def _set_aside(checkpoint: Path) -> None:
    damaged = checkpoint.with_name(f"corrupt-{checkpoint.name}")
    with suppress(OSError):  # on a read-only disk nothing can be renamed, and nothing needs to be
        shutil.rmtree(damaged, ignore_errors=True)
        checkpoint.rename(damaged)
    print(f"The checkpoint {checkpoint} is damaged and has been set aside", file=sys.stderr)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows cannot sync a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# The generators of random numbers, whose states a checkpoint holds


def set_random_states(
    states: list[dict[str, Any]], device: torch.device, processes: Processes, seed: int, step: int
) -> None:
    """Restore the generators from `states`, those of all processes.

    If the number of processes has changed, their next draws cannot be reproduced, and dropout is seeded again.
    """
    if len(states) == processes.size:
        set_random_state(states[processes.rank], device)
    else:
        seed_dropout(seed, step, processes)


def random_state(device: torch.device) -> dict[str, Any]:
    """Return the states of the generators that a step of this process draws from: the CPU's and that of `device`."""
    state = {"cpu": torch.get_rng_state()}
    if device.type != "cpu":
        state[device.type] = torch.get_device_module(device).get_rng_state()
    return state


def set_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Restore this process's generators from `state`, which may come from another kind of device."""
    torch.set_rng_state(state["cpu"])
    if device.type != "cpu" and device.type in state:
        torch.get_device_module(device).set_rng_state(state[device.type])


def seed_dropout(seed: int, step: int, processes: Processes) -> None:
    """Seed dropout by seed, step and process, so that each process drops other numbers."""
    drawn = np.random.SeedSequence([seed, step, processes.rank]).generate_state(1, np.uint64)
    torch.manual_seed(int(drawn[0]))


def _save_state(state: Any, file: BinaryIO) -> None:
    """Write a state to an open file. Raises OSError, where torch.save by itself names no full disk."""
    written = _NotedErrors(file)
    try:
        torch.save(state, cast("BinaryIO", written))
    except RuntimeError as error:
        raise (written.error or error) from None


class _NotedErrors:
    """A file to write to that keeps the error of the system that ended a write."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.error: OSError | None = None

    def write(self, content: Any) -> int:
        """Write bytes. Raises OSError."""
        try:
            return self.file.write(content)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        """Write what is still in memory. Raises OSError."""
        self.file.flush()
