"""Micro-batches: in how many pieces a batch is computed, so that a training step fits into memory.

A batch is what one optimizer step sees, and `training.batch_size` counts its rows. `training.accumulate` says in how
many micro-batches it is computed, which changes only the order in which dropout draws: summed losses are divided by the
number of targets in the whole batch. If it is not set, a GPU computes batches whole until memory runs out. The failed
step, which has not changed the weights, is then repeated in twice as many micro-batches, as are all later ones. A CPU
gives no such warning, because the system ends a process that takes too much; there, a fixed bound decides.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from tqdm import tqdm

from encoderlab.batch import Batch
from encoderlab.errors import TrainingError
from encoderlab.model.config import ModelConfig
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.training.config import TrainingConfig
from encoderlab.training.distribution import random_state, set_random_state
from encoderlab.training.horizon import Horizon
from encoderlab.training.loop import Learner, Step, optimize

# Tokens x layers x d_model of a micro-batch on a CPU. Autograd keeps about 20 numbers for each: some 5 GiB.
CPU_BOUND = 2**26
OUT_OF_MEMORY = (
    "out of memory",  # of CUDA and MPS
    "CUBLAS_STATUS_ALLOC_FAILED",  # of cuBLAS, which allocates outside PyTorch
    "can't allocate memory",  # on a CPU
    "not enough memory",  # on a CPU under Windows
)


class MemoryTooSmallError(TrainingError):
    """A device's memory is too small."""


@dataclass(frozen=True, slots=True)
class MicroBatches:
    """How many micro-batches each batch is computed in, and why, in words.

    `open` is True if the number may grow when memory runs out.
    """

    number: int
    reason: str
    open: bool = False

    def __str__(self) -> str:
        return f"batches in {self.number} micro-batch{'es' * (self.number > 1)} ({self.reason})"


def choose_micro_batches(
    training: TrainingConfig,
    model: ModelConfig,
    longest: int,
    device: torch.device,
    processes: Processes = SINGLE_PROCESS,
) -> MicroBatches:
    """Return in how many micro-batches a run begins whose longest row has `longest` tokens; no load changes it."""
    if training.accumulate is not None:
        return MicroBatches(training.accumulate, "as set")
    share = -(-training.batch_size // processes.size)
    number = 1
    if device.type == "cpu":
        rows = max(CPU_BOUND // (longest * model.n_layers * model.d_model), 1)
        number = min(-(-share // rows), share)
    # Several processes would have to run out of memory together: each waits for the others after every micro-batch.
    return MicroBatches(number, "chosen for this model and its longest rows", open=processes.size == 1)


class StepsWithinMemory:
    """The steps of a run, each batch computed in `micro_batches`, which double at each step that runs out of memory.

    They double only if the settings leave their number open (`MicroBatches.open`), and up to one micro-batch per row.
    `batches(after, number)` yields the batches after that many steps, each in `number` micro-batches. They are those of
    a run with that `training.accumulate` from its start.
    """

    def __init__(
        self, batches: Callable[[int, int], Iterator[list[Batch]]], micro_batches: MicroBatches, batch_size: int
    ) -> None:
        self.batches, self.micro_batches, self.batch_size = batches, micro_batches, batch_size

    def take(self, learner: Learner, horizon: Horizon, after: int = 0) -> Iterator[Step]:
        """Yield the steps of `loop.optimize`, which restarts after the last finished one when memory runs out.

        Raises MemoryTooSmallError if the settings fix the number of micro-batches, or more of them do not help.
        """
        device = learner.compute.device
        while True:
            batches = self.batches(after, self.micro_batches.number)
            generators = random_state(device)
            try:
                for step in optimize(learner, batches, horizon, after=after):
                    yield step
                    after, generators = step.number, random_state(device)  # the caller may have drawn random numbers
                return
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                self._use_more(after + 1, device, in_optimizer=learner.guard.armed > after)
            del batches
            learner.optimizer.zero_grad()
            set_random_state(generators, device)
            gc.collect()  # frames of the failed step may reference one another
            release_unused_memory()

    def _use_more(self, step: int, device: torch.device, *, in_optimizer: bool) -> None:
        """Double the number of micro-batches from `step` on and print a line. Raises as `take` does.

        The memory of the optimizer does not depend on the batch.
        """
        number = min(2 * self.micro_batches.number, self.batch_size)
        helps = not in_optimizer and number > self.micro_batches.number
        if not helps or not self.micro_batches.open:
            smaller = f"Set training.accumulate={number} to compute smaller micro-batches"
            raise MemoryTooSmallError(
                f"The memory of the device ({device.type}) is too small for step {step}, a batch of {self.batch_size} "
                f"rows in {self.micro_batches.number} micro-batch{'es' * (self.micro_batches.number > 1)}",
                remedy=smaller if helps else "Choose a smaller model, or a smaller model.max_length",
            ) from None
        self.micro_batches = MicroBatches(number, f"memory ran out in step {step:,}", open=True)
        line = f"continuing with {self.micro_batches}, as training.accumulate={number} would"
        tqdm.write(f"encoderlab: out of memory; {line}", file=sys.stderr)


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether `error` says that memory ran out."""
    return isinstance(error, torch.OutOfMemoryError) or any(sign in str(error) for sign in OUT_OF_MEMORY)


def release_unused_memory() -> None:
    """Make PyTorch release its unused memory, so that it can be allocated in other sizes."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
