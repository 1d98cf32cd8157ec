"""Picks the device, the precision and the threads, and says what it picked and why.

Nothing is timed here. A long run may then time what these rules leave open (`runs.speed`), and records its choice.
Freed memory is kept: where pages are expensive, as on virtual machines, this was worth more than any change to the
matrix products.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch

from encoderlab.errors import SettingError
from encoderlab.system.cores import (
    THREADS_VARIABLE,
    BusyTimes,
    LoadWatch,
    available_cores,
    busy_cores,
    threads_set_by_user,
)
from encoderlab.system.processes import SINGLE_PROCESS, Processes

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}
PRECISION_NAMES = {dtype: name for name, dtype in PRECISIONS.items()}
BF16_FROM_WIDTH = 128  # d_model; below it, a CPU takes longer to convert numbers than to multiply them
M_TRIM_THRESHOLD = -1  # malloc.h
M_MMAP_MAX = -4
M_ARENA_MAX = -8
KERNELS_VARIABLE = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
KERNELS_OF_A_SERVICE = 32  # those of two batches at a time


@dataclass(frozen=True, slots=True)
class Compute:
    """What a run computes on. `precision` is the dtype of the matrix products; weights and optimizer stay in float32.

    `reason` says why that precision was picked, and `threads_reason` why there are fewer threads than cores, if there
    are; `follows_load` says that they may change while a run trains, with what else the machine does. `deterministic`
    means that kernels round the same way in every run wherever there is a choice; see docs/evaluate_and_compare.md.
    `processes` of a run share this machine. `speeds` are those of the choices that were timed, relative to the first,
    and a step takes about `step_seconds` (None: not timed). Predictions may have more threads than steps,
    `prediction_threads` (None: as many).
    """

    device: torch.device
    precision: torch.dtype
    threads: int
    reason: str
    deterministic: bool = False
    threads_reason: str = ""
    follows_load: bool = False
    processes: int = 1
    prediction_threads: int | None = None
    speeds: Mapping[str, float] = field(default_factory=dict)
    step_seconds: float | None = None

    def autocast(self) -> AbstractContextManager:
        """Run the enclosed forward pass in `precision`."""
        if self.precision is torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.precision)

    def __str__(self) -> str:
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else self.device.type
        precision = str(self.precision).removeprefix("torch.")
        same = ", deterministic kernels" if self.deterministic else ""
        threads = f"{self.threads} thread{'' if self.threads == 1 else 's'}"
        if self.threads_reason:
            threads += f" ({self.threads_reason})"
        return f"device {name}, precision {precision} ({self.reason}), {threads}{same}"


def set_up_compute(
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    *,
    width: int = BF16_FROM_WIDTH,
    deterministic: bool = False,
    setting: str = "training.device",
    processes: Processes = SINGLE_PROCESS,
) -> Compute:
    """Set up this process to compute as the settings say, and return what it computes on.

    Picks the first of CUDA, Apple's MPS and CPU that is there, unless the settings choose; `width` is d_model.

    Sets the number of CPU threads of this process (`choose_threads`), makes it keep the memory it frees, picks
    `deterministic` kernels if that is asked for, and makes it flush denormal numbers to zero: they slow some CPU
    kernels down up to elevenfold. Raises SettingError for a device this machine lacks, naming its `setting`. The
    `processes` have a GPU each.
    """
    chosen = choose_threads(threads, processes, deterministic=deterministic)
    torch.set_num_threads(chosen.number)
    torch.set_flush_denormal(True)
    _keep_freed_memory()
    _use_deterministic_kernels(deterministic)
    picked = _choose_device(device, setting, processes)
    if picked.type == "cuda":
        if picked.index is not None:  # otherwise PyTorch's current GPU is number 0 for code that names none
            torch.cuda.set_device(picked)
        # cuDNN plans its attention for each new shape, and lengths differ from batch to batch.
        torch.backends.cuda.enable_cudnn_sdp(False)
    dtype, reason = _choose_precision(precision, picked, width)
    return Compute(
        picked,
        dtype,
        torch.get_num_threads(),
        reason,
        deterministic,
        chosen.reason,
        chosen.follow_load and picked.type == "cpu",
        processes.local_size,
    )


class Threads(NamedTuple):
    """A number of CPU threads, in words why it differs from that of the cores ("" if not, or if it is set), and whether
    it is to follow the load of the machine.
    """

    number: int
    reason: str = ""
    follow_load: bool = False


def choose_threads(threads: int | None, processes: Processes, *, deterministic: bool) -> Threads:
    """Return the number of CPU threads.

    The setting decides, else OMP_NUM_THREADS; else it is one for each core that no other program keeps busy: two
    threads of which one waits for its core were slower than one alone (benchmarks/results/busy_machine.md). What else
    the machine does changes nothing for several `processes`, which share its cores, and for a `deterministic` run,
    whose last digits depend on the number.
    """
    if threads is not None:
        return Threads(threads)
    cores = available_cores()
    if processes.local_size > 1:  # torchrun sets OMP_NUM_THREADS=1 itself
        return Threads(max(cores // processes.local_size, 1))
    by_user = threads_set_by_user()
    if by_user is not None:
        return Threads(by_user, "" if by_user == cores else f"{THREADS_VARIABLE}={by_user}")
    if deterministic:
        return Threads(cores)
    busy = min(busy_cores(), cores - 1)
    reason = f"other programs keep {busy} of {cores} cores busy" if busy else ""
    return Threads(cores - busy, reason, follow_load=True)


class ThreadsByLoad:
    """While a run trains, keeps a thread for each core that no other program keeps busy, if `compute` follows the load.

    Two threads of which one waits for its core were up to ten times slower than one alone
    (benchmarks/results/busy_machine.md).
    """

    def __init__(self, compute: Compute) -> None:
        self.cores = available_cores()
        self.follows = compute.follows_load and self.cores > 1
        self._watch = LoadWatch(self.cores - compute.threads, BusyTimes.now())

    def adapt(self) -> None:
        """Change the number of threads if other programs have begun to keep a core busy, or have long ceased to."""
        if not self.follows or not self._watch.is_due():
            return
        threads = max(self.cores - self._watch.look(BusyTimes.now()), 1)
        if threads != torch.get_num_threads():
            torch.set_num_threads(threads)


def _use_deterministic_kernels(deterministic: bool) -> None:
    """Make this process use kernels that sum in a fixed order wherever there is a choice.

    The switch reaches matrix products, the backward passes of attention and of gathers, and the compiler, which then
    times no kernels to choose one (PyTorch, notes on randomness).
    """
    if deterministic != torch.are_deterministic_algorithms_enabled():  # the switch imports the compiler: half a second
        torch.use_deterministic_algorithms(deterministic)
    torch.backends.cudnn.deterministic = deterministic
    if deterministic:
        # Our code reads no uninitialised memory. (PyTorch creates the attribute at run time.)
        torch.utils.deterministic.fill_uninitialized_memory = False  # pyright: ignore[reportAttributeAccessIssue]


def _keep_freed_memory() -> None:
    """Make this process reuse freed memory, if the system supports that (mallopt(3)).

    The next training step needs what one frees. Returned to the system in between, every page would be cleared and
    mapped again in each step, which can take longer than the matrix products.
    """
    if sys.platform != "linux":
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(M_MMAP_MAX, 0)
        library.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def hold_little_memory() -> None:
    """Make this process hold little memory for long, if the system supports that. Call it before the first prediction.

    oneDNN generates kernels for each shape of a batch, and keeps the last 1,024: with bf16 these grew to 600 MB in a
    service, whose shapes hardly repeat. Without arenas for each thread, what one thread frees serves the others.
    """
    os.environ.setdefault(KERNELS_VARIABLE, str(KERNELS_OF_A_SERVICE))
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if hasattr(library, "mallopt"):
        library.mallopt(M_ARENA_MAX, 1)  # pyright: ignore[reportOptionalMemberAccess]


def return_freed_memory() -> None:
    """Return what `_keep_freed_memory` keeps to the system, as after the last step, if the system supports that."""
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)  # pyright: ignore[reportOptionalMemberAccess]


def _choose_device(name: str, setting: str, processes: Processes) -> torch.device:
    """Return the device of this process. Several processes of a machine have a GPU each, or share its cores."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    allowed = ", ".join(["auto", *(kind for kind, there in available.items() if there)])
    try:
        device = torch.device(next(kind for kind, there in available.items() if there) if name == "auto" else name)
    except RuntimeError:
        raise SettingError(f"{setting}={name} is not a device", allowed=allowed) from None
    gpus = torch.cuda.device_count() if device.type == "cuda" else 0
    if not available.get(device.type) or (device.type == "cuda" and (device.index or 0) >= gpus):
        raise SettingError(f"{setting}={name} is not available on this machine", allowed=allowed)
    if processes.size == 1:
        return device
    if device.type == "mps" and name == "auto":
        return torch.device("cpu")
    if device.type == "cuda" and gpus == 1 and "SLURM_GPUS_PER_TASK" in os.environ:  # each sees only its own GPU
        return torch.device("cuda", 0)
    if device.type == "mps" or device.index is not None or (device.type == "cuda" and processes.local_rank >= gpus):
        problem = f"{setting}={name} is too few devices for {processes.local_size} processes on this machine"
        allowed = "auto, cuda with a GPU for each process, or cpu"
        raise SettingError(problem, allowed=allowed, remedy=f"Set {setting}=cpu, or start fewer processes")
    return torch.device("cuda", processes.local_rank) if device.type == "cuda" else device


