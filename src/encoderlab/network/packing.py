"""The layout of a batch's tokens in memory, padded to one length or packed without padding, and the tokens the last
layer computes.

Removing padding everywhere, from the embeddings up, is the unpadding of MosaicBERT (Portes et al. 2023) and ModernBERT
(Warner et al. 2024). Nothing here makes the host wait for the device: everything that determines a shape comes from the
host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

Ids = Int[Tensor, "batch length"]
Mask = Bool[Tensor, "batch length"]  # True at real tokens
Tokens = Float[Tensor, "*tokens d_model"]  # vectors of tokens, padded or packed


def attendable(attention_mask: Mask | None) -> Mask | None:
    """Return the mask with all tokens of a fully padded sequence attendable: a softmax over no tokens is NaN."""
    if attention_mask is None:
        return None
    return attention_mask | ~attention_mask.any(dim=1, keepdim=True)


def worth_packing(n_tokens: int, input_ids: Ids, *, kernel: bool) -> bool:
    """Return whether removing the padding of a batch with `n_tokens` real tokens is faster than computing it.

    `kernel` says whether there is an attention kernel for packed sequences.
    """
    if n_tokens == 0 or input_ids.device.type == "mps":  # see `places_of`
        return False
    # Without a kernel each layer gathers and pads. On a CPU that costs what it saves with 4% of padding; with 18% and
    # 42%, training steps of `tiny` and `mini` took 0.8 and 0.6 times as long.
    return kernel or n_tokens < 0.9 * input_ids.numel()


def places_of(marks: Shaped[Tensor, " places"], number: int) -> Int[Tensor, " number"]:
    """Return the places of the `number` values that are not zero, without making the host wait for a CUDA device.

    MPS has no nonzero_static before PyTorch 2.13, so there the host waits.
    """
    if marks.device.type == "mps":
        return marks.nonzero().flatten()
    return torch.nonzero_static(marks, size=number).flatten()


@dataclass(eq=False)
class Layout:
    """The tokens of a batch: padded, [batch, width, ...], or packed one after another, [tokens, ...].

    `pad` and `pack` convert between the two; if nothing is packed, both return the tensor unchanged. `positions` are
    the tokens' positions in their sequences, or how many there are, from 0; `mask` is True at those that may be
    attended to (None: all). Packed tokens come from the `slots` of the flattened padded batch; those of sequence i are
    `bounds[i]` to `bounds[i + 1]`. `real` is True at the tokens of that batch that are kept. `bias` is added to the
    attention scores: [heads, attending position, attended position].
    """

    batch: int
    width: int
    positions: int | Int[Tensor, " tokens"]
    mask: Mask | None = None
    slots: Int[Tensor, " tokens"] | None = None
    bounds: Int[Tensor, " bounds"] | None = None
    real: Bool[Tensor, " slots"] | None = None
    bias: Float[Tensor, "heads width width"] | None = None

    @classmethod
    def padded(cls, batch: int, length: int, attention_mask: Mask | None = None) -> Layout:
        """Return the layout of all tokens of a batch as they are; `attention_mask` is True at real ones."""
        return cls(batch, length, length, attendable(attention_mask))

    @classmethod
    def packed(cls, attention_mask: Mask, n_tokens: int) -> Layout:
        """Return the layout of only the `n_tokens` real tokens of a batch."""
        batch, length = attention_mask.shape
        real = attention_mask.flatten()
        slots = places_of(real, n_tokens)
        bounds = _bounds(slots // length, batch)
        return cls(batch, length, slots % length, attendable(attention_mask), slots, bounds, real)

    def pack(self, x: Shaped[Tensor, "batch width *features"]) -> Shaped[Tensor, "*tokens"]:
        """Return the tokens of this layout from a padded batch."""
        return x if self.slots is None else x.flatten(0, 1).index_select(0, self.slots)

    def pad(self, x: Shaped[Tensor, "*tokens"]) -> Shaped[Tensor, "batch width *features"]:
        """Return the tokens at their positions in the padded batch, with zeros elsewhere."""
        if self.slots is None:
            return x
        padded = x.new_zeros(self.batch * self.width, *x.shape[1:])
        return padded.index_copy_(0, self.slots, x).unflatten(0, (self.batch, self.width))

    def rows(self, table: Float[Tensor, "heads width width"]) -> Float[Tensor, "sequences heads queries width"]:
        """Return the rows of a table of two positions that belong to these tokens, padded.

        There is one sequence for all if the rows are the same in each.
        """
        if isinstance(self.positions, Tensor):
            return table[:, self.pad(self.positions)].transpose(0, 1)
        return table[None, :, : self.positions]


class Selection(NamedTuple):
    """The tokens to compute vectors for, at most `most` of each sequence.

    `positions` are their indices in the flattened padded batch, in any order; None: the first `most` of each sequence.
    """

    positions: Int[Tensor, " targets"] | None
    most: int


FIRST_TOKENS = Selection(None, 1)


class SelectedTokens:
    """The tokens of a `selection` among those laid out as `tokens`; `layout` is their own layout."""

    def __init__(self, selection: Selection, tokens: Layout) -> None:
        most = min(selection.most, tokens.width)
        self.shape: tuple[int, ...] | None = None
        if selection.positions is not None:
            self._find(selection.positions, selection.most, tokens)
        elif tokens.real is None:
            self.layout = Layout(tokens.batch, most, most)  # the first tokens of a padded batch: a slice of it
        else:
            starts = torch.arange(tokens.batch, device=tokens.real.device)[:, None] * tokens.width
            self._find(starts + torch.arange(most, device=starts.device), most, tokens)

    def _find(self, positions: Int[Tensor, "*targets"], most: int, tokens: Layout) -> None:
        """Sort the positions, so that each sequence's tokens are together; `order` undoes that, and `indices` are where
        the tokens are among the vectors of all tokens.
        """
        flat, self.order = positions.flatten().sort()
        sequences = flat // tokens.width
        bounds = _bounds(sequences, tokens.batch)
        rank = torch.arange(len(flat), device=flat.device) - bounds.index_select(0, sequences)
        self.layout = Layout(tokens.batch, most, flat % tokens.width, None, sequences * most + rank, bounds)
        real = tokens.real
        self.shape = positions.shape
        self.padding = None if real is None else ~real.index_select(0, flat)
        self.indices = flat if real is None else (real.cumsum(0) - 1).index_select(0, flat).clamp(min=0)

    def pick(self, x: Tokens) -> Float[Tensor, "*targets d_model"]:
        """Return the vectors of these tokens from those of all tokens; zeros for removed padding."""
        if self.shape is None:
            return x[:, : self.layout.width]
        picked = x.reshape(-1, x.shape[-1]).index_select(0, self.indices)
        return picked if self.padding is None else picked.masked_fill(self.padding[:, None], 0.0)

    def restore(self, x: Float[Tensor, "*targets d_model"]) -> Float[Tensor, "*positions d_model"]:
        """Return the vectors in the order and shape in which they were selected."""
        if self.shape is None:
            return x
        return torch.empty_like(x).index_copy_(0, self.order, x).view(*self.shape, x.shape[-1])


def _bounds(sequences: Int[Tensor, " tokens"], batch: int) -> Int[Tensor, " bounds"]:
    """Return where each of the `batch` sequences begins, and the last ends, from each token's ascending sequence."""
    return torch.searchsorted(sequences, torch.arange(batch + 1, device=sequences.device), out_int32=True)
