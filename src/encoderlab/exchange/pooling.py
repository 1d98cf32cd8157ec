"""The first token without a pooler as ELECTRA's head, so that transformers' own class computes it.

That head is a dense layer and a GELU. The dense layer becomes the identity plus a shift that makes every coordinate so
large that a GELU changes nothing; the classifier's bias takes the shift away again. All weights keep their scale, so
the model can be quantized and trained further. BERT's head for pairs in pretraining has a tanh instead, so there the
vectors are shrunk to where that is straight. Both are undone when such a folder is read.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from encoderlab.model.config import ModelConfig, Pooling

POOL = {"pool.dense.weight": 2, "pool.dense.bias": 1}  # names and dimensions
CLASSIFIER = "sequence_head"
IDENTITY_FROM = 6.0  # from here on, gelu(x) is x in float32
STRAIGHT = 2.0**-13  # tanh(STRAIGHT * x) / STRAIGHT is x, to within a millionth where |x| < 14
Converted = tuple[ModelConfig, dict[str, Tensor]]  # the settings and weights of a model with the same outputs


def with_shifted_pooler(config: ModelConfig, weights: Mapping[str, Tensor]) -> Converted:
    """Return the same classifier with ELECTRA's pooler in the place of none."""
    shift = _shift(config, weights)
    classifier = weights[f"{CLASSIFIER}.weight"].detach().cpu().float()
    bias = weights.get(f"{CLASSIFIER}.bias", torch.zeros(len(classifier))).detach().cpu().float()
    pooler = {
        "pool.dense.weight": torch.eye(config.d_model),
        "pool.dense.bias": shift,
        f"{CLASSIFIER}.bias": bias - classifier @ shift,
    }
    return replace(config, pooling=Pooling.gelu_pooler), {**weights, **pooler}


def without_shifted_pooler(config: ModelConfig, weights: Mapping[str, Tensor]) -> Converted | None:
    """Undo `with_shifted_pooler`; None if the pooler is another one."""
    dense, shift = (weights[name] for name in POOL)
    if not torch.equal(dense, torch.eye(len(dense))) or not torch.equal(shift, _shift(config, weights)):
        return None
    kept = {name: weight for name, weight in weights.items() if name not in POOL}
    kept[f"{CLASSIFIER}.bias"] = weights[f"{CLASSIFIER}.bias"] + weights[f"{CLASSIFIER}.weight"] @ shift
    return replace(config, pooling=Pooling.cls), kept


def _shift(config: ModelConfig, weights: Mapping[str, Tensor]) -> Tensor:
    """Return for each coordinate of the encoder's output what lifts all its values above `IDENTITY_FROM`, [d_model].

    The last layer ends in a layer norm, whose standardized vector has the length sqrt(d_model), so that none of its
    coordinates is below -sqrt(d_model - 1).
    """
    norm = f"encoder.layers.{config.n_layers - 1}.feed_forward_norm"
    scale = weights[f"{norm}.weight"].detach().cpu().float()
    bias = weights.get(f"{norm}.bias", torch.zeros_like(scale)).detach().cpu().float()
    lowest = bias - scale.abs() * (config.d_model - 1) ** 0.5
    return (IDENTITY_FROM - lowest).relu()


def with_straight_pooler(config: ModelConfig, weights: Mapping[str, Tensor]) -> Converted:
    """Return the same model of pairs with BERT's pooler in the place of none: the head makes up for its small scale."""
    pooler = {
        "pool.dense.weight": torch.eye(config.d_model) * STRAIGHT,
        "pool.dense.bias": torch.zeros(config.d_model),
        f"{CLASSIFIER}.weight": weights[f"{CLASSIFIER}.weight"].detach().cpu() / STRAIGHT,
    }
    return replace(config, pooling=Pooling.pooler), {**weights, **pooler}


def without_straight_pooler(config: ModelConfig, weights: Mapping[str, Tensor]) -> Converted | None:
    """Undo `with_straight_pooler`; None if the pooler is another one."""
    dense, bias = (weights[name] for name in POOL)
    if bias.any() or not torch.equal(dense, torch.eye(len(dense)) * STRAIGHT):
        return None
    kept = {name: weight for name, weight in weights.items() if name not in POOL}
    kept[f"{CLASSIFIER}.weight"] = weights[f"{CLASSIFIER}.weight"] * STRAIGHT
    return replace(config, pooling=Pooling.cls), kept
