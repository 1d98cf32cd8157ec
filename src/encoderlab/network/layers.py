"""The parts that every layer repeats: dropout, norms, the position-wise feed-forward network; and four ways to give an
encoder, to which a sequence is otherwise a set, the order of its tokens.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from encoderlab.network.config import Activation, ModelConfig, Norm, Positions


class Dropout(nn.Module):
    """Zero each number with probability `p` during training and divide the others by 1 - p (paper, section 5.4).

    On a CPU, PyTorch draws random numbers one at a time; here one draw of 64 bits decides four numbers, which is 2 to 3
    times as fast. `p` is then rounded to a multiple of 1 / 65536. (The compiler's dropout is fast by itself.)
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        assert 0 <= p <= 0.9, p  # closer to 1, rounding would change the fraction kept, and finally overflow
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.p)
        # Compared into numbers of the same type, three times as fast as by way of true and false.
        kept = torch.empty(x.shape, dtype=x.dtype)
        torch.ge(_random_int16(x.shape), round(self.p * 2**16) - 2**15, out=kept)
        return x * kept.mul_(1 / (1 - self.p))


def _random_int16(shape: torch.Size) -> Tensor:
    """Return numbers uniform over all 16-bit integers, from -2**15 on."""
    count = shape.numel()
    draws = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)  # the bounds say: all 64 bits
    return draws.view(torch.int16)[:count].view(shape)


def build_norm(config: ModelConfig, width: int | None = None) -> nn.Module:
    """Return the norm that the settings choose, over the last dimension, of `width` (None: d_model).

    layer: subtract the mean, divide by the standard deviation, then a scale and a shift per feature (Ba et al. 2016).
    rms: divide by the root of the mean square, then a scale per feature (Zhang and Sennrich 2019, equation 4).
    """
    width = width or config.d_model
    if config.norm is Norm.layer:
        return nn.LayerNorm(width, eps=config.norm_epsilon, bias=config.bias)
    return nn.RMSNorm(width, eps=config.norm_epsilon)


def geglu(x: Float[Tensor, "*positions twice_d_ff"]) -> Float[Tensor, "*positions d_ff"]:
    """GELU(first half) * second half: one half gates the other (Shazeer 2020, equation 6)."""
    gate, value = x.chunk(2, dim=-1)
    return F.gelu(gate) * value


def gelu_tanh(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), which is nearly GELU (Hendrycks and Gimpel 2016, section 2)."""
    return F.gelu(x, approximate="tanh")


def quick_gelu(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """x sigmoid(1.702 x), another approximation of GELU (the same section)."""
    return x * torch.sigmoid(1.702 * x)


def relu2(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The square of ReLU (So et al. 2021, Primer)."""
    return F.relu(x).square()


ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    Activation.relu: F.relu,
    Activation.gelu: F.gelu,
    Activation.geglu: geglu,
    Activation.gelu_tanh: gelu_tanh,
    Activation.quick_gelu: quick_gelu,
    Activation.silu: F.silu,
    Activation.mish: F.mish,
    Activation.hardswish: F.hardswish,
    Activation.leaky_relu: F.leaky_relu,
    Activation.relu2: relu2,
    Activation.relu6: F.relu6,
    Activation.sigmoid: torch.sigmoid,
    Activation.tanh: torch.tanh,
}


class FeedForward(nn.Module):
    """activation(x W1 + b1) W2 + b2 (paper, equation 2). GEGLU's W1 is twice as wide: 1.5 times as many parameters."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d_model = config.d_model
        d_ff = config.feed_forward_width
        self.activation = ACTIVATIONS[config.activation]
        self.inner = nn.Linear(d_model, 2 * d_ff if config.activation is Activation.geglu else d_ff, bias=config.bias)
        self.outer = nn.Linear(d_ff, d_model, bias=config.bias)

    def forward(self, x: Float[Tensor, "*positions d_model"]) -> Float[Tensor, "*positions d_model"]:
        return self.outer(self.activation(self.inner(x)))


def build_positions(config: ModelConfig) -> nn.Module | None:
    """Return the table of vectors to add to the embeddings; None for rotary positions, which act inside attention, and
    without positions.
    """
    if config.positions is Positions.sinusoidal:
        return SinusoidalPositions(config.reach, config.embedding_width)
    if config.positions is Positions.learned:
        return LearnedPositions(config.reach, config.embedding_width)
    return None


def angles(length: int, width: int, base: float = 10000.0) -> Float[Tensor, "length half"]:
    """position / base^(2i / width) for each position and each i < width / 2: the angles of the paper's section 3.5."""
    cpu = torch.device("cpu")  # also for a model on the meta device, where nothing would fill the tables later
    frequencies = base ** (-torch.arange(0, width, 2, dtype=torch.float64, device=cpu) / width)
    return torch.outer(torch.arange(length, dtype=torch.float64, device=cpu), frequencies).float()


