"""Compact storage of weights: the token embeddings as 8-bit integers with a scale for each row, everything else as
16-bit floats.

They are read as 32-bit floats.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

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
