"""The weights a model starts from."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from encoderlab.model.config import ModelConfig


@torch.no_grad()
def initialize(model: nn.Module, config: ModelConfig) -> None:
    """Draw the weights of all linear maps and embeddings of `model` from PyTorch's global generator.

    With `initializer_range`: normal with that standard deviation, as BERT does. Without it: linear maps by the rule of
    Glorot and Bengio (2010, equation 16), so that outputs are about as large as inputs; embeddings with standard
    deviation 1 / sqrt(d_model), which `scale_embeddings` brings to 1. (PyTorch's own 1 without a scale is too much to
    unlearn: it cost 3 and 5 points on SST-2 for two models of width 64, one seed each.) Biases and padding's embedding
    start at zero.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            _initialize_linear(module, config.initializer_range)
        elif isinstance(module, nn.Embedding):
            module.weight.normal_(std=config.initializer_range or config.d_model**-0.5)
            if module.padding_idx is not None:
                module.weight[module.padding_idx] = 0


def _initialize_linear(linear: nn.Linear, standard_deviation: float | None) -> None:
    if standard_deviation is None:
        nn.init.xavier_uniform_(linear.weight)
    else:
        linear.weight.normal_(std=standard_deviation)
    if linear.bias is not None:
        linear.bias.zero_()


class ShapesOnly(TorchFunctionMode):
    """Skips drawing normal weights for a model on the meta device, where only shapes matter.

    PyTorch would draw them there with its compiler's front end, which takes as long to load as PyTorch itself.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],  # noqa: ARG002
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func in (nn.init.normal_, Tensor.normal_):
            return args[0] if args else named["tensor"]
        return func(*args, **named)
