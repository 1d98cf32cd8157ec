"""One vector for each sequence, from its tokens, its windows, or two texts read apart (Reimers and Gurevych 2019)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from encoderlab.batch import WindowPooling
from encoderlab.model.config import ModelConfig, Pooling
from encoderlab.model.packing import Ids

Hidden = Float[Tensor, "batch length d_model"]
Mask = Bool[Tensor, "batch positions"]  # more positions than vectors if only the first tokens were computed
Pooled = Float[Tensor, "batch d_model"]

FIRST_TOKEN = (Pooling.cls, Pooling.pooler, Pooling.relu_pooler)  # those that read only the first token


class ClsPool(nn.Module):
    """The vector of the first token (BERT, section 3)."""

    def forward(self, hidden: Hidden, mask: Mask | None) -> Pooled:
        return hidden[:, 0]


class MeanPool(nn.Module):
    """The mean of the vectors of all real tokens."""

    def forward(self, hidden: Hidden, mask: Mask | None) -> Pooled:
        if mask is None:
            return hidden.mean(dim=1)
        real = mask[:, :, None].to(hidden.dtype)
        return (hidden * real).sum(dim=1) / real.sum(dim=1)


class Pooler(nn.Module):
    """activation(W x + b) of the first token: tanh in BERT's code, ReLU in DistilBERT's."""

    def __init__(self, d_model: int, activation: nn.Module) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, d_model)
        self.activation = activation

    def forward(self, hidden: Hidden, mask: Mask | None) -> Pooled:
        return self.activation(self.dense(hidden[:, 0]))


def build_pooling(config: ModelConfig) -> nn.Module:
    """Return the chosen pooling: `(hidden, mask) -> pooled`; the mask is True at real tokens (None: all are)."""
    if config.pooling is Pooling.pooler:
        return Pooler(config.d_model, nn.Tanh())
    if config.pooling is Pooling.relu_pooler:
        return Pooler(config.d_model, nn.ReLU())
    return MeanPool() if config.pooling is Pooling.mean else ClsPool()


def pool_windows(
    x: Float[Tensor, "sequences features"],
    row_of_sequence: Int[Tensor, " sequences"],
    rows: int,
    pooling: WindowPooling,
) -> Float[Tensor, "{rows} features"]:
    """Return the mean or the maximum of each feature over the sequences, at least one, of each of the `rows`."""
    x = x.float()
    index = row_of_sequence[:, None].expand_as(x)
    if pooling == "max":
        return x.new_zeros(rows, x.shape[1]).scatter_reduce(0, index, x, "amax", include_self=False)
    sums = x.new_zeros(rows, x.shape[1]).index_add(0, row_of_sequence, x)
    counts = x.new_zeros(rows).index_add(0, row_of_sequence, x.new_ones(len(x)))
    return sums / counts[:, None]


WIDTH = 4  # of `compared`, in widths of the encoder


def separate_texts(
    input_ids: Ids, token_type_ids: Ids, attention_mask: Mask | None
) -> tuple[Int[Tensor, "texts length"], Bool[Tensor, "texts length"]]:
    """Return the texts of pairs as separate sequences, all first texts and then all second ones, and the mask of their
    tokens.

    A pair is [CLS] a [SEP] b [SEP], with token type 1 from b on. Its texts are [CLS] a [SEP] and [CLS] b [SEP]: one
    token more.
    """
    pairs, length = input_ids.shape
    columns = torch.arange(length, device=input_ids.device)
    real = torch.ones_like(input_ids, dtype=torch.bool) if attention_mask is None else attention_mask
    first = real & (token_type_ids == 0)
    before = first.sum(dim=1, keepdim=True) - 1  # the column of the first [SEP]
    seconds = input_ids.gather(1, (columns + before).clamp(0, length - 1))
    seconds = torch.cat([input_ids[:, :1], seconds[:, 1:]], dim=1)
    second = columns <= (real & (token_type_ids != 0)).sum(dim=1, keepdim=True)
    return torch.cat([input_ids, seconds]), torch.cat([first, second & real[:, :1]])


def compared(texts: Float[Tensor, "texts d_model"]) -> Float[Tensor, "pairs features"]:
    """u, v, |u - v| and u * v of the vectors of first and second texts (Conneau et al. 2017, section 3.1), 4 * d_model
    wide.

    u and v are scaled to the length sqrt(d_model), so that their features are about 1 each: of an encoder trained for
    sentence vectors, the mean of u * v is then the cosine. Unscaled, SICK's Pearson correlation on validation was
    0.826, not 0.850.
    """
    scaled = F.normalize(texts, dim=-1) * texts.shape[-1] ** 0.5
    first, second = scaled.unflatten(0, (2, -1)).unbind()
    return torch.cat([first, second, (first - second).abs(), first * second], dim=-1)
