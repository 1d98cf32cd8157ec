"""AdamW and Muon, with smaller learning rates for lower layers; gradient clipping; the learning rate at each step."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from inspect import unwrap
from itertools import chain
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from encoderlab.errors import SettingError
from encoderlab.network.heads import EncoderWithHeads
from encoderlab.training.config import ALL_LAYERS, Optimizer, Schedule, TrainingConfig

BETA1 = 0.9  # AdamW's decay of the running mean of gradients


class EagerAdamW(torch.optim.AdamW):
    """PyTorch's AdamW without the guards that keep its methods from being compiled: no compiled code calls them here.

    The guards load the compiler's front end when the optimizer is built, which takes as long as loading PyTorch.

    On a CPU, where all weights have a gradient, a step calls PyTorch's kernel without the bookkeeping around it: of a
    small model, that took as long as the kernel. All weights count their steps in one tensor.
    """

    add_param_group = unwrap(torch.optim.AdamW.add_param_group)
    state_dict = unwrap(torch.optim.AdamW.state_dict)

    _steps: Tensor | None = None  # how many each weight has taken, once the states are there

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` has returned."""
        unwrap(torch.optim.AdamW.load_state_dict)(self, state_dict)
        self._steps = None

    def zero_grad(self, set_to_none: bool = True) -> None:  # noqa: FBT001, FBT002  PyTorch's signature
        """Free all gradients."""
        assert set_to_none
        for group in self.param_groups:
            for weight in group["params"]:
                weight.grad = None

    @torch.no_grad()
    def step(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  no closure
        """Update all weights that have a gradient."""
        weights = [weight for group in self.param_groups for weight in group["params"]]
        not_finite = getattr(self, "found_inf", None)  # only the kernel reads it: see NonFiniteGuard
        is_fused = all(group["fused"] for group in self.param_groups)
        if not is_fused or not_finite is not None or not all(_is_plain(weight) for weight in weights):
            unwrap(torch.optim.AdamW.step)(self)
            return

        # Each weight's counter becomes a part of one tensor.
        if self._steps is None:
            states = [self._state_of(weight) for weight in weights]
            self._steps = torch.stack([state["step"] for state in states])
            for state, step in zip(states, self._steps.unbind(), strict=True):
                state["step"] = step

        # PyTorch's fused kernel, once for each group.
        self._steps += 1
        for group in self.param_groups:
            states = [self.state[weight] for weight in group["params"]]
            beta1, beta2 = group["betas"]
            torch._fused_adamw_(  # pyright: ignore[reportPrivateImportUsage]
                group["params"],
                [weight.grad for weight in group["params"]],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                [state["step"] for state in states],
                amsgrad=False,
                lr=group["lr"],
                beta1=beta1,
                beta2=beta2,
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=False,
            )

    def _state_of(self, weight: Tensor) -> dict[str, Tensor]:
        """Return the counter and the moments of a weight, which are 0 before its first step."""
        state = self.state[weight]
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"] = torch.zeros_like(weight)
            state["exp_avg_sq"] = torch.zeros_like(weight)
        return state


def _is_plain(weight: Tensor) -> bool:
    """Return whether a weight has a gradient, and both are in this process's memory alone."""
    return type(weight.grad) is Tensor and weight.device.type == "cpu"


MUON_MOMENTUM = 0.95
# An orthogonal matrix whose longer side is n has entries of root mean square 1/sqrt(n). AdamW's updates have 0.2 to
# 0.4. Scaled to 0.2, learning rates and weight decay can be about as large as AdamW's (Liu et al. 2025, section 2.2).
MUON_ROOT_MEAN_SQUARE = 0.2
# The polynomial whose repetition drives all singular values towards 1 (Jordan et al. 2024). It rises as steeply as it
# can at 0, so five repetitions are enough. Values end between 0.7 and 1.2, which does no harm, those near 0 below.
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_STEPS = 5
MATRICES_AT_ONCE = 8  # fewer kernel launches than one by one; an update needs nine times their memory for a moment


class Muon(EagerAdamW):
    """Muon (Jordan et al. 2024) for the weights of groups with `muon`, AdamW for all others.

    An update is the momentum's nearest orthogonal matrix: all of its directions change by the same amount, where
    AdamW's updates have a few large directions and many that hardly change. PyTorch's own `torch.optim.Muon` updates
    one matrix at a time, and cannot leave out a step that is not finite without waiting for the device.

    Matrix products are computed in `precision`, which is exact enough in bfloat16.
    """

    precision = torch.float32

    @torch.no_grad()
    def step(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  no closure
        for group in self.param_groups:
            if group["muon"]:
                by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
                for weight in group["params"]:
                    if weight.grad is not None:
                        by_shape[weight.shape].append(weight)
                for weights in by_shape.values():
                    for first in range(0, len(weights), MATRICES_AT_ONCE):
                        self._update(weights[first : first + MATRICES_AT_ONCE], group)
        super().step()  # of the weights that still have a gradient

    def _update(self, weights: Sequence[nn.Parameter], group: dict[str, Any]) -> None:
        """Update matrices of one shape together, and free their gradients."""
        gradient = torch.stack([_take_gradient(weight) for weight in weights])
        buffers = [self._momentum_of(weight) for weight in weights]
        before = torch.stack(buffers)
        momentum = before.lerp(gradient, 1 - MUON_MOMENTUM)
        ahead = gradient.lerp(momentum, MUON_MOMENTUM)  # Nesterov's momentum looks one step ahead
        update = orthogonalized(ahead.to(self.precision)).to(ahead.dtype)

        matrices = torch.stack(list(weights))
        rate = group["lr"] * MUON_ROOT_MEAN_SQUARE * math.sqrt(max(matrices.shape[1:]))
        updated = matrices * (1 - group["lr"] * group["weight_decay"]) - rate * update
        not_finite = getattr(self, "found_inf", None)  # on a GPU: see NonFiniteGuard
        if not_finite is not None:
            updated = torch.where(not_finite.bool(), matrices, updated)
            momentum = torch.where(not_finite.bool(), before, momentum)
        torch._foreach_copy_([*weights, *buffers], [*updated, *momentum])  # pyright: ignore[reportPrivateImportUsage]

    def _momentum_of(self, weight: nn.Parameter) -> Tensor:
        state = self.state[weight]
        if not state:
            state["step"] = torch.zeros(())  # AdamW expects one of every weight when it loads a state
            state["momentum"] = torch.zeros_like(weight)
        momentum: Tensor = state["momentum"]
        return momentum


def orthogonalized(matrices: Float[Tensor, "n rows columns"]) -> Float[Tensor, "n rows columns"]:
    """Return about the nearest orthogonal matrix of each: U V^T for U S V^T (Bernstein and Newhouse 2024, section 2).

    Its singular values lie between 0.7 and 1.2, after five steps of Newton and Schulz; those that were almost 0 may lie
    below.
    """
    is_tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if is_tall else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)  # no singular value above 1
    a, b, c = NEWTON_SCHULZ
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)  # a x + (b xx' + c (xx')^2) x
    return x.mT if is_tall else x