def _choose_precision(name: str, device: torch.device, width: int) -> tuple[torch.dtype, str]:
    """Return the dtype of matrix products, and why it is picked.

    AVX-512 bf16 alone makes a run faster on AMD's Zen 4 and 5. On an Intel Xeon without AMX, fp32 was 1.8 times as fast
    as bf16, forward and in training steps, at widths of 256 and 384 and lengths from 32 to 512.
    Encoders that transformers computes gain from bf16, too: a factor of 2.3 to 3.7 (benchmarks/results/bf16.md).
    """
    if name != "auto":  # fp32 is exact, on a GPU too: PyTorch leaves TF32 off, and bf16 is the fast option
        return PRECISIONS[name], "as set"
    if device.type == "cuda":
        if torch.cuda.is_bf16_supported(including_emulation=False):  # without the units it would be slow
            return torch.bfloat16, "the GPU has bf16 units"
        return torch.float32, "the GPU has no bf16 units"
    if device.type != "cpu":
        return torch.float32, "bf16 is picked only on CUDA GPUs and some processors"
    has_amx = torch.cpu._is_amx_tile_supported()
    has_avx512 = torch.cpu._is_avx512_bf16_supported()
    if not has_amx and not (has_avx512 and processor_name().startswith("AMD")):
        return torch.float32, "bf16 is faster only on processors with AMX, and on AMD's with AVX-512 bf16"
    if width < BF16_FROM_WIDTH:
        return torch.float32, f"bf16 is faster only from model.d_model={BF16_FROM_WIDTH}"
    return torch.bfloat16, f"the processor has {'AMX' if has_amx else 'AVX-512 bf16'}"


def precision_here(device: str = "auto") -> str:
    """Return the name of the precision that wide encoders are trained in on this machine."""
    picked = _choose_device(device, "training.device", SINGLE_PROCESS)
    return PRECISION_NAMES[_choose_precision("auto", picked, BF16_FROM_WIDTH)[0]]


def processor_name() -> str:
    """Return the processor's name, such as "AMD EPYC 9654 96-Core Processor"; on Linux it is only in /proc."""
    file = Path("/proc/cpuinfo")
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    named = re.search(r"^model name\s*: (.*)", text, re.MULTILINE)
    return named[1] if named else platform.processor()
