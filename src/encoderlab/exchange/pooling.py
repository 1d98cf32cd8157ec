"""Poolings that BERT's classifier lacks, as weights that it has, so that transformers' own class computes them.

The first token without a pooler becomes a pooler that changes nothing, and a mean one more layer. Both are undone when
such a folder is read.
"""

import math
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


# Mean pooling as one more layer of BERT, so that transformers' own class computes it and no code travels with a model.
# A classifier of BERT's reads the first token alone. A layer whose queries and keys are zero attends to all real tokens
# evenly, so its attention gives every token, the first too, the mean of the values. With the head's weights as values,
# the mean is that of the logits, which are the logits of the mean. What else the layer does must not show:
#
# * The residual connection adds the first token's own vector: the last norm before is scaled down by SMALL, and the
#   values up again.
# * Two norms divide by the vector's deviation: two large constants of opposite sign (ANCHOR) determine it, whatever the
#   logits, and the norms' weights multiply by it again. The mean that they subtract is that of an unused feature, too.
# * The pooler's tanh is straight near zero, where FLAT moves the logits.
#
# Every factor but the norms' is a power of two, so nothing is rounded by them, and what remains changes a logit by
# about 1e-5. The numbers also fit into bfloat16 and float16.
SMALL = 2.0**-16
VALUES, OUTPUT = 2.0**9, 2.0**8  # together they undo SMALL and double the logits
SCALE = SMALL * VALUES * OUTPUT
ANCHOR = 2.0**15
FLAT = 2.0**-14  # tanh(x) is x to within a millionth where |x| < 0.0017: logits below 14
UNUSED = 3  # features without a logit: the two anchors, and one more


def add_averaging_layer(config: ModelConfig, weights: Mapping[str, Tensor]) -> Converted:
    """Return a model with `pooling=pooler` that gives the logits of one with `pooling=mean`, in one layer more."""
    d_model, d_ff = config.d_model, config.feed_forward_width
    head = weights["sequence_head.weight"].detach().cpu().float()
    n_classes, last, new = len(head), f"encoder.layers.{config.n_layers - 1}", f"encoder.layers.{config.n_layers}"
    deviation = ANCHOR * math.sqrt(2 / d_model)
    values, anchors, pooler = torch.zeros(d_model, d_model), torch.zeros(d_model), torch.zeros(d_model, d_model)
    values[:n_classes] = head * VALUES
    anchors[-2:] = torch.tensor([ANCHOR, -ANCHOR])
    pooler[:n_classes, :n_classes] = torch.eye(n_classes) * FLAT
    pooler[:n_classes, -UNUSED] = -FLAT
    shrunk = {
        name: weights[name].detach().cpu() * SMALL
        for name in (f"{last}.feed_forward_norm.weight", f"{last}.feed_forward_norm.bias")
        if name in weights
    }
    added = {
        f"{new}.attention.query.weight": torch.zeros(d_model, d_model),
        f"{new}.attention.key.weight": torch.zeros(d_model, d_model),
        f"{new}.attention.value.weight": values,
        f"{new}.attention.output.weight": torch.eye(d_model) * OUTPUT,
        f"{new}.attention.output.bias": anchors,
        f"{new}.attention_norm.weight": torch.full((d_model,), deviation),
        f"{new}.feed_forward.inner.weight": torch.zeros(d_ff, d_model),
        f"{new}.feed_forward.outer.weight": torch.zeros(d_model, d_ff),
        f"{new}.feed_forward_norm.weight": torch.full((d_model,), deviation),
        "pool.dense.weight": pooler,
        "pool.dense.bias": torch.zeros(d_model),
        "sequence_head.weight": torch.eye(n_classes, d_model) / (SCALE * FLAT),
    }
    theirs = replace(config, n_layers=config.n_layers + 1, d_ff=d_ff, pooling=Pooling.pooler)
    return theirs, {**weights, **shrunk, **added}


def without_averaging_layer(config: ModelConfig, weights: Mapping[str, Tensor]) -> Converted | None:
    """Undo `add_averaging_layer`; None if the last layer is not one."""
    last, before = (f"encoder.layers.{config.n_layers - number}." for number in (1, 2))
    output, head = weights[f"{last}attention.output.weight"], weights["sequence_head.weight"]
    marks = [weights[f"{last}attention.query.weight"], weights[f"{last}feed_forward.inner.weight"]]
    if config.n_layers < 2 or any(mark.any() for mark in marks):
        return None
    if not torch.equal(output, torch.eye(len(output)) * OUTPUT):
        return None
    kept = {name: weight for name, weight in weights.items() if not name.startswith((last, "pool."))}
    for name in (f"{before}feed_forward_norm.weight", f"{before}feed_forward_norm.bias"):
        kept[name] = kept[name] / SMALL
    kept["sequence_head.weight"] = weights[f"{last}attention.value.weight"][: len(head)] / VALUES
    return replace(config, n_layers=config.n_layers - 1, pooling=Pooling.mean), kept
