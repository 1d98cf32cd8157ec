"""The training loop: a generator that takes one optimizer step after another and hands out the facts of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import count
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from encoderlab.batch import Batch
from encoderlab.system.device import Compute
from encoderlab.system.distributed import SINGLE_PROCESS, Processes
from encoderlab.training.config import TrainingConfig
from encoderlab.training.horizon import Horizon
from encoderlab.training.loss import LOSSES, answers, losses
from encoderlab.training.memory import memory_errors_explained
from encoderlab.training.nonfinite_guard import NonFiniteGuard, SkippedStep
from encoderlab.training.schedule import learning_rate_at


@dataclass(frozen=True, slots=True)
class Step:
    """What one optimizer step did. `number` counts from 1, `of` how many the run is expected to have.

    `losses` are means over the answers of the step, by the name of the question, and `gradient_norm` is measured before clipping.
    Both stay tensors: a step whose figures nobody reads never waits for the device. `skipped` are the steps of which it has become
    known with this one that they were left out (see `NonFiniteGuard`), itself perhaps among them; `n_skipped` counts the run's.
    `stop` tells that one of several processes was asked to stop before this step. Every figure is that of all processes, and the
    same in each of them.
    """

    number: int
    of: int
    losses: dict[str, Tensor]
    gradient_norm: Tensor
    learning_rate: float
    examples: int
    tokens: int
    padded_tokens: int
    stop: bool = False
    skipped: Sequence[SkippedStep] = ()
    n_skipped: int = 0

    def figures(self) -> dict[str, float | None]:
        """The step's figures as plain numbers, `loss` being the sum of all losses; None for what is not finite."""
        by_name = {f"loss_{name}": float(loss) for name, loss in self.losses.items()} if len(self.losses) > 1 else {}
        loss = float(sum(self.losses.values()))
        figures = {"loss": loss, **by_name, "gradient_norm": float(self.gradient_norm), "learning_rate": self.learning_rate}
        return {name: value if math.isfinite(value) else None for name, value in figures.items()} | {"skipped": self.n_skipped}


def optimize(
    model: nn.Module,
    batches: Iterable[Sequence[Batch]],
    optimizer: torch.optim.Optimizer,
    config: TrainingConfig,
    compute: Compute,
    horizon: Horizon,
    *,
    after: int = 0,
    finite: NonFiniteGuard | None = None,
    processes: Processes = SINGLE_PROCESS,
    stopping: Callable[[], bool] = bool,
) -> Iterator[Step]:
    """Take one optimizer step for each item of `batches` until the `horizon`, `after` steps having been taken before.

    An item is one batch, cut into the parts it is to be computed in. Accumulating over the parts is exact: the answers of all
    parts are counted first, and each summed loss is divided by that total. So is sharing out a step's rows among several
    `processes`: then `batches` are this one's parts, as many as the others', and `model` averages its gradients with theirs
    after the last part. `stopping` is asked of several processes once a step; if it is true in one of them, `Step.stop` is in
    all. `finite` (None: a new one) keeps what is not finite from the weights. Raises TrainingError where there is too much of
    that, and MemoryTooSmallError as `memory_errors_explained` does.
    """
    model.train()
    batches = iter(batches)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    finite = finite or NonFiniteGuard(config.skip_nonfinite, waits=compute.device.type != "cuda")
    told = len(finite.skipped)
    for number in count(after + 1):
        steps = horizon.steps(number - 1)
        with memory_errors_explained(number, ()):
            micro_batches = next(batches, None) if number <= steps else None
        if micro_batches is None:
            break
        learning_rate = learning_rate_at(number - 1, steps, config)
        _set_learning_rate(optimizer, learning_rate)
        counts = _count(micro_batches, processes, stopping)
        with memory_errors_explained(number, micro_batches):
            step_losses = _backward(model, micro_batches, compute, counts.answers, processes)
            norm = _clip(parameters, config.clip_norm)
        with memory_errors_explained(number, micro_batches, fewer_rows_help=False):
            finite.take(optimizer, number, step_losses, norm, micro_batches)  # the first one makes room for its averages
        optimizer.zero_grad(set_to_none=True)
        if number in (1, steps) or number % config.log_every == 0:
            finite.read()
        sizes = (counts.examples, counts.tokens, counts.padded_tokens)
        new, told = finite.skipped[told:], len(finite.skipped)
        yield Step(number, steps, step_losses, norm, learning_rate, *sizes, counts.stop, new, told)
    finite.read()


