"""The first token without a pooler, which BERT's classifier lacks, as a pooler that changes nothing, so that
transformers' own class computes it. It is undone when such a folder is read.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from encoderlab.model.config import ModelConfig, Pooling

STRAIGHT = 2.0**-13  # tanh(STRAIGHT * x) / STRAIGHT is x, to within a millionth where |x| < 14
POOL = {"pool.dense.weight": 2, "pool.dense.bias": 1}  # names and dimensions
Converted = tuple[ModelConfig, dict[str, Tensor]]  # the settings and weights of a model with the same outputs


def straight_pooler(config: ModelConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a pooler that shrinks the vectors to where tanh is straight, and a head that makes up for it."""
    return {
        "pool.dense.weight": torch.eye(config.d_model) * STRAIGHT,
        "pool.dense.bias": torch.zeros(config.d_model),
        "sequence_head.weight": weights["sequence_head.weight"].detach().cpu() / STRAIGHT,
    }


def without_straight_pooler(config: ModelConfig, weights: Mapping[str, Tensor]) -> Converted | None:
    """Undo `straight_pooler`; None if the pooler is another one."""
    dense, bias = (weights[name] for name in POOL)
    if bias.any() or not torch.equal(dense, torch.eye(len(dense)) * STRAIGHT):
        return None
    kept = {name: weight for name, weight in weights.items() if name not in POOL}
    kept["sequence_head.weight"] = weights["sequence_head.weight"] * STRAIGHT
    return replace(config, pooling=Pooling.cls), kept
