"""The files of a model folder, ours or one of transformers, read as untrusted input: config.json and safetensors.

Weights are read from safetensors only, and no code of a checkpoint is ever run. In compact storage, in which encoderlab
ships its encoder, the token embeddings are 8-bit integers with a scale for each row, and everything else 16-bit floats.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from encoderlab.errors import DataError
from encoderlab.system.records import json_of

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
LARGEST_JSON = 10_000_000  # bytes; our config.json has every label twice
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
SCALE = ".scale"  # suffix of a weight's name for the scales of its rows
COMPACT = {"format": "pt", "storage": "compact"}  # the metadata of a file that scripts/make_encoder wrote


def read_weights(file: Path) -> dict[str, Tensor]:
    """Return the weights of a file by name, of compact storage as float32. Raises DataError unless all are floats."""
    try:
        with safetensors.safe_open(file, framework="pt") as opened:
            is_compact = opened.metadata() == COMPACT
        weights = safetensors.torch.load_file(file)
        weights = _expanded(weights) if is_compact else weights
    except (OSError, ValueError, KeyError, AttributeError, RuntimeError, safetensors.SafetensorError) as error:
        # PyTorch raises RuntimeError for a file that cannot be mapped, such as one larger than the address space
        raise _damaged(file, error) from None
    for name, weight in weights.items():
        if weight.dtype not in FLOATS and not name.endswith("_ids"):
            raise DataError(f"{file}: {name} is of type {weight.dtype}", allowed=", ".join(map(str, FLOATS)))
    return weights


def weights_in(folder: Path) -> dict[str, Tensor]:
    """Return all weights of a folder by their names. Raises DataError if two have the same."""
    weights: dict[str, Tensor] = {}
    for file in weight_files(folder):
        for name, weight in read_weights(file).items():
            if name in weights:
                raise DataError(f"{folder} has two weights named {name}", remedy="Use another checkpoint")
            weights[name] = weight
    return weights


def check_shapes(folder: Path, required: Mapping[str, torch.Size], weights: Mapping[str, Tensor]) -> None:
    """Raise DataError for weights that are missing, too many or of another shape than config.json requires."""
    has = {name: list(shape) for name, shape in shapes_of(weights).items()}
    needs = {name: list(shape) for name, shape in required.items()}
    differing = sorted(name for name in has | needs if has.get(name) != needs.get(name))
    if differing:
        first = differing[0]
        more = f" (and {len(differing) - 1} more differ)" if len(differing) > 1 else ""
        shapes = f"config.json requires {needs.get(first, 'nothing')}, the weights have {has.get(first, 'nothing')}"
        remedy = "Use another copy, or correct its config.json"
        raise DataError(f"{folder}: of {first}, {shapes}{more}", remedy=remedy)


def shapes_of(weights: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    """Return the shape of each weight."""
    return {name: weight.shape for name, weight in weights.items()}


def read_config(folder: Path, name: str = "config.json") -> dict[str, Any]:
    """Return the content of a JSON file. Raises DataError if it is invalid or has more than LARGEST_JSON bytes."""
    path = folder / name
    if not path.is_file():
        allowed = "a folder that transformers' save_pretrained wrote"
        raise DataError(f"There is no {name} in {folder}", allowed=allowed)
    size = path.stat().st_size
    if size > LARGEST_JSON:
        raise DataError(f"{path} is too large: {size:,} bytes", allowed=f"at most {LARGEST_JSON:,}")
    try:
        content = json_of(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, error) from None
    if not isinstance(content, dict):
        raise _damaged(path, TypeError("it is not an object"))
    return content


def weight_files(folder: Path) -> list[Path]:
    """Return the files with the checkpoint's weights. Raises DataError.

    PyTorch's own files are never opened: they are pickles, which can run any code.
    """
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        shards = read_config(folder, INDEX).get("weight_map")
        names = sorted({str(name) for name in shards.values()}) if isinstance(shards, dict) else []
        if not names or any(Path(name).name != name or not name.endswith(".safetensors") for name in names):
            raise DataError(f"{folder / INDEX} is damaged: its weight_map names no files next to it")
        return [folder / name for name in names]
    pickles = sorted(path.name for ending in ("bin", "pt", "h5", "ckpt*") for path in folder.glob(f"*.{ending}"))
    if pickles:
        raise DataError(
            f"{folder} has its weights only as {pickles[0]}, a format that can run code when opened",
            allowed=WEIGHTS,
            remedy="If you trust it, convert it with transformers' from_pretrained and save_pretrained",
        )
    raise DataError(f"{folder} has no weights", allowed=f"{WEIGHTS}, or {INDEX} with its shards")


def _damaged(path: Path, error: Exception) -> DataError:
    reason = " ".join(str(error).split())[:200]
    return DataError(f"{path} is damaged: {reason or type(error).__name__}", remedy="Download it again, or use another")


def _expanded(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights as float32. Raises KeyError or ValueError if a scale is missing or does not fit."""
    weights = {name: weight.float() for name, weight in stored.items() if not name.endswith(SCALE)}
    for name in weights:
        if stored[name].dtype is torch.int8:
            scale = stored[name + SCALE]
            if weights[name].ndim != 2 or scale.shape != weights[name].shape[:1] or not scale.is_floating_point():
                raise ValueError(f"the scale of {name} does not have a number for each of its rows")
            weights[name] = weights[name] * scale.float()[:, None]
    return weights
