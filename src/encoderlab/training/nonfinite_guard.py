"""Steps whose loss or gradient is not finite: they are skipped, counted, and reported with the rows of their batch.

On CUDA, the fused AdamW reads a flag on the device and skips the update if it is set; the host reads the flag when it
logs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from encoderlab.batch import Batch
from encoderlab.errors import TrainingError
from encoderlab.system.distributed import SINGLE_PROCESS, Processes

ROWS_NAMED = 5  # per batch: enough to inspect, few enough for a line


@dataclass(frozen=True, slots=True)
class SkippedStep:
    """A skipped step: its losses by name and the norm of its gradient, at least one of them not finite.

    `rows` are the positions in the training split, counted from 0, of the first few of the `examples` in its batch.
    """

    step: int
    losses: dict[str, float]
    gradient_norm: float
    rows: list[int]
    examples: int

    def __str__(self) -> str:
        losses = [f"{name} loss {loss:.4g}" for name, loss in self.losses.items()]
        further = self.examples - len(self.rows)
        rows = ", ".join(map(str, self.rows)) + (f" and {further:,} more" if further else "")
        return f"{', '.join(losses)}, gradient norm {self.gradient_norm:.4g}; rows {rows} of the training split, counted from 0"

    def figures(self) -> dict[str, Any]:
        """Return the step as JSON values: figures that are not finite become strings."""
        figures = {f"loss_{name}": loss for name, loss in self.losses.items()} | {"gradient_norm": self.gradient_norm}
        written = {name: value if math.isfinite(value) else str(value) for name, value in figures.items()}
        return {**written, "rows": self.rows, "examples": self.examples}


@dataclass(frozen=True, slots=True)
class _Unread:
    """A step that only the device knows to be skipped or not: `flag` is 1.0 if it was skipped, otherwise 0.0."""

    step: int
    flag: Tensor
    losses: Mapping[str, Tensor]
    gradient_norm: Tensor
    rows: Sequence[Tensor]

    def read(self, processes: Processes) -> SkippedStep:
        """Return the skipped step with the rows of all `processes`, which must call this together."""
        mine = torch.cat([rows[:ROWS_NAMED] for rows in self.rows])[:ROWS_NAMED].tolist(), sum(map(len, self.rows))
        shares = processes.gather(mine)
        named, counts = processes.broadcast_from_main(lambda: tuple(zip(*(shares or ()), strict=True)))
        losses = {name: float(loss) for name, loss in self.losses.items()}
        rows = [row for share in named for row in share][:ROWS_NAMED]
        return SkippedStep(self.step, losses, float(self.gradient_norm), rows, sum(counts))


class NonFiniteGuard:
    """Makes the optimizer skip steps whose losses or gradient are not finite, at most `limit` of them.

    A skipped step changes neither the weights nor the optimizer's averages nor its step count. On CUDA the device
    decides: the fused AdamW reads `found_inf` (PyTorch, optim/adam.py), and the host learns of it when it reads the
    figures anyway. Elsewhere (`waits`) the host reads the flag at once and drops the gradients. `before` is the `state`
    of an earlier part of the same run.
    """

    def __init__(
        self,
        limit: int,
        *,
        waits: bool,
        before: Iterable[Mapping[str, Any]] = (),
        processes: Processes = SINGLE_PROCESS,
    ) -> None:
        self.limit, self.waits, self.processes = limit, waits, processes
        self.armed = 0  # the latest step about to change the weights
        self.load(before)

    def load(self, before: Iterable[Mapping[str, Any]]) -> None:
        """Continue from the `state` of an earlier part of the same run."""
        self.skipped = [SkippedStep(**plain) for plain in before]
        self._reported = len(self.skipped)
        self._unread: list[_Unread] = []

    def arm(
        self,
        optimizer: torch.optim.Optimizer,
        step: int,
        losses: Mapping[str, Tensor],
        gradient_norm: Tensor,
        micro_batches: Sequence[Batch],
    ) -> None:
        """Make the next `optimizer.step()` change nothing if one of the figures is not finite. Raises TrainingError as
        `read` does.

        If several processes train one model, all must pass the figures of the whole step, so that all decide alike.
        """
        flag = (~torch.stack([*losses.values(), gradient_norm]).isfinite().all()).float()
        self._unread.append(
            _Unread(step, flag, losses, gradient_norm, [micro_batch.rows for micro_batch in micro_batches])
        )
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
        flags = torch.stack([each.flag for each in unread]).tolist() if unread else []
        found = []
        for flag, each in zip(flags, unread, strict=True):
            if flag:
                found.append(each.read(self.processes))
                self._refuse_beyond_limit(found[-1])
                self.skipped.append(found[-1])
        return found

    def report(self, *, read: bool) -> list[SkippedStep]:
        """Return the skipped steps that no earlier report named; with `read`, first ask the device as `read()` does."""
        if read:
            self.read()
        reported, self._reported = self._reported, len(self.skipped)
        return self.skipped[reported:]

    def state(self) -> list[dict[str, Any]]:
        """Return the skipped steps so far, as plain values; see `before`. Waits for the device. Raises as `read` does."""
        self.read()
        return [asdict(each) for each in self.skipped]

    def note(self) -> str | None:
        """Return a report's sentence about the skipped steps; None if there are none."""
        if not self.skipped:
            return None
        n = len(self.skipped)
        steps = ", ".join(f"{each.step:,}" for each in self.skipped[:10]) + (", ..." if n > 10 else "")
        return f"{n:,} step{'s were' if n > 1 else ' was'} skipped because the loss or the gradient was not finite: {steps}"

    def _refuse_beyond_limit(self, found: SkippedStep) -> None:
        n = len(self.skipped)
        if n < self.limit:
            return
        steps = f"{n:,} steps before it were" if n > 1 else "1 step before it was"
        before = f"; {steps} skipped, as training.skip_nonfinite={self.limit} allows" if n else ""
        more = f"training.skip_nonfinite={max(2 * self.limit, 10)} skips such steps"
        raise TrainingError(
            f"The loss or the gradient of step {found.step:,} is not finite ({found}){before}",
            remedy=f"Try a smaller training.learning_rate, a longer training.warmup, or training.precision=fp32; {more}",
        )
