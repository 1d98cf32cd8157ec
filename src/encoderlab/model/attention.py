"""Scaled dot-product attention, and several heads of it side by side (paper, section 3.2)."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from encoderlab.model.config import ModelConfig, Positions
from encoderlab.model.dropout import Dropout
from encoderlab.model.positions import RotaryPositions


def attention_weights(
    q: Float[Tensor, "batch heads queries d_head"],
    k: Float[Tensor, "batch heads length d_head"],
    mask: Bool[Tensor, "batch length"] | None,
) -> Float[Tensor, "batch heads queries length"]:
    """softmax(q k^T / sqrt(d_head)), equation 1: how much of each token goes into each answer. Each row sums to 1.

    `mask` is True at tokens that may be attended to, at least one in each sequence (see `attendable`); None: all of them. (The root
    is of d_head as in the paper, where some notebooks take the sequence's length.)
    """
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None, :], -math.inf)
    return scores.softmax(dim=-1)


def attend(
    q: Float[Tensor, "batch heads queries d_head"],
    k: Float[Tensor, "batch heads length d_head"],
    v: Float[Tensor, "batch heads length d_head"],
    mask: Bool[Tensor, "batch length"] | None,
    dropout: Dropout,
) -> Float[Tensor, "batch heads queries d_head"]:
    """dropout(attention_weights(q, k, mask)) v, equation 1, by PyTorch's fused kernel wherever that is the faster way."""
    p = dropout.p if dropout.training else 0.0
    # on a CPU the kernel's backward pass is 4 to 8 times slower in bfloat16, and with dropout there is no kernel
    if q.device.type == "cpu" and (q.dtype == torch.bfloat16 or p > 0):
        return dropout(attention_weights(q, k, mask)) @ v
    return F.scaled_dot_product_attention(q, k, v, None if mask is None else mask[:, None, None, :], dropout_p=p)


def attendable(attention_mask: Bool[Tensor, "batch length"] | None) -> Bool[Tensor, "batch length"] | None:
    """The same mask, but with all tokens of a sequence that is nothing but padding: a softmax over no tokens is NaN."""
    if attention_mask is None:
        return None
    return attention_mask | ~attention_mask.any(dim=1, keepdim=True)


class MultiHeadAttention(nn.Module):
    """Concat(head_1, ..., head_h) W^O with head_i = Attention(x W_i^Q, x W_i^K, x W_i^V) (paper, section 3.2.2).

    The W_i of all heads stand side by side in one map. `d_head` need not be d_model / n_heads. Rotary positions, where they are
    asked for, turn queries and keys.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.d_head = config.head_width
        width = config.n_heads * self.d_head
        self.query = nn.Linear(config.d_model, width, bias=config.bias)
        self.key = nn.Linear(config.d_model, width, bias=config.bias)
        self.value = nn.Linear(config.d_model, width, bias=config.bias)
        self.output = nn.Linear(width, config.d_model, bias=config.bias)
        rotary = config.positions is Positions.rotary
        self.rotate = RotaryPositions(config.max_length, self.d_head) if rotary else nn.Identity()
        self.dropout = Dropout(config.attention_dropout)

    def forward(
        self, x: Float[Tensor, "batch length d_model"], mask: Bool[Tensor, "batch length"] | None, first: int | None = None
    ) -> Float[Tensor, "batch answers d_model"]:
        """What each token learns from all of them; only for the `first` tokens of each sequence, where that is given."""
        q, k = self.queries_and_keys(x, first)
        answers = attend(q, k, self.by_head(self.value(x)), mask, self.dropout)
        return self.output(answers.transpose(1, 2).flatten(2))

    def weights(
        self, x: Float[Tensor, "batch length d_model"], mask: Bool[Tensor, "batch length"] | None
    ) -> Float[Tensor, "batch heads length length"]:
        """The attention weights that `forward` uses when it does not train."""
        return attention_weights(*self.queries_and_keys(x), mask)

    def queries_and_keys(
        self, x: Float[Tensor, "batch length d_model"], first: int | None = None
    ) -> tuple[Float[Tensor, "batch heads answers d_head"], Float[Tensor, "batch heads length d_head"]]:
        """Queries of the `first` tokens (None: all) and keys of all tokens, each for every head."""
        return self.rotate(self.by_head(self.query(x[:, :first]))), self.rotate(self.by_head(self.key(x)))

    def by_head(self, x: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch heads length d_head"]:
        """Cut the features of each token into those of its heads."""
        return x.unflatten(-1, (-1, self.d_head)).transpose(1, 2)
