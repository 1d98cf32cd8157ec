"""Batches: which rows make up which step, as a function of only the seed, the epoch and the position in the epoch; and
in how many micro-batches a step computes them.

With `training.batching=length`, rows of nearly equal length share a batch; most batches have no padding and no mask.
The rows of a step are drawn first and then distributed over the processes, so no step depends on how many there are. A
process without a row computes a batch `without_rows`, because all processes synchronise after each micro-batch. A
thread prepares the next batches on the loop's own stream.

A step sees one batch, and `training.batch_size` counts its rows. `training.accumulate` says in how many micro-batches,
each a `Batch`, it is computed. That changes dropout's draws, rounding, and which rows `contrast_weight` compares;
otherwise summed losses are divided by the number of targets in the whole batch, and nothing changes. If it is not set,
a GPU computes batches whole until memory runs out. The failed step, which has not changed the weights, is then repeated
in twice as many micro-batches, as are all later ones. A CPU gives no such warning, because the system ends a process
that takes too much; there, a fixed bound decides.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch

from encoderlab.batch import Batch, Contrast
from encoderlab.errors import TrainingError
from encoderlab.network.config import ModelConfig
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.training.config import CONTRAST_TEMPERATURE, Batching, TrainingConfig, steps_per_epoch

FEWEST_EVALUATION_TOKENS = 1024  # per batch on a CPU
MOST_EVALUATION_TOKENS = 4096
# Tokens times squared width: enough to outweigh Python, few enough for a core's cache
# (benchmarks/results/cpu_batches.md).
EVALUATION_WORK = 1024 * 256**2
GPU_EVALUATION_TOKENS = 32_768  # on a GPU, launching small computations takes longer than the computations
EVALUATION_SEED = 0  # random draws for evaluation are the same in every run, so that scores are comparable
AHEAD = 3  # batches ready for a GPU: enough to bridge a slow one, few enough to need little memory
Item = TypeVar("Item")


class Epoch(Protocol):
    """The rows of one epoch: their lengths in tokens, and batches of them."""

    @property
    def lengths(self) -> np.ndarray:
        """Return how many tokens each row has: [rows]."""
        ...

    def gather(self, rows: np.ndarray, pad_id: int) -> Batch:
        """Return the batch of the given rows. If all have the same length, there is no padding and no mask."""
        ...

    def prepare(self, batch: Batch) -> Batch:
        """Add to a gathered batch whatever is drawn for it, on the batch's device."""
        ...


class Rows(Protocol):
    """The rows of a split: equally many each epoch, either the same each time or drawn again."""

    def __len__(self) -> int: ...

    def epoch(self, seed: int, epoch: int) -> Epoch:
        """Return the rows of an epoch, a function of only seed and epoch."""
        ...

    def truncated_share(self) -> float:
        """Return the share of the rows that were longer than the model reads."""
        ...

    def token_ids(self) -> Iterator[np.ndarray]:
        """Yield the ids of all tokens that any epoch may have, some rows at a time; of a stream, of what is read."""
        ...


@runtime_checkable
class RowStream(Protocol):
    """Rows read during training, one window after another; a window plays the part of an epoch.

    Where a window begins is part of what a checkpoint keeps.
    """

    def epochs(self, seed: int, batch_size: int, after: int) -> Iterator[tuple[int, Epoch, int]]:
        """Yield each window from step `after` + 1 on: its number, its rows, and how many of its steps are done."""
        ...

    def share_with(self, processes: Processes) -> None:
        """Divide the reading of all further windows among the `processes`, each of which calls this."""
        ...

    def position(self, step: int) -> dict[str, Any]:
        """Return where the window of step `step` begins, as plain values."""
        ...

    def resume(self, position: dict[str, Any]) -> None:
        """Continue from what `position` returned. Raises KeyError, TypeError or ValueError for another stream's."""
        ...


@runtime_checkable
class ComposedRows(Protocol):
    """Rows that say themselves which of them are computed together, because they are compared with one another."""

    def epoch(self, seed: int, epoch: int) -> Epoch: ...

    def steps(self, n_micro_batches: int, seed: int, after: int) -> Iterator[list[np.ndarray]]:
        """Yield the rows of each of the micro-batches of step `after` + 1, + 2, and so on without end; there may be
        more of them.

        They are a function of only the seed and the number of the step.
        """
        ...


