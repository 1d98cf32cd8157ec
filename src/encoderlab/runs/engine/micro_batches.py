"""Micro-batches: the number of parts a batch is computed in, so that a training step fits into memory.

A batch is what one optimizer step sees, and `training.batch_size` counts its rows. `training.accumulate` says in how
many micro-batches it is computed, which changes only the order in which dropout draws: summed losses are divided by the
number of targets in the whole batch. Without a number, or with `auto`, there are as few micro-batches as fit into the
free memory, by an estimate of what a step keeps. `training.batch_size=auto` means the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from encoderlab.batch import HeadSizes
from encoderlab.model.config import Activation, ModelConfig
from encoderlab.system.device import Compute
from encoderlab.system.distributed import SINGLE_PROCESS, Processes

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
