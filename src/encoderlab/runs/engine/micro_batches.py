"""Micro-batches: in how many parts a batch is computed, so that a training step fits into the memory there is.

A batch is what one optimizer step sees, and `training.batch_size` counts its rows. `training.accumulate` says in how many
micro-batches it is computed, which changes only the order in which dropout draws: summed losses are divided by the number of
targets in the whole batch. Without a number, or with `auto`, there are as few micro-batches as fit into the free memory, by an
estimate of what a step keeps. `training.batch_size=auto` means the same.
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

USABLE = 0.8  # of the free memory: the estimate leaves out what kernels work in, and what is lost between blocks
LOGIT_BYTES = 12  # a logit, its log-probability and its gradient (in bf16 with a copy of 2 bytes each of the first and the last)
WEIGHT_BYTES = 4
STATE_BYTES = 12  # of a weight beside itself: its gradient, and AdamW's two averages


@dataclass(frozen=True, slots=True)
class StepMemory:
    """Bytes that a training step takes beside the weights: `fixed`, and for each row of the longest batch."""

    fixed: int
    row: int

    def of(self, rows: int) -> int:
        """Bytes of a step that is computed so many rows at a time."""
        return self.fixed + rows * self.row


@dataclass(frozen=True, slots=True)
class MicroBatches:
    """How many micro-batches each batch is computed in, and why, in words.

    `open` says that there may be more of them where memory runs out, `grown` that this has happened.
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
    """As many parts as the free memory of `device` makes necessary, asked before the first step, with the weights there.

    The `processes` take as many as the one with the least memory needs; those of one machine share what it has.
    """
    free = free_memory(device)
    if free is not None and device.type == "cpu":
        free //= processes.local_size
    number = processes.all_reduce_max(1 if free is None else micro_batches_for(batch_size, memory, int(USABLE * free)))
    if free is None:
        return MicroBatches(number, "free memory not known", open=processes.size == 1)
    takes = f"a step takes about {_gigabytes(memory.of(-(-batch_size // number)))} of {_gigabytes(free)} free"
    reason = takes if number == 1 else f"{takes}, whole it would take {_gigabytes(memory.of(batch_size))}"
    return MicroBatches(number, reason, open=processes.size == 1)  # several processes would have to run out of it together


def micro_batches_for(batch_size: int, memory: StepMemory, usable: int) -> int:
    """The fewest parts of a batch, as equal as can be, of which each fits into `usable` bytes; one for each row where none does."""
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
    """What a training step takes where each row has `longest` tokens, `target_share` of them asked (if any are).

    A row of more tokens than the model reads is several windows: attention is within each of them.

    Activations as in Korthikanti et al. 2022, section 4.1, with what autograd keeps of our layers. Left out, since it is little, or
    gone before the gradients come: what kernels work in. Left in: the last layer's answers for tokens that are not asked.
    """
    item = compute.precision.itemsize
    token = _embedding_bytes(model) + model.n_layers * _layer_bytes(model, min(longest, model.max_length or longest), compute)
    classes = vocabulary_size if heads.vocabulary else heads.token_classes or 0
    asked = math.ceil(target_share * longest) * (classes * LOGIT_BYTES + 6 * model.d_model * item)
    copies = item if compute.precision is not torch.float32 else 0  # autocast keeps the weights it has rounded
    return StepMemory(n_parameters * (STATE_BYTES + copies), longest * token + (asked if heads.asks_tokens else 0))


def sharded_bytes(n_parameters: int, gathered: int, pieces: int, compute: Compute) -> int:
    """`StepMemory.fixed` of a model in `pieces`, one for each process, with the weights, which are not there yet.

    Weights, gradients and averages are in pieces; `gathered` parameters are whole at a time, with their gradients. The copies that
    autocast has rounded are whole until the backward pass: they are not among what `fully_shard` takes apart again.
    """
    copies = compute.precision.itemsize if compute.precision is not torch.float32 else 0
    return -(-n_parameters // pieces) * (WEIGHT_BYTES + STATE_BYTES) + n_parameters * copies + gathered * 2 * WEIGHT_BYTES


def _embedding_bytes(model: ModelConfig) -> int:
    """Bytes a token's embedding leaves behind: the input of the norm, its answer, and what dropout makes of it."""
    return 4 * model.d_model * (3 if model.dropout else 2)


def _layer_bytes(model: ModelConfig, length: int, compute: Compute) -> int:
    """Bytes a token leaves behind in one layer: equation 1 of the paper, with the residual stream and the norms in float32.

    In the format of the matrix products: the input of both sublayers, queries, keys, values, the answers of attention before and
    after the heads are joined, and what the feed-forward network is wide inside, before and after its activation.
    """
    item, width = compute.precision.itemsize, model.n_heads * model.head_width
    wide = model.feed_forward_width * (4 if model.activation is Activation.geglu else 2)
    products = item * (2 * model.d_model + 5 * width + wide)
    residual = 4 * 2 * model.d_model + (item * 2 * model.d_model if model.dropout else 0)
    return products + residual + _score_bytes(model, length, compute)


def _score_bytes(model: ModelConfig, length: int, compute: Compute) -> int:
    """Bytes of a token's attention weights: none where PyTorch's fused kernel computes them anew (Dao et al. 2022, section 3.1)."""
    fused = compute.device.type != "cpu" or (compute.precision is torch.float32 and not model.attention_dropout)
    kept = (
        0 if fused else 3 if model.attention_dropout else 1
    )  # the weights; and with dropout what it keeps of them, and the product
    return kept * compute.precision.itemsize * model.n_heads * length


def free_memory(device: torch.device) -> int | None:
    """Bytes that can still be had on `device`, what PyTorch holds in reserve among them; None where that cannot be known."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free_host_memory() if device.type == "cpu" else None


def free_host_memory(root: Path = Path("/")) -> int | None:
    """Bytes this process can still have: what the machine has left, or a container or batch job, if that is less.

    None on systems other than Linux. `root` is where its `proc` and `sys` are mounted.
    """
    try:
        machine = re.findall(r"^MemAvailable:\s+(\d+) kB", (root / "proc/meminfo").read_text(), re.MULTILINE)[:1]
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    return min([int(found) * 1024 for found in machine] + list(_left_in_groups(root / "sys/fs/cgroup", groups)), default=None)


def _left_in_groups(mount: Path, groups: list[str]) -> Iterator[int]:
    """What each control group of this process, and each above it, leaves of its limit (cgroups(7): lines of id:controllers:path).

    Version 2 has one tree, with no controllers named; version 1 has one for memory. Cached files count as used, and can be dropped.
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
