"""Three ways to give an encoder, to which a sequence is otherwise a set, the order of its tokens."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from encoderlab.model.config import ModelConfig, Positions


def build_positions(config: ModelConfig) -> nn.Module | None:
    """Return the table of vectors to add to the embeddings; None for rotary positions, which act inside attention."""
    if config.positions is Positions.sinusoidal:
        return SinusoidalPositions(config.reach, config.d_model)
    if config.positions is Positions.learned:
        return LearnedPositions(config.reach, config.d_model)
    return None


def angles(length: int, width: int) -> Float[Tensor, "length half"]:
    """position / 10000^(2i / width) for each position and each i < width / 2: the angles of the paper's section 3.5."""
    cpu = torch.device("cpu")  # also for a model on the meta device, where nothing would fill the tables later
    frequencies = 10000 ** (-torch.arange(0, width, 2, dtype=torch.float64, device=cpu) / width)
    return torch.outer(torch.arange(length, dtype=torch.float64, device=cpu), frequencies).float()


class SinusoidalPositions(nn.Module):
    """Sines of the angles at even features, cosines at odd ones (paper, section 3.5). It has no parameters."""

    table: Tensor

    def __init__(self, max_length: int, d_model: int) -> None:
        super().__init__()
        turns = angles(max_length, d_model)
        table = torch.stack([turns.sin(), turns.cos()], dim=-1).flatten(1)
        self.register_buffer("table", table[:, :d_model], persistent=False)

    def forward(self, positions: slice | Int[Tensor, " tokens"]) -> Float[Tensor, "tokens d_model"]:
        return self.table[positions]


class LearnedPositions(nn.Module):
    """One learned vector per position (BERT, section 3)."""

    def __init__(self, max_length: int, d_model: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(max_length, d_model)

    def forward(self, positions: slice | Int[Tensor, " tokens"]) -> Float[Tensor, "tokens d_model"]:
        return self.embedding.weight[positions] if isinstance(positions, slice) else self.embedding(positions)


class RotaryPositions(nn.Module):
    """Rotate each pair of features of a query or key by an angle proportional to its position (Su et al. 2021, equation
    34).

    The product of a rotated query and a rotated key then depends on their distance, not on their positions. As in most
    later work, the pairs are feature i and feature i + d_head / 2.
    """

    cosines: Tensor
    sines: Tensor

    def __init__(self, max_length: int, d_head: int) -> None:
        super().__init__()
        turns = angles(max_length, d_head)
        self.register_buffer("cosines", turns.cos(), persistent=False)
        self.register_buffer("sines", turns.sin(), persistent=False)

    def forward(
        self, x: Float[Tensor, "*batch tokens heads d_head"], positions: slice | Int[Tensor, " tokens"]
    ) -> Float[Tensor, "*batch tokens heads d_head"]:
        cosines, sines = (table[positions, None].to(x.dtype) for table in (self.cosines, self.sines))
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cosines - second * sines, second * cosines + first * sines], dim=-1)