def epoch_order(
    lengths: np.ndarray, config: TrainingConfig, seed: int, epoch: int, *, after: int = 0
) -> Iterator[np.ndarray]:
    """Yield the rows of each step of one epoch, without the first `after` steps; every row occurs once.

    `random` draws them in any order. `length` sorts them by length, rows of one length in random order, cuts that into
    batches and shuffles the batches: on SST-2 that computes 3.4 times fewer tokens than random batches of 64.
    """
    draw = np.random.default_rng([seed, epoch])
    order = draw.permutation(len(lengths))
    batches = np.arange(steps_per_epoch(config, len(order)))
    if config.batching is Batching.length:
        order = order[np.argsort(_small(lengths)[order], kind="stable")]
        draw.shuffle(batches)
    for number in batches[after:]:
        yield order[number * config.batch_size : (number + 1) * config.batch_size]


@dataclass(frozen=True, slots=True)
class TrainingBatches:
    """The batches of a run's steps: of each, this process's share.

    The rows of a step are drawn first and then distributed, so they are the same for any number of processes. If there
    are fewer rows than processes, the rest have batches without rows: all processes have equally many.
    """

    rows: Rows
    config: TrainingConfig
    seed: int
    pad_id: int
    device: torch.device
    processes: Processes = SINGLE_PROCESS

    def steps(self, after: int = 0, n_micro_batches: int = 1) -> Iterator[list[Batch]]:
        """Yield the batch of step `after` + 1, + 2, and so on without end, each in `n_micro_batches` parts.

        `ComposedRows` are read by a single process, in micro-batches of their own.
        """
        if isinstance(self.rows, ComposedRows):
            return prefetched(self._composed_steps(self.rows, after, n_micro_batches), self.device)
        return prefetched(self._drawn_steps(after, n_micro_batches), self.device)

    def _drawn_steps(self, after: int, n_micro_batches: int) -> Iterator[list[Batch]]:
        weight = self.config.contrast_weight or 0.0
        for epoch, drawn, done in _epochs(self.rows, self.config, self.seed, after):
            for step_rows in epoch_order(drawn.lengths, self.config, self.seed, epoch, after=done):
                shares = _shares(step_rows, n_micro_batches, self.processes)
                yield [
                    _batch(drawn, micro_batch, step_rows, self.pad_id, self.device, weight) for micro_batch in shares
                ]

    def _composed_steps(self, rows: ComposedRows, after: int, n_micro_batches: int) -> Iterator[list[Batch]]:
        drawn = rows.epoch(self.seed, 0)
        for step in rows.steps(n_micro_batches, self.seed, after):
            yield [_batch(drawn, micro_batch, micro_batch, self.pad_id, self.device) for micro_batch in step]


