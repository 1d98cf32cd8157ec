"""The training loop: a generator that takes one optimizer step after another and reports each.

Whoever iterates decides what to log, score and save (`runs/fit.py`), and what to do when memory runs out
(`micro_batches.py`). The loop never waits for a GPU: shapes and counts are known on the host, and losses stay tensors
until someone reads them. A step whose loss or gradient is not finite is skipped and counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from encoderlab.batch import Batch
from encoderlab.errors import TrainingError
from encoderlab.system.device import Compute
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.training.config import TrainingConfig
from encoderlab.training.horizon import Horizon, numbered
from encoderlab.training.loss import LOSSES, PLAIN, LabelLoss, count_targets, losses
from encoderlab.training.optimizer import clip_gradients, learning_rate_at, set_learning_rate


@dataclass(frozen=True, slots=True)
class Totals:
    """A step's examples, real tokens, tokens with padding, and `targets` by the name of the loss that averages over
    them, over all micro-batches and processes.

    `stop` is True if one of the processes was asked to stop before this step.
    """

    examples: int
    tokens: int
    padded_tokens: int
    targets: Mapping[str, int]
    stop: bool = False


def count_totals(
    micro_batches: Sequence[Batch], processes: Processes = SINGLE_PROCESS, stopping: Callable[[], bool] = bool
) -> Totals:
    """Count the micro-batches of this process and add the counts of the others, in one message and without waiting for
    a device.
    """
    examples = sum(len(micro_batch.rows) for micro_batch in micro_batches)
    tokens = sum(micro_batch.n_tokens for micro_batch in micro_batches)
    padded = sum(micro_batch.input_ids.numel() for micro_batch in micro_batches)
    counts = [count_targets(micro_batch) for micro_batch in micro_batches]
    targets = [sum(count.get(name, 0) for count in counts) for name in LOSSES]
    stop = processes.size > 1 and stopping()
    examples, tokens, padded, stops, *targets = processes.all_reduce_sum([examples, tokens, padded, stop, *targets])
    return Totals(examples, tokens, padded, dict(zip(LOSSES, targets, strict=True)), stops > 0)


@dataclass(frozen=True, slots=True)
class SkippedStep:
    """A skipped step: its losses by name and the norm of its gradient, at least one of them not finite."""

    step: int
    losses: dict[str, float]
    gradient_norm: float

    def __str__(self) -> str:
        losses = [f"{name} loss {loss:.4g}" for name, loss in self.losses.items()]
        return f"{', '.join(losses)}, gradient norm {self.gradient_norm:.4g}"

    def figures(self) -> dict[str, Any]:
        """Return the step as JSON values: numbers that are not finite become strings."""
        figures = {f"loss_{name}": loss for name, loss in self.losses.items()} | {"gradient_norm": self.gradient_norm}
        return {name: value if math.isfinite(value) else str(value) for name, value in figures.items()}


class NonFiniteGuard:
    """Makes the optimizer skip steps whose losses or gradient are not finite, at most `limit` of them.

    A skipped step changes neither the weights nor the optimizer's averages nor its step count. On CUDA the device
    decides: the fused AdamW reads `found_inf` (PyTorch, optim/adam.py), and the host learns of it when it reads the
    losses anyway. Elsewhere (`waits`) the host reads the flag at once and drops the gradients. `before` is the `state`
    of an earlier part of the same run.
    """

    def __init__(self, limit: int, *, waits: bool, before: Iterable[Mapping[str, Any]] = ()) -> None:
        self.limit, self.waits = limit, waits
        self.armed = 0  # the latest step about to change the weights
        self.load(before)

    def load(self, before: Iterable[Mapping[str, Any]]) -> None:
        """Continue from the `state` of an earlier part of the same run."""
        self.skipped = [SkippedStep(**plain) for plain in before]
        self._reported = len(self.skipped)
        self._unread: list[tuple[int, Tensor, Mapping[str, Tensor], Tensor]] = []

    def arm(
        self, optimizer: torch.optim.Optimizer, step: int, losses: Mapping[str, Tensor], gradient_norm: Tensor
    ) -> None:
        """Make the next `optimizer.step()` change nothing if a loss or the gradient is not finite. Raises TrainingError
        as `read` does.

        If several processes train one model, all must pass the losses of the whole step, so that all decide alike.
        """
        flag = (~torch.stack([*losses.values(), gradient_norm]).isfinite().all()).float()
        self._unread.append((step, flag, losses, gradient_norm))
        self.armed = step
        if not self.waits:
            optimizer.found_inf = flag  # pyright: ignore[reportAttributeAccessIssue]  the fused AdamW reads it
        elif self.read():
            optimizer.zero_grad()  # without gradients the optimizer's step does nothing

    def read(self) -> list[SkippedStep]:
        """Return the skipped steps among those not yet read. Waits for the device.

        Raises TrainingError, which names the first step beyond the limit.
        """
        unread, self._unread = self._unread, []
        flags = torch.stack([flag for _, flag, _, _ in unread]).tolist() if unread else []
        new = []
        for is_skipped, (step, _, step_losses, norm) in zip(flags, unread, strict=True):
            if is_skipped:
                new.append(SkippedStep(step, {name: float(loss) for name, loss in step_losses.items()}, float(norm)))
                self._refuse_beyond_limit(new[-1])
                self.skipped.append(new[-1])
        return new

    def report(self, *, read: bool) -> list[SkippedStep]:
        """Return the skipped steps that no earlier report named; with `read`, first ask the device as `read()` does."""
        if read:
            self.read()
        reported, self._reported = self._reported, len(self.skipped)
        return self.skipped[reported:]

    def state(self) -> list[dict[str, Any]]:
        """Return the skipped steps so far, as plain values; see `before`. Waits for the device. Raises as
        `read` does.
        """
        self.read()
        return [asdict(step) for step in self.skipped]

    def note(self) -> str | None:
        """Return a report's sentence about the skipped steps; None if there are none."""
        if not self.skipped:
            return None
        n = len(self.skipped)
        steps = ", ".join(f"{each.step:,}" for each in self.skipped[:10]) + (", ..." if n > 10 else "")
        skipped = f"{n:,} step{'s were' if n > 1 else ' was'} skipped"
        return f"{skipped} because the loss or the gradient was not finite: {steps}"

    def _refuse_beyond_limit(self, step: SkippedStep) -> None:
        if len(self.skipped) < self.limit:
            return
        more = f"training.skip_nonfinite={max(2 * self.limit, 10)} skips such steps"
        raise TrainingError(
            f"The loss or the gradient of step {step.step:,} is not finite ({step}), after {len(self.skipped):,} "
            "skipped",
            remedy="Try a smaller training.learning_rate, a longer training.warmup, or training.precision=fp32; "
            f"{more}",
        )


