"""The training loop: a generator that takes one optimizer step after another and reports each.

Whoever iterates decides what to log, score and save (`runs/fit.py`), and what to do when memory runs out
(`batches.py`). The loop never waits for a GPU: shapes and counts are known on the host, and losses stay tensors
until someone reads them. A step whose loss or gradient is not finite ends the run before it reaches the weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from encoderlab.batch import Batch
from encoderlab.errors import TrainingError
from encoderlab.system.device import Compute
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.training.config import Horizon, TrainingConfig
from encoderlab.training.loss import LOSSES, LabelWeights, count_targets, losses
from encoderlab.training.optimizer import clip_gradients, learning_rate_at


@dataclass(frozen=True, slots=True)
class Totals:
    """The counts of a step over all micro-batches and processes; `targets` by the name of their loss."""

    examples: int
    tokens: int
    padded_tokens: int
    targets: Mapping[str, int]


def count_totals(micro_batches: Sequence[Batch], processes: Processes = SINGLE_PROCESS) -> Totals:
    """Count the micro-batches of all processes in one message, without waiting for a device."""
    examples = sum(len(micro_batch.rows) for micro_batch in micro_batches)
    tokens = sum(micro_batch.n_tokens for micro_batch in micro_batches)
    padded = sum(micro_batch.input_ids.numel() for micro_batch in micro_batches)
    counts = [count_targets(micro_batch) for micro_batch in micro_batches]
    targets = [sum(count.get(name, 0) for count in counts) for name in LOSSES]
    examples, tokens, padded, *targets = processes.all_reduce_sum([examples, tokens, padded, *targets])
    return Totals(examples, tokens, padded, dict(zip(LOSSES, targets, strict=True)))


class NonFiniteGuard:
    """Keeps a step whose losses or gradient are not finite from the weights, and ends the run with a TrainingError.

    On CUDA the device decides: the fused AdamW reads `found_inf` (PyTorch, optim/adam.py), and the host learns of it
    when it reads the losses anyway. Elsewhere (`waits`) the host reads the flag at once.
    """

    def __init__(self, *, waits: bool) -> None:
        self.waits = waits
        self.armed = 0  # the latest step about to change the weights
        self._unread: list[tuple[int, Tensor, Mapping[str, Tensor], Tensor]] = []

    def arm(
        self, optimizer: torch.optim.Optimizer, step: int, losses: Mapping[str, Tensor], gradient_norm: Tensor
    ) -> None:
        """Make the next `optimizer.step()` change nothing if a loss or the gradient is not finite. Raises as `read`.

        If several processes train one model, all must pass the losses of the whole step, so that all decide alike.
        """
        flag = (~torch.stack([*losses.values(), gradient_norm]).isfinite().all()).float()
        self._unread.append((step, flag, losses, gradient_norm))
        self.armed = step
        if self.waits:
            self.read()
        else:
            optimizer.found_inf = flag  # pyright: ignore[reportAttributeAccessIssue]  the fused AdamW reads it

    def read(self) -> None:
        """Raise TrainingError, which names the first step that was not finite. Waits for the device."""
        unread, self._unread = self._unread, []
        flags = torch.stack([flag for _, flag, _, _ in unread]).tolist() if unread else []
        for is_bad, (step, _, step_losses, norm) in zip(flags, unread, strict=True):
            if is_bad:
                values = [f"{name} loss {float(loss):.4g}" for name, loss in step_losses.items()]
                raise TrainingError(
                    f"The loss or the gradient of step {step:,} is not finite "
                    f"({', '.join(values)}, gradient norm {float(norm):.4g})",
                    remedy="Try a smaller training.learning_rate, a longer training.warmup, or training.precision=fp32",
                )


@dataclass(frozen=True, slots=True)
class Step:
    """A finished optimizer step: its `number`, counted from 1, and how many the run is expected to have (`of`).

    `losses` are means over the step's targets, by name; `gradient_norm` is measured before clipping. Both stay tensors,
    so a step that nobody reads never waits for the device. All numbers cover all processes.
    """

    number: int
    of: int
    losses: dict[str, Tensor]
    gradient_norm: Tensor
    learning_rate: float
    totals: Totals

    def numbers(self) -> dict[str, float]:
        """Return the step's losses and norms as plain numbers, with `loss` as the sum of all losses."""
        by_name = {f"loss_{name}": float(loss) for name, loss in self.losses.items()} if len(self.losses) > 1 else {}
        return {
            "loss": float(sum(self.losses.values())),
            **by_name,
            "gradient_norm": float(self.gradient_norm),
            "learning_rate": self.learning_rate,
        }


