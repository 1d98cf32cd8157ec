"""The parts that every layer repeats: dropout, norms, and the position-wise feed-forward network."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from encoderlab.model.config import Activation, ModelConfig, Norm


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
        kept = _random_int16(x.shape) >= round(self.p * 2**16) - 2**15
        return x * kept.to(x.dtype).mul_(1 / (1 - self.p))


def _random_int16(shape: torch.Size) -> Tensor:
    """Return numbers uniform over all 16-bit integers, from -2**15 on."""
    count = shape.numel()
    draws = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)  # the bounds say: all 64 bits
    return draws.view(torch.int16)[:count].view(shape)


def build_norm(config: ModelConfig) -> nn.Module:
    """Return the norm that the settings choose, over the last dimension.

    layer: subtract the mean, divide by the standard deviation, then a scale and a shift per feature (Ba et al. 2016).
    rms: divide by the root of the mean square, then a scale per feature (Zhang and Sennrich 2019, equation 4).
    """
    if config.norm is Norm.layer:
        return nn.LayerNorm(config.d_model, eps=config.norm_epsilon, bias=config.bias)
    return nn.RMSNorm(config.d_model, eps=config.norm_epsilon)


def geglu(x: Float[Tensor, "*positions twice_d_ff"]) -> Float[Tensor, "*positions d_ff"]:
    """GELU(first half) * second half: one half gates the other (Shazeer 2020, equation 6)."""
    gate, value = x.chunk(2, dim=-1)
    return F.gelu(gate) * value


ACTIVATIONS = {Activation.relu: F.relu, Activation.gelu: F.gelu, Activation.geglu: geglu}


class FeedForward(nn.Module):
    """activation(x W1 + b1) W2 + b2 (paper, equation 2). GEGLU's W1 is twice as wide: 1.5 times as many parameters."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d_model, d_ff = config.d_model, config.feed_forward_width
        self.activation = ACTIVATIONS[config.activation]
        self.inner = nn.Linear(d_model, 2 * d_ff if config.activation is Activation.geglu else d_ff, bias=config.bias)
        self.outer = nn.Linear(d_ff, d_model, bias=config.bias)

    def forward(self, x: Float[Tensor, "*positions d_model"]) -> Float[Tensor, "*positions d_model"]:
        return self.outer(self.activation(self.inner(x)))
