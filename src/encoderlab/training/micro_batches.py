"""Running out of memory: how to recognise it, and how to report it.

Micro-batches: the number of parts a batch is computed in, so that a training step fits into memory.

A batch is what one optimizer step sees, and `training.batch_size` counts its rows. `training.accumulate` says in how
many micro-batches it is computed, which changes only the order in which dropout draws: summed losses are divided by the
number of targets in the whole batch. Without a number, or with `auto`, there are as few micro-batches as fit into the
free memory, by an estimate of what a step keeps. `training.batch_size=auto` means the same.

Training steps that are retried in smaller micro-batches when memory runs out; the failed step has not changed the
weights.

A step that runs out of memory is retried in twice as many micro-batches, built as a run with that `accumulate` would
have built them. Evaluation, `predict` and `embed` halve their batches instead, which changes no prediction
(`training.micro_batches`).
"""

from __future__ import annotations

import gc
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from encoderlab.batch import Batch, HeadSizes
from encoderlab.errors import TrainingError
from encoderlab.model.config import Activation, ModelConfig
from encoderlab.system.device import Compute
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.training.distribution import random_state, set_random_state
from encoderlab.training.horizon import Horizon
from encoderlab.training.loop import Learner, Step, optimize

SIGNS = (
    "out of memory",  # of CUDA and MPS
    "CUBLAS_STATUS_ALLOC_FAILED",  # of cuBLAS, which allocates outside PyTorch
    "can't allocate memory",  # on a CPU
    "not enough memory",  # on a CPU under Windows
)


class MemoryTooSmallError(TrainingError):
    """A device's memory is too small. `fewer_rows_help` tells whether computing fewer rows at a time could help."""

    def __init__(self, wrong: str, *, remedy: str, fewer_rows_help: bool = False) -> None:
        super().__init__(wrong, remedy=remedy)
        self.fewer_rows_help = fewer_rows_help


def out_of_memory(
    error: RuntimeError, step: int, micro_batches: Sequence[Batch], *, fewer_rows_help: bool = True
) -> MemoryTooSmallError | None:
    """Return the explanation of an `error` in a step with these `micro_batches`; None if memory is not the problem.

    No micro-batches means that the batch was still being built.
    """
    if not is_about_memory(error):
        return None
    remedy = "Choose a smaller model, or a smaller model.max_length"
    if not micro_batches:
        return MemoryTooSmallError(
            f"The memory is too small for the batch of step {step}", remedy=remedy, fewer_rows_help=True
        )
    rows = sum(len(micro_batch) for micro_batch in micro_batches)
    longest = max(micro_batch.input_ids.shape[1] for micro_batch in micro_batches)
    device = micro_batches[0].input_ids.device.type
    more = min(2 * len(micro_batches), rows)
    helps = fewer_rows_help and len(micro_batches) < rows
    if helps:
        remedy = f"Set training.accumulate={more} to compute each batch in {more} micro-batches; only dropout's random draws differ"
    number = f"{len(micro_batches)} micro-batch{'es' * (len(micro_batches) > 1)}"
    batch = f"a batch of {rows} rows of up to {longest} tokens in {number}"
    wrong = f"The memory of the device ({device}) is too small for step {step}, {batch}"
    return MemoryTooSmallError(wrong, remedy=remedy, fewer_rows_help=helps)


def is_about_memory(error: RuntimeError) -> bool:
    """Return whether `error` says that memory ran out."""
    return isinstance(error, torch.OutOfMemoryError) or any(sign in str(error) for sign in SIGNS)