def _take_gradient(weight: nn.Parameter) -> Tensor:
    gradient = weight.grad
    assert gradient is not None
    weight.grad = None
    return gradient


def build_optimizer(
    network: EncoderWithHeads, config: TrainingConfig, precision: torch.dtype = torch.float32
) -> EagerAdamW:
    """Return AdamW (Loshchilov and Hutter 2019, algorithm 2), or Muon. Biases and norms are not decayed, as in BERT's
    own optimizer. Raises SettingError if there is nothing for Muon to train.

    Each group's `scale` multiplies the learning rate of its weights: `layer_decay` to the power of their depth below
    the heads (the discriminative fine-tuning of Howard and Ruder 2018, section 3.2; by depth as in Clark et al. 2020,
    appendix A). Frozen weights are in no group. The fused kernel updates all weights in one pass over memory, on CPU
    too.
    """
    groups = list(_groups(network, config))
    fused = groups[0]["params"][0].device.type in ("cpu", "cuda")
    assert config.learning_rate is not None
    betas = (BETA1, config.beta2)
    if config.optimizer is Optimizer.adamw:
        return EagerAdamW(groups, lr=config.learning_rate, betas=betas, eps=config.epsilon, fused=fused)
    optimizer = Muon(groups, lr=config.learning_rate, betas=betas, eps=config.epsilon, fused=fused)
    optimizer.precision = precision
    return optimizer


