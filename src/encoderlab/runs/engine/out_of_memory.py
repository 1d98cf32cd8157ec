"""Training steps that are taken again in smaller parts where memory runs out, from weights that no such step has touched.

A step that runs out of memory is taken again in twice as many micro-batches, made as a run with that `accumulate` would have made
them. Evaluation, `predict` and `embed` halve their batches instead, which changes no answer (`training.memory`).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import torch
from tqdm import tqdm

from encoderlab.batch import Batch
from encoderlab.runs.engine.micro_batches import MicroBatches
from encoderlab.runs.engine.random_state import random_state, set_random_state
from encoderlab.training.loop import Step
from encoderlab.training.memory import MemoryTooSmallError, give_back_memory


class StepsWithinMemory:
    """The steps of a run, each batch computed in `micro_batches`; from a step on that runs out of memory, in twice as many.

    Only where the settings leave their number open (`MicroBatches.open`), and up to one for each row. `batches(after, number)`
    makes those that follow so many steps: the batches in smaller micro-batches are the ones that a run with that
    `training.accumulate` would have computed from its start, so that no step depends on where memory ran out, but for the order
    of dropout's draws.
    """

    def __init__(self, batches: Callable[[int, int], Iterator[list[Batch]]], micro_batches: MicroBatches, batch_size: int) -> None:
        self.batches, self.micro_batches, self.batch_size = batches, micro_batches, batch_size

    def take(
        self, loop: Callable[[Iterator[list[Batch]], int], Iterator[Step]], optimizer: torch.optim.Optimizer, after: int = 0
    ) -> Iterator[Step]:
        """The steps of `loop(batches, after)`, which is begun anew where memory runs out.

        Raises MemoryTooSmallError where smaller parts are not allowed, or do not help.
        """
        device = optimizer.param_groups[0]["params"][0].device
        while True:
            batches = self.batches(after, self.micro_batches.number)
            drawn = random_state(device)
            try:
                for step in loop(batches, after):
                    yield step
                    after, drawn = step.number, random_state(device)  # whoever iterates may have drawn
                return
            except MemoryTooSmallError as error:
                if not error.fewer_rows_help or not self._more_micro_batches(after + 1):
                    raise
            del batches
            optimizer.zero_grad(set_to_none=True)
            set_random_state(drawn, device)
            gc.collect()  # frames of the failed step may hold on to one another
            give_back_memory()

    def state(self) -> dict[str, Any]:
        """In how many parts batches are computed, as plain values, from which `MicroBatches` can be made again."""
        return asdict(self.micro_batches)

    def note(self) -> str | None:
        """What a report says of it; None where memory never ran out."""
        return (
            f"Batches were computed in {self.micro_batches.number} parts at last: {self.micro_batches.reason}"
            if self.micro_batches.grown
            else None
        )

    def _more_micro_batches(self, step: int) -> bool:
        """Twice as many from `step` on, if that is allowed; said in one line."""
        if not self.micro_batches.open or self.micro_batches.number >= self.batch_size:
            return False
        self.micro_batches = MicroBatches(
            min(2 * self.micro_batches.number, self.batch_size), f"memory ran out in step {step:,}", open=True, grown=True
        )
        setting = f"training.accumulate={self.micro_batches.number}"
        line = f"encoderlab: out of memory in step {step:,}; continuing with {self.micro_batches}, as {setting}"
        tqdm.write(line, file=sys.stderr)
        return True
