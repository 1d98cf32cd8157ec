"""AdamW, with weight decay on matrices only."""

import torch
from torch import nn

from encoderlab.training.config import TrainingConfig


def build_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.AdamW:
    """AdamW (Loshchilov and Hutter 2019, algorithm 2). Biases and norms are not decayed, as in BERT's own optimizer.

    The fused kernel updates all weights in one pass over memory, on CPU too.
    """
    matrices = [weight for weight in model.parameters() if weight.ndim >= 2]
    vectors = [weight for weight in model.parameters() if weight.ndim < 2]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    fused = matrices[0].device.type in ("cpu", "cuda")
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=(config.beta1, config.beta2), eps=config.epsilon, fused=fused)