class SinusoidalPositions(nn.Module):
    """Sines of the angles at even features, cosines at odd ones (paper, section 3.5). It has no parameters."""

    table: Tensor

    def __init__(self, max_length: int, d_model: int) -> None:
        super().__init__()
        turns = angles(max_length, d_model)
        table = torch.stack([turns.sin(), turns.cos()], dim=-1).flatten(1)
        self.register_buffer("table", table[:, :d_model], persistent=False)

    def forward(self, positions: int | Int[Tensor, " tokens"]) -> Float[Tensor, "tokens d_model"]:
        return self.table[positions] if isinstance(positions, Tensor) else self.table[:positions]


class LearnedPositions(nn.Module):
    """One learned vector per position (BERT, section 3)."""

    def __init__(self, max_length: int, d_model: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(max_length, d_model)

    def forward(self, positions: int | Int[Tensor, " tokens"]) -> Float[Tensor, "tokens d_model"]:
        return self.embedding(positions) if isinstance(positions, Tensor) else self.embedding.weight[:positions]


class RotaryPositions(nn.Module):
    """Rotate each pair of features of a query or key by an angle proportional to its position (Su et al. 2021, equation
    34).

    The product of a rotated query and a rotated key then depends on their distance, not on their positions. As in most
    later work, the pairs are feature i and feature i + d_head / 2.
    """

    cosines: Tensor
    sines: Tensor

    def __init__(self, max_length: int, d_head: int, base: float = 10000.0) -> None:
        super().__init__()
        turns = angles(max_length, d_head, base)
        self.register_buffer("cosines", turns.cos(), persistent=False)
        self.register_buffer("sines", turns.sin(), persistent=False)

    def forward(
        self, x: Float[Tensor, "*batch tokens heads d_head"], positions: int | Int[Tensor, " tokens"]
    ) -> Float[Tensor, "*batch tokens heads d_head"]:
        tables = (self.cosines, self.sines)
        rows = (table[positions] if isinstance(positions, Tensor) else table[:positions] for table in tables)
        cosines, sines = (row[:, None].to(x.dtype) for row in rows)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cosines - second * sines, second * cosines + first * sines], dim=-1)


FARTHEST = 128  # tokens: all distances from here on share a bucket


class RelativePositions(nn.Module):
    """A learned bias on the attention scores for each bucket of distances and each head, the same in every layer
    (Raffel et al. 2020, section 2.1; Song et al. 2020, MPNet).

    Half of the buckets are for tokens before, half for tokens after. Half of those hold one distance each, and the
    others ranges that grow by a factor up to FARTHEST.
    """

    def __init__(self, buckets: int, n_heads: int) -> None:
        super().__init__()
        self.bias = nn.Embedding(buckets, n_heads)

    def forward(self, length: int) -> Float[Tensor, "heads length length"]:
        """Return the bias for each head, attending token and attended token."""
        positions = torch.arange(length, device=self.bias.weight.device)
        distances = positions[:, None] - positions  # positive for tokens before
        return self.bias(self.bucket(distances)).permute(2, 0, 1)

    def bucket(self, distances: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """Return the bucket of each distance."""
        half = self.bias.num_embeddings // 2
        exact = half // 2
        size = distances.abs()
        growth = torch.log(size.clamp(min=exact).float() / exact) / math.log(FARTHEST / exact)
        ranges = (exact + (growth * (half - exact)).long()).clamp(max=half - 1)
        return torch.where(size < exact, size, ranges) + half * (distances < 0)


class Compilable(nn.Module):
    """A module whose method `encode` may be replaced by a compiled one (`training.compilation.compile_encoder`).

    Copies and pickles are without it: it cannot be pickled, and in a copy it would compute with the original's weights.
    """

    @property
    def is_compiled(self) -> bool:
        """Return whether `encode` is a compiled one."""
        return "encode" in self.__dict__

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "encode"}


class NothingDrawn(TorchFunctionMode):
    """Skips drawing the weights of a model that are loaded, or of which only the shapes matter.

    On the meta device, PyTorch would draw normal ones with its compiler's front end, which takes as long to load as
    PyTorch itself.
    """

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ARG002
        named = kwargs or {}
        if func in (nn.init.normal_, nn.init.uniform_, Tensor.normal_, Tensor.uniform_):
            return args[0] if args else named["tensor"]
        return func(*args, **named)