def _set_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * group["scale"]


@dataclass(frozen=True, slots=True)
class _Counts:
    """What a step consists of, over all processes: `answers` by the name of the question."""

    examples: int
    tokens: int
    padded_tokens: int
    answers: dict[str, int]
    stop: bool


def _count(micro_batches: Sequence[Batch], processes: Processes, stopping: Callable[[], bool]) -> _Counts:
    """Count this process's parts, and add up what the others counted."""
    examples = sum(len(micro_batch.rows) for micro_batch in micro_batches)
    tokens, padded = (
        sum(micro_batch.n_tokens for micro_batch in micro_batches),
        sum(micro_batch.input_ids.numel() for micro_batch in micro_batches),
    )
    asked = [sum(answers(micro_batch).get(name, 0) for micro_batch in micro_batches) for name in LOSSES]
    examples, tokens, padded, *asked, stops = processes.all_reduce_sum(
        [examples, tokens, padded, *asked, processes.size > 1 and stopping()]
    )
    return _Counts(examples, tokens, padded, dict(zip(LOSSES, asked, strict=True)), stops > 0)


class _Replica(Protocol):
    def no_sync(self) -> AbstractContextManager[None]: ...


def _backward(
    model: nn.Module, micro_batches: Sequence[Batch], compute: Compute, totals: Mapping[str, int], processes: Processes
) -> dict[str, Tensor]:
    """Add up the gradients of all parts; the mean losses of the whole, of which `totals` counts the answers."""
    sums: dict[str, Tensor] = {}
    for number, micro_batch in enumerate(micro_batches, start=1):
        # A model of several processes would meet the others after each part, where once is enough.
        with nullcontext() if processes.size == 1 or number == len(micro_batches) else cast("_Replica", model).no_sync():
            found = _backward_of_micro_batch(model, micro_batch, compute, totals, processes.size)
        for name, loss in found.items():
            sums[name] = sums.get(name, 0) + loss
    if processes.size == 1:
        return sums
    return dict(zip(sums, processes.sum(torch.stack(list(sums.values()))), strict=True))


def _backward_of_micro_batch(
    model: nn.Module, micro_batch: Batch, compute: Compute, totals: Mapping[str, int], processes: int
) -> dict[str, Tensor]:
    """Add the gradients of one part to those there are; its share of the mean losses.

    `processes` average their gradients, which undoes what the sum of their losses is to be multiplied with.
    """
    with compute.autocast():
        prediction = model(micro_batch)
    means = {name: loss / max(totals[name], 1) for name, loss in losses(prediction, micro_batch).items()}
    total = torch.stack(list(means.values())).sum()
    (total * processes if processes > 1 else total).backward()
    return {name: loss.detach() for name, loss in means.items()}


def _clip(parameters: Sequence[nn.Parameter], clip_norm: float | None) -> Tensor:
    """Shorten the gradient to `clip_norm`, if it is longer (None: never); its norm before that."""
    norm = nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
    put_together = getattr(norm, "full_tensor", None)  # of gradients that are cut among processes
    whole: Tensor = norm if put_together is None else put_together()
    if clip_norm is None:
        return whole
    is_short = whole.device.type == "cpu" and whole <= clip_norm  # on another device, asking would be waiting
    if not is_short:
        nn.utils.clip_grads_with_norm_(parameters, clip_norm, norm)
    return whole