def give_back_memory() -> None:
    """Make PyTorch release its unused memory, so that it can be allocated in other sizes."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


USABLE = 0.8  # fraction of the free memory: the estimate omits the kernels' workspace and fragmentation
LOGIT_BYTES = (
    12  # a logit, its log-probability and its gradient (in bf16 with a copy of 2 bytes each of the first and last)
)
WEIGHT_BYTES = 4
STATE_BYTES = 12  # per weight, besides the weight: its gradient, and AdamW's two averages


@dataclass(frozen=True, slots=True)
class StepMemory:
    """Bytes that a training step takes besides the weights: `fixed`, and for each row of the longest batch."""

    fixed: int
    row: int

    def of(self, rows: int) -> int:
        """Return the bytes of a step that computes this many rows at a time."""
        return self.fixed + rows * self.row


@dataclass(frozen=True, slots=True)
class MicroBatches:
    """How many micro-batches each batch is computed in, and why, in words.

    `open` is True if the number may grow when memory runs out, `grown` if it has.
    """

    number: int
    reason: str
    open: bool = False
    grown: bool = False

    def __str__(self) -> str:
        return f"batches in {self.number} micro-batch{'es' * (self.number > 1)} ({self.reason})"


def choose_micro_batches(
    batch_size: int, memory: StepMemory, device: torch.device, processes: Processes = SINGLE_PROCESS
) -> MicroBatches:
    """Return as many micro-batches as the free memory of `device` requires; called before the first step, with the
    weights loaded.

    All `processes` use the number that the one with the least memory needs; those of one machine share its memory.
    """
    free = free_memory(device)
    if free is not None and device.type == "cpu":
        free //= processes.local_size
    number = processes.all_reduce_max(1 if free is None else micro_batches_for(batch_size, memory, int(USABLE * free)))
    if free is None:
        return MicroBatches(number, "free memory unknown", open=processes.size == 1)
    takes = f"a step takes about {_gigabytes(memory.of(-(-batch_size // number)))} of {_gigabytes(free)} free"
    reason = takes if number == 1 else f"{takes}, in one piece it would take {_gigabytes(memory.of(batch_size))}"
    return MicroBatches(
        number, reason, open=processes.size == 1
    )  # several processes would have to run out of memory together


def micro_batches_for(batch_size: int, memory: StepMemory, usable: int) -> int:
    """Return the fewest equal micro-batches that each fit into `usable` bytes; one per row if none does."""
    rows = (usable - memory.fixed) // max(memory.row, 1)
    return -(-batch_size // min(max(rows, 1), batch_size))


def step_memory(
    model: ModelConfig,
    n_parameters: int,
    heads: HeadSizes,
    vocabulary_size: int,
    target_share: float,
    longest: int,
    compute: Compute,
) -> StepMemory:
    """Return what a training step takes if each row has `longest` tokens, with `target_share` of them as targets (if
    any).

    A row of more tokens than the model reads is several windows, with attention within each of them.

    Activations as in Korthikanti et al. 2022, section 4.1, with what autograd keeps of our layers. Omitted, because it
    is little or freed before the backward pass: the kernels' workspace. Included: the last layer's outputs for tokens
    that are not targets.
    """
    item = compute.precision.itemsize
    token = _embedding_bytes(model) + model.n_layers * _layer_bytes(
        model, min(longest, model.max_length or longest), compute
    )
    classes = vocabulary_size if heads.vocabulary else heads.token_classes or 0
    target_bytes = math.ceil(target_share * longest) * (classes * LOGIT_BYTES + 6 * model.d_model * item)
    copies = item if compute.precision is not torch.float32 else 0  # autocast keeps rounded copies of the weights
    return StepMemory(
        n_parameters * (STATE_BYTES + copies), longest * token + (target_bytes if heads.asks_tokens else 0)
    )


def sharded_bytes(n_parameters: int, gathered: int, pieces: int, compute: Compute) -> int:
    """Return `StepMemory.fixed` of a model in `pieces`, one for each process, including the weights, which are not
    allocated yet.

    Weights, gradients and averages are in pieces; `gathered` parameters are whole at a time, with their gradients. The
    copies that autocast has rounded are whole until the backward pass: they are not among what `fully_shard` takes
    apart again.
    """
    copies = compute.precision.itemsize if compute.precision is not torch.float32 else 0
    return (
        -(-n_parameters // pieces) * (WEIGHT_BYTES + STATE_BYTES) + n_parameters * copies + gathered * 2 * WEIGHT_BYTES
    )


def _embedding_bytes(model: ModelConfig) -> int:
    """Return the bytes kept of a token's embedding: the norm's input and output, and dropout's output."""
    return 4 * model.d_model * (3 if model.dropout else 2)


def _layer_bytes(model: ModelConfig, length: int, compute: Compute) -> int:
    """Return the bytes kept of a token in one layer: equation 1 of the paper, with the residual stream and the norms in
    float32.

    In the precision of the matrix products: the input of both sublayers, queries, keys, values, the output of attention
    before and after the heads are joined, and the inner features of the feed-forward network before and after its
    activation.
    """
    item, width = compute.precision.itemsize, model.n_heads * model.head_width
    wide = model.feed_forward_width * (4 if model.activation is Activation.geglu else 2)
    products = item * (2 * model.d_model + 5 * width + wide)
    residual = 4 * 2 * model.d_model + (item * 2 * model.d_model if model.dropout else 0)
    return products + residual + _score_bytes(model, length, compute)


def _score_bytes(model: ModelConfig, length: int, compute: Compute) -> int:
    """Return the bytes of a token's attention weights: none if a fused kernel recomputes them (Dao et al. 2022, section
    3.1).
    """
    fused = compute.device.type != "cpu" or (compute.precision is torch.float32 and not model.attention_dropout)
    kept = (
        0 if fused else 3 if model.attention_dropout else 1
    )  # the weights; with dropout, also its mask and the product
    return kept * compute.precision.itemsize * model.n_heads * length


def free_memory(device: torch.device) -> int | None:
    """Return the free bytes on `device`, including PyTorch's reserve; None if unknown."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free_host_memory() if device.type == "cpu" else None


def free_host_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes this process can still allocate: what the machine or, if less, the container or batch job has
    left.

    None on systems other than Linux. `root` is where `proc` and `sys` are mounted.
    """
    try:
        machine = re.findall(r"^MemAvailable:\s+(\d+) kB", (root / "proc/meminfo").read_text(), re.MULTILINE)[:1]
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    return min(
        [int(found) * 1024 for found in machine] + list(_left_in_groups(root / "sys/fs/cgroup", groups)), default=None
    )


def _left_in_groups(mount: Path, groups: list[str]) -> Iterator[int]:
    """Yield what is left of the limit of each control group of this process and above (cgroups(7): lines of
    id:controllers:path).

    Version 2 has one tree without named controllers; version 1 has one for memory. Cached files count as used, and can
    be dropped.
    """
    names = {
        "": ("memory.max", "memory.current", "inactive_file"),
        "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    }
    for _, controllers, path in (line.split(":", 2) for line in groups):
        if controllers not in names:
            continue
        limit, used, cached = names[controllers]
        inner = mount / controllers / path.lstrip("/")
        for group in [inner, *inner.parents]:
            if (group / used).is_file() and (most := (group / limit).read_text().strip()) != "max":
                droppable = re.search(rf"^{cached} (\d+)$", (group / "memory.stat").read_text(), re.MULTILINE)
                yield int(most) - int((group / used).read_text()) + (int(droppable[1]) if droppable else 0)


def _gigabytes(bytes_: int) -> str:
    return f"{bytes_ / 2**30:.1f} GiB"


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
