"""The position-wise feed-forward network: two linear maps with an activation between, the same at every position."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from encoderlab.model.config import Activation, ModelConfig


def geglu(x: Float[Tensor, "*positions twice_d_ff"]) -> Float[Tensor, "*positions d_ff"]:
    """GELU(first half) * second half: one half gates the other (Shazeer 2020, equation 6)."""
    gate, value = x.chunk(2, dim=-1)
    return F.gelu(gate) * value


ACTIVATIONS = {Activation.relu: F.relu, Activation.gelu: F.gelu, Activation.geglu: geglu}


class FeedForward(nn.Module):
    """activation(x W1 + b1) W2 + b2 (paper, equation 2). GEGLU needs a W1 twice as wide, so 1.5 times as many
    parameters.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d_model, d_ff = config.d_model, config.feed_forward_width
        self.activation = ACTIVATIONS[config.activation]
        self.inner = nn.Linear(d_model, 2 * d_ff if config.activation is Activation.geglu else d_ff, bias=config.bias)
        self.outer = nn.Linear(d_ff, d_model, bias=config.bias)

    def forward(self, x: Float[Tensor, "*positions d_model"]) -> Float[Tensor, "*positions d_model"]:
        return self.outer(self.activation(self.inner(x)))
