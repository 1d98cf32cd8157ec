"""Dropout that does not cost more on a CPU than the linear map it follows."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class Dropout(nn.Module):
    """Zero each number with probability `p` during training and divide the others by 1 - p (paper, section 5.4).

    On a CPU, PyTorch draws random numbers one at a time; here one draw of 64 bits decides four numbers, which is 2 to 3
    times as fast. `p` is then rounded to a multiple of 1 / 65536. (The compiler's dropout is fast by itself.)
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        assert 0 <= p <= 0.9, (
            p
        )  # closer to 1, rounding would change the fraction kept by over 1 in 10,000, and finally overflow
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.p)
        kept = _random_int16(x.shape) >= round(self.p * 2**16) - 2**15
        return x * kept.to(x.dtype).mul_(1 / (1 - self.p))

    def extra_repr(self) -> str:
        return f"p={self.p}"


def _random_int16(shape: torch.Size) -> Tensor:
    """Return numbers uniform over all 16-bit integers, from -2**15 on."""
    count = shape.numel()
    draws = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)  # the bounds say: all 64 bits
    return draws.view(torch.int16)[:count].view(shape)
