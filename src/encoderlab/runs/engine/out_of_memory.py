"""Training steps that are retried in smaller micro-batches when memory runs out; the failed step has not changed the
weights.

A step that runs out of memory is retried in twice as many micro-batches, built as a run with that `accumulate` would
have built them. Evaluation, `predict` and `embed` halve their batches instead, which changes no prediction
(`training.memory`).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator

from tqdm import tqdm

from encoderlab.batch import Batch
from encoderlab.runs.engine.micro_batches import MicroBatches
from encoderlab.runs.engine.random_state import random_state, set_random_state
from encoderlab.training.horizon import Horizon
from encoderlab.training.loop import Learner, Step, optimize
from encoderlab.training.memory import give_back_memory, out_of_memory


class StepsWithinMemory:
    """The steps of a run, each batch computed in `micro_batches`, which double at each step that runs out of memory.

    They double only if the settings leave their number open (`MicroBatches.open`), and up to one micro-batch per row.
    `batches(after, number)` yields the batches after that many steps, each in `number` micro-batches. They are those of
    a run with that `training.accumulate` from its start: where memory ran out changes only the order of dropout's
    draws.
    """

    def __init__(
        self, batches: Callable[[int, int], Iterator[list[Batch]]], micro_batches: MicroBatches, batch_size: int
    ) -> None:
        self.batches, self.micro_batches, self.batch_size = batches, micro_batches, batch_size
        self._in_progress: list[Batch] = []

    def take(
        self, learner: Learner, horizon: Horizon, after: int = 0, stopping: Callable[[], bool] = bool
    ) -> Iterator[Step]:
        """Yield the steps of `training.loop.optimize`, which restarts after the last finished step when memory runs
        out.

        Raises MemoryTooSmallError if the settings fix the number of micro-batches, or more of them do not help.
        """
        device = learner.compute.device
        while True:
            batches = self._remembered(self.batches(after, self.micro_batches.number))
            drawn = random_state(device)
            try:
                for step in optimize(learner, batches, horizon, after=after, stopping=stopping):
                    yield step
                    after, drawn = step.number, random_state(device)  # the caller may have drawn random numbers
                return
            except RuntimeError as error:
                in_optimizer = learner.guard.armed > after  # its memory does not depend on the batch
                too_small = out_of_memory(error, after + 1, self._in_progress, fewer_rows_help=not in_optimizer)
                if too_small is None:
                    raise
                if not too_small.fewer_rows_help or not self._more_micro_batches(after + 1):
                    raise too_small from None
            del batches, too_small
            self._in_progress = []
            learner.optimizer.zero_grad()
            set_random_state(drawn, device)
            gc.collect()  # frames of the failed step may reference one another
            give_back_memory()

    def _remembered(self, batches: Iterator[list[Batch]]) -> Iterator[list[Batch]]:
        """Yield the same batches, keeping the current one to explain an error."""
        for micro_batches in batches:
            self._in_progress = micro_batches
            yield micro_batches
            self._in_progress = []

    def note(self) -> str | None:
        """Return a report's sentence about it; None if memory never ran out."""
        number, reason = self.micro_batches.number, self.micro_batches.reason
        return (
            f"The last batches were computed in {number} micro-batches: {reason}" if self.micro_batches.grown else None
        )

    def _more_micro_batches(self, step: int) -> bool:
        """Double the number of micro-batches from `step` on and print a line; return False if that is not allowed."""
        if not self.micro_batches.open or self.micro_batches.number >= self.batch_size:
            return False
        self.micro_batches = MicroBatches(
            min(2 * self.micro_batches.number, self.batch_size),
            f"memory ran out in step {step:,}",
            open=True,
            grown=True,
        )
        setting = f"training.accumulate={self.micro_batches.number}"
        line = f"encoderlab: out of memory in step {step:,}; continuing with {self.micro_batches}, as {setting} would"
        tqdm.write(line, file=sys.stderr)
        return True