def clip_gradients(gradients: list[Tensor], clip_norm: float | None) -> Tensor:
    """Scale gradients down to `clip_norm` if they are longer (None: never); return their norm before scaling."""
    norms = torch._foreach_norm(gradients)  # pyright: ignore[reportPrivateImportUsage]
    norm = torch.linalg.vector_norm(torch.stack(norms))
    gather = getattr(norm, "full_tensor", None)  # for gradients sharded over processes
    whole: Tensor = norm if gather is None else gather()
    if clip_norm is None:
        return whole
    is_short = whole.device.type == "cpu" and whole <= clip_norm  # on another device, the comparison would have to wait
    if not is_short:
        factor = torch.clamp(clip_norm / (norm + 1e-6), max=1.0)
        torch._foreach_mul_(gradients, factor)  # pyright: ignore[reportPrivateImportUsage]
    return whole


def freeze(network: EncoderWithHeads, config: TrainingConfig) -> None:
    """Keep the embeddings and the lowest `freeze_layers` layers as they are; with 0, everything trains.

    A decoder tied to the token embeddings is frozen with them. Raises SettingError if there are fewer layers.
    """
    if not config.freeze_layers:
        return
    embeddings, *layers, _ = network.parameters_by_depth()
    frozen = len(layers) if config.freeze_layers == ALL_LAYERS else config.freeze_layers
    if frozen > len(layers):
        problem = f"training.freeze_layers is {frozen}, but the encoder has {len(layers)} layers"
        raise SettingError(problem, remedy=f"Set training.freeze_layers={ALL_LAYERS} to train only the heads")
    for parameter in chain(embeddings, *layers[:frozen]):
        parameter.requires_grad_(False)


def _groups(network: EncoderWithHeads, config: TrainingConfig) -> Iterator[dict[str, Any]]:
    """Yield for each depth, from the embeddings to the heads, the trainable matrices and then the trainable vectors.

    With Muon, the matrices of layers come in groups of their own: it is not for tables of embeddings and for heads, in
    which a row has a meaning of its own.
    """
    layer_decay = config.layer_decay
    assert layer_decay is not None
    orthogonal: set[int] = set()
    if config.optimizer is Optimizer.muon:
        _, *layers, _ = network.parameters_by_depth()
        orthogonal = {id(weight) for weight in chain(*layers) if weight.requires_grad and _is_matrix(weight)}
        if not orthogonal:
            problem = "training.optimizer=muon updates the matrices of layers, and none of them is trained"
            raise SettingError(problem, remedy="Set training.optimizer=adamw")
    depths = [list(network.parameters())] if layer_decay == 1 else network.parameters_by_depth()
    for below_heads, parameters in zip(reversed(range(len(depths))), depths, strict=True):
        scale = layer_decay**below_heads
        learning = [parameter for parameter in parameters if parameter.requires_grad]
        matrices = [parameter for parameter in learning if parameter.ndim >= 2]
        kinds = (
            ([matrix for matrix in matrices if id(matrix) in orthogonal], config.weight_decay, True),
            ([matrix for matrix in matrices if id(matrix) not in orthogonal], config.weight_decay, False),
            ([parameter for parameter in learning if parameter.ndim < 2], 0.0, False),
        )
        for params, weight_decay, muon in kinds:
            if params:
                yield {"params": params, "weight_decay": weight_decay, "scale": scale, "muon": muon}


