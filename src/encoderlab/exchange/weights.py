"""The files of a Hugging Face folder, read as untrusted input: config.json, and safetensors in one piece or in shards.

Weights are read from safetensors only, and no code of a checkpoint is ever run.

Compact storage of weights: the token embeddings as 8-bit integers with a scale for each row, everything else as
16-bit floats.

They are read as 32-bit floats.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from encoderlab.errors import DataError

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
LARGEST_CONFIG = 1_000_000  # bytes; BERT's own has 600
LARGEST_INDEX = 10_000_000
MOST_WEIGHTS = 50_000  # a thousand layers have 16,000
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def read_config(folder: Path, largest: int = LARGEST_CONFIG) -> dict[str, Any]:
    """Return the content of config.json. Raises DataError if it is invalid or has more than `largest` bytes."""
    return _json_object(folder / "config.json", largest)


def stored_weights(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Yield every weight of the checkpoint with its name. Raises DataError for a damaged file, and if there are no
    safetensors.

    PyTorch's own files are never opened: they are pickles, which can run any code.
    """
    for file in _weight_files(folder):
        yield from read_weights(file).items()


def read_weights(file: Path) -> dict[str, Tensor]:
    """Return all weights of a file, by name; those in compact storage as float32.

    Raises DataError if it is damaged, or holds anything but floats, or far too many.
    """
    try:
        with safetensors.safe_open(file, framework="pt") as opened:
            if len(names := opened.keys()) > MOST_WEIGHTS:
                raise DataError(f"{file} has too many weights: {len(names):,}", allowed=f"at most {MOST_WEIGHTS:,}")
            is_compact = opened.metadata() == COMPACT
        weights = safetensors.torch.load_file(file)
        weights = expanded(weights) if is_compact else weights
    except (OSError, ValueError, KeyError, AttributeError, safetensors.SafetensorError) as error:
        raise _damaged(file, error) from None
    return {name: _floating(file, name, weight) for name, weight in weights.items()}


def _weight_files(folder: Path) -> list[Path]:
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        shards = _json_object(folder / INDEX, LARGEST_INDEX).get("weight_map")
        names = sorted({str(name) for name in shards.values()}) if isinstance(shards, dict) else []
        if not names or any(Path(name).name != name or not name.endswith(".safetensors") for name in names):
            raise DataError(
                f"{folder / INDEX} is damaged: its weight_map names no files next to it", remedy="Download it again"
            )
        return [folder / name for name in names]
    if pickles := sorted(
        path.name for pattern in ("*.bin", "*.pt", "*.h5", "*.ckpt*") for path in folder.glob(pattern)
    ):
        raise DataError(
            f"{folder} has its weights only as {pickles[0]}, a format that can run code when opened",
            allowed=WEIGHTS,
            remedy="If you trust it, convert it with transformers' from_pretrained and save_pretrained",
        )
    raise DataError(f"{folder} has no weights", allowed=f"{WEIGHTS}, or {INDEX} with its shards")


def _floating(file: Path, name: str, weight: Tensor) -> Tensor:
    if weight.dtype not in FLOATS and not name.endswith("_ids"):
        allowed = ", ".join(str(dtype).removeprefix("torch.") for dtype in FLOATS)
        raise DataError(f"{file}: {name} is of type {str(weight.dtype).removeprefix('torch.')}", allowed=allowed)
    return weight


def _json_object(path: Path, largest: int) -> dict[str, Any]:
    if not path.is_file():
        raise DataError(
            f"There is no {path.name} in {path.parent}", allowed="a folder that transformers' save_pretrained wrote"
        )
    if (size := path.stat().st_size) > largest:
        raise DataError(f"{path} is too large: {size:,} bytes", allowed=f"at most {largest:,}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, error) from None
    if not isinstance(content, dict):
        raise _damaged(path, TypeError("it is not an object"))
    return content


def _damaged(path: Path, error: Exception) -> DataError:
    reason = " ".join(str(error).split())[:200]
    return DataError(f"{path} is damaged: {reason or type(error).__name__}", remedy="Download it again, or use another")


TABLE = "encoder.embeddings.token.weight"
SCALE = ".scale"  # suffix of a weight's name for the scales of its rows
COMPACT = {"format": "pt", "storage": "compact"}  # the metadata of such a file
MOST = 127  # of an 8-bit integer, so that the range is symmetric


def compacted(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights as stored: the token embeddings [tokens, d_model] as int8 with float32 scales [tokens], others
    float16.

    Each row is divided by its largest absolute value / 127 and rounded, so that no number is off by more than 1/254 of
    that value. A weight with a value beyond the range of float16 (65,504) is stored as float32.
    """
    stored = {name: _shortened(weight) if weight.is_floating_point() else weight for name, weight in weights.items()}
    if TABLE in weights:
        table = weights[TABLE].float()
        scale = table.abs().amax(dim=1) / MOST
        scale = torch.where(scale > 0, scale, 1.0)
        stored[TABLE] = (table / scale[:, None]).round().to(torch.int8)
        stored[TABLE + SCALE] = scale
    return stored


def expanded(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the float32 weights that `compacted` stored. Raises KeyError if a scale is missing, ValueError if one does
    not fit.
    """
    scales = {name for name in stored if name.endswith(SCALE) and name.removesuffix(SCALE) in stored}
    return {name: _float32(name, stored) for name in stored if name not in scales}


def _shortened(weight: Tensor) -> Tensor:
    """Return the weight as float16, or as float32 if float16 would make a number infinite."""
    short = weight.half()
    return short if short.isfinite().all() else weight.float()


def _float32(name: str, stored: Mapping[str, Tensor]) -> Tensor:
    weight = stored[name]
    if weight.dtype is not torch.int8:
        return weight.float() if weight.is_floating_point() else weight
    scale = stored[name + SCALE]
    if weight.ndim != 2 or scale.shape != weight.shape[:1] or not scale.is_floating_point():
        raise ValueError(f"the scale of {name} does not have a number for each of its rows")
    return weight.float() * scale.float()[:, None]
