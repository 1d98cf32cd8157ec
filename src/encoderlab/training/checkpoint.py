"""Checkpoints that survive a kill at any moment: written aside, synced, hashed, and renamed into place.

The order of the steps is what makes it safe (saving over the last file does not): every file is written and synced in a temporary
folder, a manifest with each file's SHA-256 is written last, the folder is synced and renamed to a name never used before, and only
then are older checkpoints deleted. What is read back is the newest folder whose manifest verifies, never what a link says.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO

import safetensors.torch
import torch
from torch import Tensor, nn

from encoderlab.aside import written_aside
from encoderlab.errors import DataError

WEIGHTS, STATE, MANIFEST = "model.safetensors", "state.pt", "manifest.json"
NAME = re.compile(r"step-(\d+)")


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """The weights as they are stored: on the CPU and contiguous."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}


def save_checkpoint(folder: Path, step: int, weights: dict[str, Tensor], state: dict[str, Any]) -> Path:
    """Write `folder`/step-N; the path of the finished checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"step-{step}"
    with written_aside(final) as aside:
        aside.mkdir()
        _write_synced(aside / WEIGHTS, safetensors.torch.save(weights))
        with (aside / STATE).open("wb") as file:
            torch.save(state, file)
            _sync(file)
        hashes = {name: _sha256(aside / name) for name in (WEIGHTS, STATE)}
        _write_synced(aside / MANIFEST, json.dumps({"step": step, "sha256": hashes}, indent=2).encode())
        _sync_folder(aside)
    _sync_folder(folder)
    return final


def read_weights(checkpoint: Path) -> dict[str, Tensor]:
    """The weights of a checkpoint. Raises DataError where a file is missing or is not what the manifest says."""
    if not verified(checkpoint):
        raise DataError(f"The checkpoint {checkpoint} is damaged", remedy="Use another checkpoint of the same run, or train again")
    return safetensors.torch.load_file(checkpoint / WEIGHTS)


def verified(checkpoint: Path) -> bool:
    """Whether every file of the checkpoint is there and has the hash its manifest states."""
    try:
        hashes = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))["sha256"]
        return set(hashes) == {WEIGHTS, STATE} and all(_sha256(checkpoint / name) == hashes[name] for name in hashes)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def checkpoints(folder: Path) -> list[Path]:
    """The finished checkpoints in `folder`, oldest step first."""
    found = [path for path in folder.glob("step-*") if NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def prune(folder: Path, *, newest: int, keep: Collection[int]) -> None:
    """Delete all checkpoints but the `newest` ones and those of the steps in `keep`."""
    for path in checkpoints(folder)[:-newest]:
        if int(path.name.removeprefix("step-")) not in keep:
            shutil.rmtree(path)


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        _sync(file)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows cannot sync a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
