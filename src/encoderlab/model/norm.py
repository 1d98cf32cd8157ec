"""The norms: each scales the features of a token to a common size."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from encoderlab.model.config import ModelConfig, Norm


def build_norm(config: ModelConfig) -> nn.Module:
    """Return the norm that the settings choose, over the last dimension.

    layer: subtract the mean, divide by the standard deviation, then a scale and a shift per feature (Ba et al. 2016).
    rms: divide by the root of the mean square, then a scale per feature (Zhang and Sennrich 2019, equation 4).
    scalar: see `ScalarNorm`.
    """
    if config.norm is Norm.layer:
        return nn.LayerNorm(config.d_model, eps=config.norm_epsilon, bias=config.bias)
    if config.norm is Norm.rms:
        return nn.RMSNorm(config.d_model, eps=config.norm_epsilon)
    return ScalarNorm(config.norm_epsilon, bias=config.bias)


class ScalarNorm(nn.Module):
    """Layer norm with one scale and one shift shared by all features, and the unbiased variance (divided by d_model -
    1).
    """

    def __init__(self, epsilon: float, *, bias: bool) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(()))
        self.bias = nn.Parameter(torch.zeros(())) if bias else None

    def forward(self, x: Float[Tensor, "*positions d_model"]) -> Float[Tensor, "*positions d_model"]:
        variance, mean = torch.var_mean(x, dim=-1, keepdim=True)
        # epsilon is inside the root because the root's gradient at zero is infinite
        normed = (x - mean) * torch.rsqrt(variance + self.epsilon) * self.weight
        return normed if self.bias is None else normed + self.bias