@dataclass(frozen=True, slots=True)
class Step:
    """A finished optimizer step: its `number`, counted from 1, and how many the run is expected to have (`of`).

    `losses` are means over the step's targets, by name; `gradient_norm` is measured before clipping. Both stay tensors,
    so a step that nobody reads never waits for the device. `skipped` lists the steps newly known to have been
    skipped, perhaps this one (see `NonFiniteGuard`); `n_skipped` counts those of the whole run. All numbers cover all
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
        """Return the step's losses and norms as plain numbers, with `loss` as the sum of all losses; None for any that
        is not finite.
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
        self.model, self.optimizer, self.config = model, optimizer, config
        self.compute, self.processes, self.label_loss = compute, processes, label_loss.to(compute.device)
        self.guard = guard or NonFiniteGuard(config.skip_nonfinite, waits=compute.device.type != "cuda")


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
        guard.arm(optimizer, number, step_losses, norm)  # a step that is not finite changes nothing
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
    if size > 1:  # the processes average their gradients, which divides by their number
        total = total * size
    total.backward()
    return {name: share.detach() for name, share in shares.items()}


class _Replica(Protocol):
    def no_sync(self) -> AbstractContextManager[None]: ...


def _sync_after_last(learner: Learner, micro_batches: int) -> Iterator[AbstractContextManager[None]]:
    """Yield a context for each micro-batch: in all but the last, a replica does not synchronise its gradients."""
    for number in range(1, micro_batches + 1):
        alone = learner.processes.size == 1 or number == micro_batches
        yield nullcontext() if alone else cast("_Replica", learner.model).no_sync()