def _epochs(rows: Rows, config: TrainingConfig, seed: int, after: int) -> Iterator[tuple[int, Epoch, int]]:
    """Yield each epoch or window from step `after` + 1 on: its number, its rows, and how many steps are done."""
    if isinstance(rows, RowStream):
        yield from rows.epochs(seed, config.batch_size, after)
        return
    per_epoch = steps_per_epoch(config, len(rows))
    for epoch in count(after // per_epoch):
        yield epoch, rows.epoch(seed, epoch), max(after - epoch * per_epoch, 0)


def _shares(step_rows: np.ndarray, n_micro_batches: int, processes: Processes) -> list[np.ndarray]:
    """Return the micro-batches of this process's share, as many as the first, the largest, has; some may be empty."""
    largest = -(-len(step_rows) // processes.size)
    return np.array_split(np.array_split(step_rows, processes.size)[processes.rank], min(n_micro_batches, largest))


def _batch(
    drawn: Epoch, rows: np.ndarray, among: np.ndarray, pad_id: int, device: torch.device, contrast_weight: float = 0.0
) -> Batch:
    """Return the batch of the rows, which are compared with one another if that has a weight; for no rows, the batch of
    the first row of `among`, without rows.
    """
    batch = drawn.gather(rows if len(rows) else among[:1], pad_id)
    if contrast_weight and batch.labels is not None:
        batch = replace(batch, contrast=Contrast.of(batch.labels, CONTRAST_TEMPERATURE, contrast_weight))
    batch = drawn.prepare(batch.to(device))
    return batch if len(rows) else batch.without_rows()


def scoring_batches(
    rows: Rows, pad_id: int, device: torch.device, shape: ModelConfig, processes: Processes = SINGLE_PROCESS
) -> Iterator[Batch]:
    """Yield every row once, shortest first, in batches of about equally many tokens; random draws are the same each
    time.

    The `processes` take one batch each in turn. In the last round there may be too few batches; some processes then get
    one without rows. On a CPU, batches for an encoder (`shape`) narrower than 256 have more tokens.
    """

    def batches() -> Iterator[Batch]:
        drawn = rows.epoch(EVALUATION_SEED, 0)
        on_cpu = min(max(EVALUATION_WORK // shape.d_model**2, FEWEST_EVALUATION_TOKENS), MOST_EVALUATION_TOKENS)
        tokens = GPU_EVALUATION_TOKENS if device.type == "cuda" else on_cpu
        rows_of_batches = list(_scoring_rows(np.maximum(drawn.lengths, shape.shortest_computed), tokens))
        rows_of_batches += [np.arange(0)] * (-len(rows_of_batches) % processes.size)
        for batch_rows in rows_of_batches[processes.rank :: processes.size]:
            yield _batch(drawn, batch_rows, rows_of_batches[0], pad_id, device)

    return prefetched(batches(), device)


def _scoring_rows(lengths: np.ndarray, tokens: int) -> Iterator[np.ndarray]:
    """Yield the rows of each scoring batch of `tokens`."""
    order = np.argsort(_small(lengths), kind="stable")
    start = 0
    while start < len(order):
        # The shortest row gives a first guess of how many fit; the longest of that many gives the size.
        size = max(tokens // max(int(lengths[order[start]]), 1), 1)
        size = max(tokens // max(int(lengths[order[min(start + size, len(order)) - 1]]), 1), 1)
        yield order[start : start + size]
        start += size


def _small(lengths: np.ndarray) -> np.ndarray:
    """Return the lengths in 16 bits if they fit: NumPy then uses radix sort, which takes a tenth of the time."""
    return lengths.astype(np.uint16) if len(lengths) and lengths.max() < 2**16 else lengths


def prefetched(batches: Iterator[Item], device: torch.device) -> Iterator[Item]:
    """Yield the same batches in order; on a GPU a thread keeps AHEAD of them ready while the consumer is busy with one.

    Elsewhere, the cores are busy with the step. An error in the thread is raised here, when its batch is due, and the
    thread ends with this generator.
    """
    if device.type in ("cpu", "mps"):
        yield from batches
        return
    # Each thread has its own current stream (PyTorch, "CUDA semantics"). This one gets the consumer's: there a batch is
    # copied and masked before it is read, and its memory reused after that, without events or `record_stream`.
    on_gpu = device.type == "cuda"
    same_stream = partial(torch.cuda.set_stream, torch.cuda.current_stream(device)) if on_gpu else None
    end: Any = object()
    thread = ThreadPoolExecutor(1, "batches", same_stream)
    try:
        due = deque(thread.submit(next, batches, end) for _ in range(AHEAD))
        while True:
            batch = due.popleft().result()
            if batch is end:
                break
            due.append(thread.submit(next, batches, end))
            yield batch
    finally:
        thread.shutdown(cancel_futures=True)


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
class MicroBatchCount:
    """How many micro-batches each batch is computed in, and why, in words.

    `open` is True if the number may grow when memory runs out.
    """

    number: int
    reason: str
    open: bool = False

    @classmethod
    def from_settings(cls, accumulate: int | None, settled: TrainingConfig, processes: Processes) -> MicroBatchCount:
        """Return the micro-batches of the `settled` settings; their number is open if `accumulate` was left so.

        Several processes would have to run out of memory together: each waits for the others after every micro-batch.
        """
        assert settled.accumulate is not None, "the settings have not been settled"
        if accumulate is not None:
            return cls(settled.accumulate, "as set")
        return cls(settled.accumulate, "chosen for this model and its longest rows", open=processes.size == 1)

    def __str__(self) -> str:
        parts = "one piece" if self.number == 1 else f"{self.number} micro-batches"
        return f"batches in {parts} ({self.reason})"


WHOLE_BATCHES = MicroBatchCount(1, "not divided")


def initial_micro_batches(
    training: TrainingConfig, model: ModelConfig, longest: int, device: str, processes: int
) -> int:
    """Return in how many micro-batches a run begins whose longest row has `longest` tokens; no load changes it.

    `device` is its kind, such as cpu, and `processes` how many share a batch.
    """
    if device != "cpu":
        return 1
    share = -(-training.batch_size // processes)
    longest = max(longest, model.shortest_computed)
    rows = max(CPU_BOUND // (longest * model.n_layers * model.d_model), 1)
    return min(-(-share // rows), share)


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether `error` says that memory ran out."""
    return isinstance(error, torch.OutOfMemoryError) or any(sign in str(error) for sign in OUT_OF_MEMORY)


def release_memory(device: torch.device) -> None:
    """Return what PyTorch keeps of a GPU's freed memory, in pieces of the sizes that were asked for, to the GPU."""
    if device.type != "cpu":
        torch.get_device_module(device).empty_cache()
