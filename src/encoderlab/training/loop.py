"""The training loop: a generator that takes one optimizer step after another and reports each.

Whoever iterates decides what to log, score and save (`runs/fitting/fit.py`), and what to do when memory runs out
(`runs/engine/out_of_memory.py`). The loop never waits for a GPU: shapes and counts are known on the host, and losses
stay tensors until someone reads them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from encoderlab.batch import Batch
from encoderlab.system.device import Compute
from encoderlab.system.distributed import SINGLE_PROCESS, Processes
from encoderlab.training.config import TrainingConfig
from encoderlab.training.horizon import Horizon, numbered
from encoderlab.training.loss import PLAIN, LabelLoss, losses
from encoderlab.training.nonfinite_guard import NonFiniteGuard, SkippedStep
from encoderlab.training.optimizer import clip_gradients, set_learning_rate
from encoderlab.training.schedule import learning_rate_at
from encoderlab.training.totals import Totals, count_totals


@dataclass(frozen=True, slots=True)
class Step:
    """A finished optimizer step: its `number`, counted from 1, and how many the run is expected to have (`of`).

    `losses` are means over the step's targets, by name; `gradient_norm` is measured before clipping. Both stay tensors,
    so a step whose figures nobody reads never waits for the device. `skipped` lists the steps newly known to have been
    skipped, perhaps this one (see `NonFiniteGuard`); `n_skipped` counts those of the whole run. All figures cover all
    processes.
    """

    number: int
    of: int
    losses: dict[str, Tensor]
    gradient_norm: Tensor
    learning_rate: float
    totals: Totals
    skipped: Sequence[SkippedStep] = ()
    n_skipped: int = 0

    def figures(self) -> dict[str, float | None]:
        """Return the step's figures as plain numbers, with `loss` as the sum of all losses; None for any that is not
        finite.
        """
        by_name = {f"loss_{name}": float(loss) for name, loss in self.losses.items()} if len(self.losses) > 1 else {}
        loss = float(sum(self.losses.values()))
        figures = {
            "loss": loss,
            **by_name,
            "gradient_norm": float(self.gradient_norm),
            "learning_rate": self.learning_rate,
        }
        return {name: value if math.isfinite(value) else None for name, value in figures.items()} | {
            "skipped": self.n_skipped
        }


class Learner:
    """A model with everything that trains it: optimizer, settings, device, guard against non-finite steps, and
    processes.

    With several `processes`, `model` averages its gradients with theirs after the last micro-batch of a step. Without a
    `guard`, a new one allows `config.skip_nonfinite` skipped steps. `label_loss` says how labels count in the loss.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        config: TrainingConfig,
        compute: Compute,
        guard: NonFiniteGuard | None = None,
        processes: Processes = SINGLE_PROCESS,
        label_loss: LabelLoss = PLAIN,
    ) -> None:
        self.label_loss = label_loss.to(compute.device)
        self.model, self.optimizer, self.config, self.compute, self.processes = (
            model,
            optimizer,
            config,
            compute,
            processes,
        )
        self.guard = guard or NonFiniteGuard(
            config.skip_nonfinite, waits=compute.device.type != "cuda", processes=processes
        )


def optimize(
    learner: Learner,
    batches: Iterable[Sequence[Batch]],
    horizon: Horizon,
    *,
    after: int = 0,
    stopping: Callable[[], bool] = bool,
) -> Iterator[Step]:
    """Take one optimizer step per item of `batches` until the `horizon`, counting on from `after` steps.

    An item is one batch, split into the micro-batches it is computed in. With several processes it is this process's
    share of the batch; each step checks whether any of them is `stopping`. Raises TrainingError if too many steps are
    not finite.
    """
    optimizer, config, guard = learner.optimizer, learner.config, learner.guard
    learner.model.train()
    for number, steps, micro_batches in numbered(batches, horizon, after):
        learning_rate = set_learning_rate(optimizer, learning_rate_at(number - 1, steps, config))
        totals = count_totals(micro_batches, learner.processes, stopping)
        step_losses = accumulate_gradients(learner, micro_batches, totals.targets)
        norm = clip_gradients(optimizer, config.clip_norm)
        guard.arm(optimizer, number, step_losses, norm, micro_batches)  # a step that is not finite changes nothing
        optimizer.step()
        optimizer.zero_grad()
        skipped = guard.report(read=number in (1, steps) or number % config.log_every == 0)
        yield Step(number, steps, step_losses, norm, learning_rate, totals, skipped, len(guard.skipped))
    guard.read()


def accumulate_gradients(
    learner: Learner, micro_batches: Sequence[Batch], targets: Mapping[str, int]
) -> dict[str, Tensor]:
    """Add up the gradients of all micro-batches; return the mean losses of the whole batch, over all processes.

    Accumulation is exact: each summed loss is divided by `targets`, how many there are of its kind in the whole batch.
    """
    means: dict[str, Tensor] = {}
    for micro_batch, sync in zip(micro_batches, _sync_after_last(learner, len(micro_batches)), strict=True):
        with sync:
            shares = _backward(learner, micro_batch, targets)
        means |= {name: means.get(name, 0) + share for name, share in shares.items()}
    if learner.processes.size == 1:
        return means
    return dict(zip(means, learner.processes.sum(torch.stack(list(means.values()))), strict=True))


def _backward(learner: Learner, micro_batch: Batch, targets: Mapping[str, int]) -> dict[str, Tensor]:
    """Add the gradients of one micro-batch to the existing ones; return its share of the mean losses."""
    with learner.compute.autocast():
        prediction = learner.model(micro_batch)
    shares = {
        name: loss / max(targets[name], 1) for name, loss in losses(prediction, micro_batch, learner.label_loss).items()
    }
    total = torch.stack(list(shares.values())).sum()
    size = learner.processes.size
    (
        total * size if size > 1 else total
    ).backward()  # the processes average their gradients, which divides by their number
    return {name: share.detach() for name, share in shares.items()}


class _Replica(Protocol):
    def no_sync(self) -> AbstractContextManager[None]: ...


def _sync_after_last(learner: Learner, micro_batches: int) -> Iterator[AbstractContextManager[None]]:
    """Yield a context for each micro-batch: in all but the last, a replica does not synchronise its gradients."""
    for number in range(1, micro_batches + 1):
        alone = learner.processes.size == 1 or number == micro_batches
        yield nullcontext() if alone else cast("_Replica", learner.model).no_sync()