def _is_matrix(weight: Tensor) -> bool:
    return weight.ndim == 2 and min(weight.shape) > 1


# With 5e-4, validation accuracy from mini-en was lower: SST-2 0.869 instead of 0.884, subjectivity 0.956 and 0.966,
# phrasebank 0.901 and 0.910. benchmarks/results/learning_rate.md has what else was tried.
PEAK = 3e-4
PEAK_FROM_SCRATCH = 5e-4
# With 5e-4, validation accuracy on the built-in task was 0.897 and 0.900, with 1e-3 0.908 and 0.911 (seeds 0 and 1).
PEAK_OF_MUON_FROM_SCRATCH = 1e-3
PEAK_WIDTH = 256
HIGHEST_PEAK = 1e-3
# Of that peak, for classes of pairs that are read separately: a head with four features for each of a vector's moves
# far in a step. From a linear model, accuracy on validation was 0.602 instead of 0.534 on MNLI's sample, and level on
# QQP's (0.785 and 0.788; seed 0). benchmarks/results/pairs.md has test and what else was tried.
PEAK_OF_PAIRS = 1 / 3
# Of that peak, for a class of many: with three rows for each of 150 intents, validation accuracy from mini-en was 0.861
# instead of 0.846 (seeds 0, 1 and 2), and level with 20 rows for each and with all.
PEAK_OF_MANY_LABELS = 5 / 3
# From a pretrained encoder. A student from mini-en that all-mpnet taught SST-2 had 0.898 on validation with it, 0.882
# without (seed 0).
LAYER_DECAY = 0.9
ONE_CYCLE_START = 1 / 25  # of the peak, as in Smith and Topin's code and PyTorch's OneCycleLR


def learning_rate_at(step: int, steps: int, config: TrainingConfig) -> float:
    """Return the learning rate of the optimizer step that follows `step` finished ones, out of `steps`.

    All schedules rise over the first `config.warmup` share of the steps. Then `linear` falls in a straight line and
    `cosine` in half a cosine wave to exactly zero after the last step (Loshchilov and Hutter 2017, section 3),
    `constant` stays, and `one_cycle` (Smith and Topin 2018, section 2) rises and falls along cosines, from 1/25 of the
    peak and down to zero.
    """
    peak = config.learning_rate
    assert peak is not None
    rising = math.ceil(config.warmup * steps)
    one_cycle = config.schedule is Schedule.one_cycle
    if step < rising:
        share = (step + 1) / rising
        return peak * (ONE_CYCLE_START + (1 - ONE_CYCLE_START) * _wave(share) if one_cycle else share)
    remaining = (steps - step) / max(steps - rising, 1)
    if config.schedule is Schedule.constant:
        return peak
    return peak * (remaining if config.schedule is Schedule.linear else _wave(remaining))


def peak_for_width(d_model: int) -> float:
    """Return a peak learning rate for finetuning: 3e-4 at a width of 256, and at most 1e-3.

    It falls with the square of the width: at 768 it is 3.3e-5, as in BERT, whose rates are 2e-5 to 5e-5 (Devlin et al.
    2019, appendix A.3). With 1e-3, an encoder of width 128 pretrained here scored 0.722 on the validation split of the
    built-in task, with 5e-4 0.690.

    >>> peak_for_width(128), peak_for_width(256), peak_for_width(384), peak_for_width(768)
    (0.001, 0.0003, 0.00013, 3.3e-05)
    """
    return float(f"{min(PEAK * (PEAK_WIDTH / d_model) ** 2, HIGHEST_PEAK):.1e}")


def _wave(share: float) -> float:
    """Return half a cosine wave, from 0 at 0 to 1 at 1."""
    return (1 - math.cos(math.pi * share)) / 2
