"""Scaled dot-product attention, and several heads of it side by side (paper, section 3.2)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from encoderlab.network.config import ModelConfig, Positions
from encoderlab.network.layers import Dropout, RotaryPositions
from encoderlab.network.packing import Layout, Mask, SelectedTokens, Tokens

Bias = Float[Tensor, "sequences heads_or_1 queries length"]  # added to the scores; one sequence may stand for all


def attention_weights(
    q: Float[Tensor, "batch heads queries d_head"],
    k: Float[Tensor, "batch heads length d_head"],
    mask: Mask | None,
    bias: Bias | None = None,
) -> Float[Tensor, "batch heads queries length"]:
    """softmax(q k^T / sqrt(d_head) + bias), equation 1: how much of each token goes into each output.

    Each row sums to 1.

    `mask` is True at tokens that may be attended to, at least one per sequence (see `attendable`); None: all tokens.
    The scale is the root of d_head, as in the paper; some notebooks use the root of the sequence's length.
    """
    scores = q / math.sqrt(q.shape[-1]) @ k.transpose(-2, -1)  # fewer divisions than after the product
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None, :], -math.inf)
    return scores.softmax(dim=-1)


def formula_is_faster(device: torch.device, dtype: torch.dtype, dropout: float) -> bool:
    """Return whether equation 1 itself is faster than PyTorch's fused kernel, or there is none."""
    # on a CPU the kernel's backward pass is 4 to 8 times slower in bfloat16, and with dropout there is no kernel
    return device.type == "cpu" and (dtype == torch.bfloat16 or dropout > 0)


def attend(
    q: Float[Tensor, "batch heads queries d_head"],
    k: Float[Tensor, "batch heads length d_head"],
    v: Float[Tensor, "batch heads length d_head"],
    mask: Mask | None,
    dropout: Dropout,
    bias: Bias | None = None,
) -> Float[Tensor, "batch heads queries d_head"]:
    """dropout(attention_weights(q, k, mask, bias)) v, equation 1, by PyTorch's fused kernel wherever that is faster."""
    p = dropout.p if dropout.training else 0.0
    if formula_is_faster(q.device, q.dtype, p):
        return dropout(attention_weights(q, k, mask, bias)) @ v
    added = None if mask is None else mask[:, None, None, :]
    if bias is not None:
        added = bias.to(q.dtype) if added is None else bias.to(q.dtype).masked_fill(~added, -math.inf)
    return F.scaled_dot_product_attention(q, k, v, added, dropout_p=p)


def attend_packed(
    q: Float[Tensor, "targets heads d_head"],
    k: Float[Tensor, "tokens heads d_head"],
    v: Float[Tensor, "tokens heads d_head"],
    queries: Layout,
    keys: Layout,
) -> Float[Tensor, "targets heads d_head"]:
    """`attend` without dropout for packed sequences, by PyTorch's kernel for them: FlashAttention-2 (Dao 2023)."""
    from torch.nn.attention.varlen import varlen_attn  # takes a second to import, and a CPU does not need it

    assert queries.bounds is not None and keys.bounds is not None, "both are packed"
    outputs = varlen_attn(q, k, v, queries.bounds, keys.bounds, queries.width, keys.width)
    assert isinstance(outputs, Tensor)  # a tuple only if more outputs are requested
    return outputs


def packed_kernel_takes(device: torch.device, dtype: torch.dtype, dropout: float, d_head: int) -> bool:
    """Return whether `attend_packed` has a kernel for these; see the checks in PyTorch's flash_api.cpp."""
    if device.type != "cuda" or not torch.backends.cuda.is_flash_attention_available():
        return False
    # some GPUs have no backward pass for wider heads; Ampere (8) is the first that has the kernel
    fits = dtype in (torch.bfloat16, torch.float16) and dropout == 0 and d_head % 8 == 0 and d_head <= 192
    return fits and torch.cuda.get_device_properties().major >= 8


def attention_kernel(device: torch.device, dtype: torch.dtype, dropout: float, d_head: int = 64) -> str:
    """Return the name of the attention implementation used in training."""
    if formula_is_faster(device, dtype, dropout):
        return "matrix products and softmax"
    if packed_kernel_takes(device, dtype, dropout, d_head):
        return "PyTorch's fused kernels, without padding"
    return "PyTorch's fused kernels" if device.type == "cuda" else "PyTorch's fused kernel"


