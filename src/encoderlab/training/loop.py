"""The training loop: a generator that takes one optimizer step after another and reports each.

Whoever iterates decides what to log, score and save (`runs/fit.py`). When memory runs out, a step is repeated in
smaller micro-batches (`StepsWithinMemory`); a run ends after a number of steps or at a time (`Horizon`). The loop
rarely waits for a GPU: shapes and counts are known on the host, and losses stay tensors until someone reads them. A
step whose loss or gradient is not finite ends the run before it reaches the weights.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from encoderlab.batch import Batch
from encoderlab.errors import TrainingError
from encoderlab.system.device import Compute
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.training.batches import (
    MemoryTooSmallError,
    MicroBatchCount,
    TrainingBatches,
    is_out_of_memory,
    release_memory,
)
from encoderlab.training.checkpoint import random_state, set_random_state
from encoderlab.training.config import TrainingConfig, seconds_of, total_steps
from encoderlab.training.loss import LOSSES, PLAIN, LabelWeights, LossForm, count_targets, losses
from encoderlab.training.optimizer import clip_gradients, learning_rate_at
from encoderlab.training.weight_copies import WeightCopies


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

    On CUDA the device decides: the optimizer reads `found_inf` (PyTorch, optim/adam.py), and the host learns of it
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
            optimizer.found_inf = flag  # pyright: ignore[reportAttributeAccessIssue]  the optimizer reads it

    def read(self) -> None:
        """Raise TrainingError, which names the first step that was not finite. Waits for the device."""
        unread = self._unread
        self._unread = []
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
    """A finished optimizer step: its `number`, counted from 1, and the `expected_total` of the run.

    `losses` are means over the step's targets, by name; `gradient_norm` is measured before clipping. Both stay tensors,
    so a step that nobody reads never waits for the device. All numbers cover all processes.
    """

    number: int
    expected_total: int
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
    """A network with everything that trains it: optimizer, settings, device, processes, and a guard against steps that
    are not finite.

    With several `processes`, `network` averages its gradients with theirs after the last micro-batch of a step.
    `label_weights` weigh the labels in the loss (None: all alike), `form` says what that is.
    """

    network: nn.Module
    optimizer: torch.optim.Optimizer
    config: TrainingConfig
    compute: Compute
    processes: Processes = SINGLE_PROCESS
    label_weights: LabelWeights | None = None
    form: LossForm = PLAIN
    copies: WeightCopies = field(init=False)
    guard: NonFiniteGuard = field(init=False)

    def __post_init__(self) -> None:
        self.copies = WeightCopies.worthwhile(self.network, processes=self.processes.size)
        if self.label_weights is not None:
            self.label_weights = self.label_weights.to(self.compute.device)
        self.guard = NonFiniteGuard(waits=self.compute.device.type != "cuda")

    def free(self) -> None:
        """Free gradients, moments and copies of weights, because no step follows."""
        self.optimizer.zero_grad()
        self.optimizer.state.clear()
        self.copies = WeightCopies(None)


def optimize(
    learner: Learner, batches: Iterable[Sequence[Batch]], horizon: Horizon, *, after: int = 0
) -> Iterator[Step]:
    """Take one optimizer step per item of `batches` until the `horizon`, counting on from `after` steps.

    An item is one batch, split into the micro-batches it is computed in. With several processes it is this process's
    share of the batch. Raises TrainingError if a step is not finite.
    """
    optimizer = learner.optimizer
    config = learner.config
    guard = learner.guard
    learner.network.train()
    batches = iter(batches)
    number = after
    while True:
        # The horizon is asked before each step: a budget of time estimates anew how many steps it still allows.
        steps = horizon.expected_total(number)
        micro_batches = next(batches, None) if number < steps else None
        if micro_batches is None:
            break

        # The learning rate of this step; lower layers may have a lower one.
        learning_rate = learning_rate_at(number, steps, config)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * group["scale"]
        number += 1

        # Gradients of the whole batch, over all its micro-batches and all processes.
        totals = count_totals(micro_batches, learner.processes)
        step_losses = accumulate_gradients(learner, micro_batches, totals.targets)
        norm = clip_gradients(learner.copies.gradients(optimizer), config.clip_norm)
        learner.copies.put_back()

        # The update. The guard makes a step that is not finite change nothing. Reading it waits for the device, so it
        # is read when the losses are logged, which waits too (`Journal.step`), and after the last step.
        guard.arm(optimizer, number, step_losses, norm)
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

    Accumulation is exact, but for the contrast of rows, which are compared within a micro-batch: each summed loss is
    divided by `targets`, how many there are of its kind in the whole batch.
    """
    means: dict[str, Tensor] = {}
    learner.copies.renew(learner.compute.precision)
    network: Any = learner.network  # of several processes, a wrapper that averages gradients
    for number, micro_batch in enumerate(micro_batches, 1):
        averages = learner.processes.size == 1 or number == len(micro_batches)
        with nullcontext() if averages else network.no_sync():
            shares = _backward(learner, micro_batch, targets)
        means |= {name: means.get(name, 0) + share for name, share in shares.items()}
    if learner.processes.size == 1:
        return means
    return dict(zip(means, learner.processes.sum(torch.stack(list(means.values()))), strict=True))