@dataclass(slots=True)
class Learner:
    """A model with everything that trains it: optimizer, settings, device, processes, and a guard against steps that
    are not finite.

    With several `processes`, `model` averages its gradients with theirs after the last micro-batch of a step.
    `label_weights` weigh the labels in the loss (None: all alike).
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    config: TrainingConfig
    compute: Compute
    processes: Processes = SINGLE_PROCESS
    label_weights: LabelWeights | None = None
    guard: NonFiniteGuard = field(init=False)

    def __post_init__(self) -> None:
        if self.label_weights is not None:
            self.label_weights = self.label_weights.to(self.compute.device)
        self.guard = NonFiniteGuard(waits=self.compute.device.type != "cuda")


def optimize(
    learner: Learner, batches: Iterable[Sequence[Batch]], horizon: Horizon, *, after: int = 0
) -> Iterator[Step]:
    """Take one optimizer step per item of `batches` until the `horizon`, counting on from `after` steps.

    An item is one batch, split into the micro-batches it is computed in. With several processes it is this process's
    share of the batch. Raises TrainingError if a step is not finite.
    """
    optimizer, config, guard = learner.optimizer, learner.config, learner.guard
    learner.model.train()
    batches, number = iter(batches), after
    while number < (steps := horizon.expected_total(number)) and (micro_batches := next(batches, None)):
        learning_rate = learning_rate_at(number, steps, config)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * group["scale"]
        number += 1
        totals = count_totals(micro_batches, learner.processes)
        step_losses = accumulate_gradients(learner, micro_batches, totals.targets)
        norm = clip_gradients(optimizer, config.clip_norm)
        guard.arm(optimizer, number, step_losses, norm)  # a step that is not finite changes nothing
        optimizer.step()
        optimizer.zero_grad()
        if number in (1, steps) or number % config.log_every == 0:
            guard.read()
        yield Step(number, steps, step_losses, norm, learning_rate, totals)
    guard.read()


def accumulate_gradients(
    learner: Learner, micro_batches: Sequence[Batch], targets: Mapping[str, int]
) -> dict[str, Tensor]:
    """Add up the gradients of all micro-batches; return the mean losses of the whole batch, over all processes.

    Accumulation is exact: each summed loss is divided by `targets`, how many there are of its kind in the whole batch.
    """
    means: dict[str, Tensor] = {}
    model: Any = learner.model  # of several processes, a wrapper that averages gradients
    for number, micro_batch in enumerate(micro_batches, 1):
        averages = learner.processes.size == 1 or number == len(micro_batches)
        with nullcontext() if averages else model.no_sync():
            shares = _backward(learner, micro_batch, targets)
        means |= {name: means.get(name, 0) + share for name, share in shares.items()}
    if learner.processes.size == 1:
        return means
    return dict(zip(means, learner.processes.sum(torch.stack(list(means.values()))), strict=True))


def _backward(learner: Learner, micro_batch: Batch, targets: Mapping[str, int]) -> dict[str, Tensor]:
    """Add the gradients of one micro-batch to the existing ones; return its share of the mean losses."""
    with learner.compute.autocast():
        prediction = learner.model(micro_batch)
    summed = losses(prediction, micro_batch, learner.label_weights)
    shares = {name: loss / max(targets[name], 1) for name, loss in summed.items()}
    total = torch.stack(list(shares.values())).sum()
    size = learner.processes.size
    if size > 1:  # the processes average their gradients, which divides by their number
        total = total * size
    total.backward()
    return {name: share.detach() for name, share in shares.items()}
