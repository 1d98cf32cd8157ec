"""How the tokens of a batch lie in memory: sequences padded to one length, or real tokens alone, packed one behind another.

To leave padding out of everything, from the embeddings up, is the unpadding of MosaicBERT (Portes et al. 2023) and ModernBERT
(Warner et al. 2024). Nothing here makes the host wait for the device: whatever sets a shape comes from the host.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor


def attendable(attention_mask: Bool[Tensor, "batch length"] | None) -> Bool[Tensor, "batch length"] | None:
    """The same mask, but with all tokens of a sequence that is nothing but padding: a softmax over no tokens is NaN."""
    if attention_mask is None:
        return None
    return attention_mask | ~attention_mask.any(dim=1, keepdim=True)


def worth_packing(n_tokens: int, input_ids: Int[Tensor, "batch length"], *, kernel: bool) -> bool:
    """Whether to leave out the padding of a batch with so many real tokens is faster than to compute it.

    `kernel` says that attention over packed sequences has a kernel of its own.
    """
    if n_tokens == 0 or input_ids.device.type == "mps":  # which has no nonzero_static
        return False
    # Without a kernel each layer gathers and pads: on a CPU, with 4% of padding that costs what it saves, with 18% and 42% training
    # steps of `tiny` and `mini` took 0.8 and 0.6 times as long.
    return kernel or n_tokens < 0.9 * input_ids.numel()


class Padded:
    """All tokens of a batch, [batch, length], or the first `length` of each sequence.

    `mask` is True at tokens that may be attended to; None: all of them. `positions` are the tokens' places in their sequence.
    """

    def __init__(self, batch: int, length: int, attention_mask: Bool[Tensor, "batch length"] | None) -> None:
        self.batch, self.length = batch, length
        self.mask = attendable(attention_mask)
        self.positions = slice(length)

    def pack(self, x: Shaped[Tensor, "batch length *features"]) -> Shaped[Tensor, "batch length *features"]:
        """As it stands: padding stays."""
        return x

    pad = unpack = pack

    def pick(self, x: Float[Tensor, "batch tokens d_model"]) -> Float[Tensor, "batch length d_model"]:
        """The first `length` of all tokens."""
        return x[:, : self.length]

    def first(self, n: int) -> Padded:
        """The first `n` tokens of each sequence."""
        return Padded(self.batch, min(n, self.length), None)

    def at(self, positions: Int[Tensor, " targets"], most: int) -> Selection:
        """The tokens at `positions`, indices into the flattened tokens, at most so many of one sequence."""
        return Selection(positions, most, self.batch, self.length)


class Packed:
    """Some tokens of a padded batch, one behind another: [tokens]. `flat` are their indices into the flattened batch, rising.

    The tokens of sequence i are those from `bounds[i]` to `bounds[i + 1]`, and at most `width`. `pad` and `pack` change between
    [tokens, ...] and [batch, width, ...], where the tokens stand at the flattened `slots`. `mask` and `positions`: see `Padded`.
    """

    def __init__(self, flat: Int[Tensor, " tokens"], batch: int, length: int) -> None:
        self.batch, self.length, self.width = batch, length, length
        self.slots = flat
        self.positions = flat % length
        self.sequences = flat // length
        starts = torch.arange(batch + 1, device=flat.device)
        self.bounds = torch.searchsorted(self.sequences, starts, out_int32=True)

    def pack(self, x: Shaped[Tensor, "batch width *features"]) -> Shaped[Tensor, " tokens *features"]:
        """Leave out what is not of these tokens."""
        return x.flatten(0, 1).index_select(0, self.slots)

    def pad(self, x: Shaped[Tensor, " tokens *features"]) -> Shaped[Tensor, "batch width *features"]:
        """Put zeros where there is no token."""
        padded = x.new_zeros(self.batch * self.width, *x.shape[1:])
        return padded.index_copy_(0, self.slots, x).unflatten(0, (self.batch, self.width))


class PackedTokens(Packed):
    """All real tokens of a batch, of which there are `n_tokens`. A sequence of padding alone has none: zeros stand in for them."""

    def __init__(self, attention_mask: Bool[Tensor, "batch length"], n_tokens: int) -> None:
        real = attention_mask.flatten()
        super().__init__(torch.nonzero_static(real, size=n_tokens).flatten(), *attention_mask.shape)
        self.mask, self.real = attendable(attention_mask), real

    def pick(self, x: Float[Tensor, "tokens d_model"]) -> Float[Tensor, "tokens d_model"]:
        """All of them."""
        return x

    def unpack(self, x: Float[Tensor, "tokens d_model"]) -> Float[Tensor, "batch length d_model"]:
        """The tokens where they stood before they were packed, and zeros at padding."""
        return self.pad(x)

    def first(self, n: int) -> Selection:
        """The first `n` tokens of each sequence; zeros stand for padding."""
        starts = torch.arange(self.batch, device=self.slots.device) * self.length
        n = min(n, self.length)
        return self.at(starts[:, None] + torch.arange(n, device=starts.device), n)

    def at(self, positions: Int[Tensor, "*targets"], most: int) -> Selection:
        """The tokens at `positions`, indices into the flattened batch as it was padded, at most so many of one sequence."""
        return Selection(positions, most, self.batch, self.length, self.real)


class Selection(Packed):
    """The tokens a layer answers for, `most` at most of one sequence. `unpack` gives answers in the shape and order of `positions`.

    `real` is given where the layer's tokens are packed: the flattened mask they were packed by.
    """

    def __init__(
        self, positions: Int[Tensor, "*targets"], most: int, batch: int, length: int, real: Bool[Tensor, " positions"] | None = None
    ) -> None:
        flat, self.order = positions.flatten().sort()
        super().__init__(flat, batch, length)
        self.shape, self.width = positions.shape, most
        behind = torch.arange(len(flat), device=flat.device) - self.bounds.index_select(0, self.sequences)
        self.slots = self.sequences * most + behind
        self.padding = None if real is None else ~real.index_select(0, flat)
        self.among = flat if real is None else (real.cumsum(0) - 1).index_select(0, flat).clamp(min=0)

    def pick(self, x: Float[Tensor, "*tokens d_model"]) -> Float[Tensor, "targets d_model"]:
        """The vectors of these tokens, of all tokens' vectors. Where padding is asked for, zeros: it has been left out."""
        picked = x.reshape(-1, x.shape[-1]).index_select(0, self.among)
        return picked if self.padding is None else picked.masked_fill(self.padding[:, None], 0.0)

    def unpack(self, x: Float[Tensor, "targets d_model"]) -> Float[Tensor, "*positions d_model"]:
        """The answers in the order in which they were asked for."""
        return torch.empty_like(x).index_copy_(0, self.order, x).view(*self.shape, x.shape[-1])


Layout = Padded | PackedTokens | Selection


def lay_out(
    batch: int, length: int, attention_mask: Bool[Tensor, "batch length"] | None, n_tokens: int | None
) -> Padded | PackedTokens:
    """All tokens of a batch: packed where some are padding and the number of those that are not is known, else padded."""
    if attention_mask is None or n_tokens is None:
        return Padded(batch, length, attention_mask)
    return PackedTokens(attention_mask, n_tokens)