def _backward(learner: Learner, micro_batch: Batch, targets: Mapping[str, int]) -> dict[str, Tensor]:
    """Add the gradients of one micro-batch to the existing ones; return its share of the mean losses."""
    with learner.compute.autocast(), learner.copies.in_place():
        prediction = learner.network(micro_batch)
    summed = losses(prediction, micro_batch, learner.label_weights, learner.form)
    shares = {name: loss / max(targets[name], 1) for name, loss in summed.items()}
    total = torch.stack(list(shares.values())).sum()
    size = learner.processes.size
    if size > 1:  # the processes average their gradients, which divides by their number
        total = total * size
    total.backward()
    learner.copies.collect()
    return {name: share.detach() for name, share in shares.items()}


class StepsWithinMemory:
    """The steps of a run, each batch computed in `micro_batches`, which double at each step that runs out of memory.

    They double only if the settings leave their number open (`MicroBatchCount.open`), up to one micro-batch per row.
    The batches are those of a run with that `training.accumulate` from its start.
    """

    def __init__(self, batches: TrainingBatches, micro_batches: MicroBatchCount) -> None:
        self.batches = batches
        self.micro_batches = micro_batches

    def take(self, learner: Learner, horizon: Horizon, after: int = 0) -> Iterator[Step]:
        """Yield the steps of `loop.optimize`, which restarts after the last finished one when memory runs out.

        Raises MemoryTooSmallError if the settings fix the number of micro-batches, or more of them do not help.
        """
        device = learner.compute.device
        while True:
            batches = self.batches.steps(after, self.micro_batches.number)
            generators = random_state(device)
            try:
                for step in optimize(learner, batches, horizon, after=after):
                    yield step
                    after = step.number
                    generators = random_state(device)  # the caller may have drawn random numbers
                return
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                self._use_more(after + 1, device, in_optimizer=learner.guard.armed > after)
            del batches
            learner.optimizer.zero_grad()
            set_random_state(generators, device)
            gc.collect()  # frames of the failed step may reference one another
            release_memory(device)  # so that it can be allocated in other sizes

    def _use_more(self, step: int, device: torch.device, *, in_optimizer: bool) -> None:
        """Double the number of micro-batches from `step` on and print a line. Raises as `take` does.

        The memory of the optimizer does not depend on the batch.
        """
        batch_size = self.batches.config.batch_size
        number = min(2 * self.micro_batches.number, batch_size)
        helps = not in_optimizer and number > self.micro_batches.number
        if not helps or not self.micro_batches.open:
            smaller = f"Set training.accumulate={number} to compute smaller micro-batches"
            raise MemoryTooSmallError(
                f"The memory of the device ({device.type}) is too small for step {step}, a batch of {batch_size} "
                f"rows in {self.micro_batches.number} micro-batch{'es' * (self.micro_batches.number > 1)}",
                remedy=smaller if helps else "Choose a smaller model, or a smaller model.max_length",
            ) from None
        self.micro_batches = MicroBatchCount(number, f"memory ran out in step {step:,}", open=True)
        line = f"continuing with {self.micro_batches}, as training.accumulate={number} would"
        tqdm.write(f"encoderlab: out of memory; {line}", file=sys.stderr)


class Horizon:
    """The end of a run: after `total` steps, or of a `TimeBudget`."""

    def __init__(self, total: int) -> None:
        self.total = total

    def expected_total(self, done: int) -> int:
        """Return how many steps the run is expected to have in all, estimated after `done`; it is over if no more."""
        return self.total

    def spent(self) -> float:
        """Return the seconds of the budget used so far, for a resumed run; 0 if there is no time budget."""
        return 0.0

    def resume(self, spent: float) -> None:
        """Continue a run that has used this many seconds; called before the first step."""


class TimeBudget(Horizon):
    """A run of this many seconds from its first step, evaluations included, and of at least one step.

    The number of steps is re-estimated after each step from the time taken so far. A schedule that follows the estimate
    reaches zero with the last step, which ends before the time does. If the model is `compiled`, some of the first
    steps compile code: the budget pays for them, but the estimate is made from the later ones.
    """

    GUESS = 1000  # steps assumed before one has been timed, so that the first learning rate belongs to a warmup
    COMPILING = 10  # steps in which a compiled model may see new shapes

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic, *, compiled: bool = False) -> None:
        self.seconds = seconds
        self.clock = clock
        self._untimed = self.COMPILING if compiled else 0
        self._spent = 0.0
        self._started: float | None = None

    def expected_total(self, done: int) -> int:
        now = self.clock()
        if self._started is None:
            self._started = now - self._spent
            self._timed_after, self._timed_from = (0, self._started) if self._spent else (done, now)
            self._untimed += self._timed_after
        elif self._timed_after < done <= self._untimed:
            self._timed_after = done
            self._timed_from = now
        left = self.seconds - (now - self._started)
        timed = done - self._timed_after
        if not timed:
            return done + self.GUESS if left > 0 or not done else done
        return done + max(int(left * timed / max(now - self._timed_from, 1e-9)), 0)

    def resume(self, spent: float) -> None:
        self._spent = spent

    def spent(self) -> float:
        return self._spent if self._started is None else self.clock() - self._started


def horizon_of(
    training: TrainingConfig, n_rows: int, processes: Processes = SINGLE_PROCESS, *, compiled: bool = False
) -> Horizon:
    """Return where training on `n_rows` rows ends."""
    if training.budget is not None:
        clock = partial(processes.broadcast_from_main, time.monotonic)  # shared: all must end after the same step
        [compiling] = processes.all_reduce_sum([int(compiled)])
        return TimeBudget(seconds_of(training.budget), clock, compiled=compiling > 0)
    return Horizon(total_steps(training, n_rows))