FAR = -30000.0  # added to a score, it makes a weight of zero; it fits into 16 bits, and unlike infinity gives no NaN


def local_bias(length: int, window: int, device: torch.device) -> Float[Tensor, "1 length length"] | None:
    """Return 0 for tokens at most `window` apart, and FAR for others; None if there are no others.

    Layers with local attention are those of Beltagy et al. (2020, section 3.1).
    """
    if not torch.compiler.is_compiling() and length <= window + 1:
        return None
    positions = torch.arange(length, device=device)
    is_far = (positions[:, None] - positions).abs() > window
    return torch.where(is_far, FAR, 0.0)[None]


class MultiHeadAttention(nn.Module):
    """Concat(head_1, ..., head_h) W^O with head_i = Attention(x W_i^Q, x W_i^K, x W_i^V) (paper, section 3.2.2).

    The W_i of all heads are one linear map. `d_head` need not be d_model / n_heads. Rotary positions turn q and k. With
    a window, tokens attend only to those nearby.
    """

    def __init__(self, config: ModelConfig, layer: int = 0) -> None:
        super().__init__()
        self.d_head = config.head_width
        width = config.n_heads * self.d_head
        self.query = nn.Linear(config.d_model, width, bias=config.bias)
        self.key = nn.Linear(config.d_model, width, bias=config.bias)
        self.value = nn.Linear(config.d_model, width, bias=config.bias)
        self.output = nn.Linear(width, config.d_model, bias=config.bias)
        rotary = config.positions is Positions.rotary
        base = config.rotary_base_of(layer)
        self.rotate = RotaryPositions(config.reach, self.d_head, base) if rotary else None
        self.window = config.window_of(layer)
        self.dropout = Dropout(config.attention_dropout)
        self.has_bias = config.relative_buckets > 0

    def forward(
        self, x: Tokens, layout: Layout, selected: SelectedTokens | None = None
    ) -> Float[Tensor, "*targets d_model"]:
        """Return what the `selected` tokens (None: all) attend to in their sequences, whose tokens' vectors are `x`."""
        queried, queries = (x, layout) if selected is None else (selected.pick(x), selected.layout)
        q, k, v = (self.by_head(each) for each in (self.query(queried), self.key(x), self.value(x)))
        if self.rotate is not None:
            q = self.rotate(q, queries.positions)
            k = self.rotate(k, layout.positions)
        bias = self.bias(layout, selected)
        if bias is None and layout.slots is not None and self.has_packed_kernel(q.device, q.dtype):
            outputs = attend_packed(q, k, v, queries, layout)
        else:
            q = queries.pad(q)
            k = layout.pad(k)
            v = layout.pad(v)
            heads = attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), layout.mask, self.dropout, bias)
            outputs = queries.pack(heads.transpose(1, 2))
        return self.output(outputs.flatten(-2))

    def has_packed_kernel(self, device: torch.device, dtype: torch.dtype) -> bool:
        """Return whether there is an attention kernel for packed sequences; see `packed_kernel_takes`."""
        if self.has_bias:  # which the kernel cannot add
            return False
        return packed_kernel_takes(device, dtype, self.dropout.p if self.training else 0.0, self.d_head)

    def bias(self, layout: Layout, selected: SelectedTokens | None = None) -> Bias | None:
        """Return what is added to the scores of the `selected` tokens (None: all); None: nothing."""
        parts = [] if layout.bias is None else [layout.bias]
        if self.window is not None:
            local = local_bias(layout.width, self.window, self.output.weight.device)
            parts += [] if local is None else [local]
        if not parts:
            return None
        bias = parts[0] if len(parts) == 1 else parts[0] + parts[1]
        return bias[None] if selected is None else selected.layout.rows(bias)

    def weights(self, x: Tokens, layout: Layout) -> Float[Tensor, "batch heads length length"]:
        """Return the attention weights that `forward` uses in evaluation mode; `x` is padded."""
        q = self.by_head(self.query(x))
        k = self.by_head(self.key(x))
        if self.rotate is not None:
            q = self.rotate(q, layout.positions)
            k = self.rotate(k, layout.positions)
        return attention_weights(q.transpose(1, 2), k.transpose(1, 2), layout.mask, self.bias(layout))

    def by_head(self, x: Float[Tensor, "*tokens width"]) -> Float[Tensor, "*tokens heads d_head"]:
        """Split the features of each token into those of its heads."""
        return x.unflatten(-1, (-1, self.d_head))
