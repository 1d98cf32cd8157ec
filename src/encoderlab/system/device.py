"""Picks the device, the precision and the threads, and reports the choice.

Nothing is timed to decide precision, attention kernel or compilation, so that a run can be repeated; the choice is
printed before the first step. Freed memory is kept: where pages are expensive, as on virtual machines, this was worth
more than any change to the matrix products.

The peak memory: of PyTorch on a GPU, of the whole process on a CPU.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from encoderlab.errors import SettingError
from encoderlab.system.processes import SINGLE_PROCESS, Processes

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}
BF16_FROM_WIDTH = 128  # d_model; below it, a CPU takes longer to convert numbers than to multiply them
AVX512_BF16 = "AVX-512 bf16"
AMD = "AuthenticAMD"  # vendor_id in /proc/cpuinfo
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # malloc.h


@dataclass(frozen=True, slots=True)
class Compute:
    """What a run computes on. `precision` is the dtype of the matrix products; weights and optimizer stay in float32.

    `reason` says why that precision was picked. `deterministic` means that kernels round the same way in every run
    wherever there is a choice; see docs/evaluate_and_compare.md.
    """

    device: torch.device
    precision: torch.dtype
    threads: int
    reason: str
    deterministic: bool = False

    def autocast(self) -> AbstractContextManager:
        """Run the enclosed forward pass in `precision`."""
        if self.precision is torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.precision)

    def __str__(self) -> str:
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else self.device.type
        precision = str(self.precision).removeprefix("torch.")
        same = ", deterministic kernels" if self.deterministic else ""
        return f"device {name}, precision {precision} ({self.reason}), {self.threads} thread{'' if self.threads == 1 else 's'}{same}"


def choose_compute(
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    *,
    width: int = BF16_FROM_WIDTH,
    deterministic: bool = False,
    setting: str = "training.device",
    processes: Processes = SINGLE_PROCESS,
) -> Compute:
    """Pick the first of CUDA, Apple's MPS and CPU that is available, unless the settings choose; `width` is the model's
    d_model.

    Sets the number of CPU threads of this process, makes it keep the memory it frees, picks `deterministic` kernels if
    that is asked for, and makes it flush denormal numbers to zero: they slow some CPU kernels down up to elevenfold.
    Raises SettingError for a device this machine lacks, naming its `setting`. The `processes` share the cores of their
    machine, and have a GPU each.
    """
    torch.set_num_threads(threads or max(available_cores() // processes.local_size, 1))
    torch.set_flush_denormal(True)
    _keep_freed_memory()
    _use_deterministic_kernels(deterministic)
    chosen = _choose_device(device, setting)
    if processes.size > 1:
        chosen = _of_ones_own(chosen, device, setting, processes)
    if chosen.type == "cuda":
        if chosen.index is not None:  # otherwise PyTorch's current GPU is number 0 for code that names none
            torch.cuda.set_device(chosen)
        # cuDNN plans its attention for each new shape, and lengths differ from batch to batch.
        torch.backends.cuda.enable_cudnn_sdp(False)
    dtype, reason = _choose_precision(precision, chosen, width)
    return Compute(chosen, dtype, torch.get_num_threads(), reason, deterministic)


def _use_deterministic_kernels(wanted: bool) -> None:
    """Make this process use kernels that sum in a fixed order wherever there is a choice (PyTorch, notes on
    randomness).

    The switch reaches the matrix products, which ask for a fixed workspace (cuBLAS, "Results Reproducibility"), the
    backward passes of attention (cuDNN's is then left out) and of gathers, and the compiler, which then times no
    kernels to choose one.
    """
    if wanted != torch.are_deterministic_algorithms_enabled():  # because the switch imports the compiler: half a second
        torch.use_deterministic_algorithms(wanted)
    torch.backends.cudnn.deterministic = wanted
    if wanted:
        os.environ.setdefault(
            "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
        )  # read at the process's first matrix product; see also cli.main
        # Our code reads no uninitialised memory. (PyTorch creates the attribute at run time.)
        torch.utils.deterministic.fill_uninitialized_memory = False  # pyright: ignore[reportAttributeAccessIssue]


def _keep_freed_memory() -> None:
    """Make this process reuse freed memory and request huge pages, if the system supports that.

    The next training step needs what one frees. Returned to the system in between, every page would be cleared and
    mapped again in each step, which can take longer than the matrix products (mallopt(3); Linux's
    Documentation/admin-guide/mm/transhuge.rst).
    """
    os.environ.setdefault(
        "THP_MEM_ALLOC_ENABLE", "1"
    )  # PyTorch reads it once, at its first allocation: see also cli.main
    # PyTorch keeps the last 1,024 matrix products in bf16 that it has prepared, half a megabyte each, and oneDNN, below
    # it, keeps them again. With one instead of 1,024 in PyTorch's cache, steps are as fast (benchmarks/RESULTS.md).
    os.environ.setdefault("LRU_CACHE_CAPACITY", "1")
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(M_MMAP_MAX, 0)
        library.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def available_cores() -> int:
    """Return the number of cores this process may use: fewer than the machine has under a batch system or in a
    container.
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_gpus() -> int:
    """Return the number of CUDA GPUs of this machine, or of those that CUDA_VISIBLE_DEVICES leaves to this process."""
    return torch.cuda.device_count()


def _available() -> list[str]:
    accelerators = [("cuda", torch.cuda.is_available()), ("mps", torch.backends.mps.is_available())]
    return [name for name, there in accelerators if there] + ["cpu"]


def _choose_device(wanted: str, setting: str) -> torch.device:
    available = _available()
    if wanted == "auto":
        return torch.device(available[0])
    remedy = f"Remove {setting} to use what is available"
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise SettingError(
            f"{setting}={wanted} is not a device", allowed=", ".join(["auto", *available]), remedy=remedy
        ) from None
    there = device.type in available and (device.type != "cuda" or (device.index or 0) < torch.cuda.device_count())
    if not there:
        raise SettingError(
            f"{setting}={wanted} is not available on this machine",
            allowed=", ".join(["auto", *available]),
            remedy=remedy,
        )
    return device


def _of_ones_own(device: torch.device, wanted: str, setting: str, processes: Processes) -> torch.device:
    """Return the device of this process among those of its machine: a GPU each, or the cores that all share."""
    remedy = f"Set {setting}=cpu, or start one process"
    if device.type == "mps":
        if wanted == "auto":
            return torch.device("cpu")
        raise SettingError(
            f"{setting}={wanted} needs a single process, and there are {processes.size}",
            allowed="cuda, cpu",
            remedy=remedy,
        )
    if device.type != "cuda":
        return device
    if device.index is not None:
        raise SettingError(
            f"{setting}={wanted} is one GPU for {processes.size} processes", allowed="auto, cuda, cpu", remedy=remedy
        )
    gpus = torch.cuda.device_count()
    if gpus == 1 and "SLURM_GPUS_PER_TASK" in os.environ:  # each process sees only its own GPU, as number 0
        return torch.device("cuda", 0)
    if processes.local_rank >= gpus:
        raise SettingError(
            f"{processes.local_size} processes on this machine need a GPU each, and it has {gpus}", remedy=remedy
        )
    return torch.device("cuda", processes.local_rank)


def _choose_precision(wanted: str, device: torch.device, width: int) -> tuple[torch.dtype, str]:
    if wanted != "auto":  # fp32 is exact, on a GPU too: PyTorch leaves TF32 off, and bf16 is the fast option
        return PRECISIONS[wanted], "as set"
    if device.type == "cuda":
        if torch.cuda.is_bf16_supported(
            including_emulation=False
        ):  # a GPU without the units would emulate them, slowly
            return torch.bfloat16, "the GPU has bf16 units"
        return torch.float32, "the GPU has no bf16 units"
    if device.type != "cpu":
        return torch.float32, "bf16 is picked only on CUDA GPUs and some processors"
    units = _bf16_units()
    if units is None:
        return torch.float32, "the processor has no bf16 units: neither AMX nor AVX-512 bf16"
    if units == AVX512_BF16 and (vendor := processor_vendor()) != AMD:
        maker = f"one by {vendor}" if vendor else "of unknown make"
        return torch.float32, f"bf16 without AMX is faster only on AMD processors, and this is {maker}"
    if width < BF16_FROM_WIDTH:
        return torch.float32, f"bf16 is faster only from model.d_model={BF16_FROM_WIDTH}"
    return torch.bfloat16, f"the processor has {units}"


def _bf16_units() -> str | None:
    """Return the units that multiply bf16 numbers in this processor.

    AVX-512 bf16 alone makes a run faster on AMD's Zen 4 and 5. On an Intel Xeon without AMX, fp32 was 1.8 times as fast
    as bf16, forward and in training steps, at widths of 256 and 384 and lengths from 32 to 512.
    """
    if torch.cpu._is_amx_tile_supported():
        return "AMX"
    return AVX512_BF16 if torch.cpu._is_avx512_bf16_supported() else None


def processor_vendor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """Return the vendor id of this processor (AuthenticAMD, GenuineIntel); None if the system does not provide it."""
    try:
        found = re.search(
            r"^vendor_id\s*:\s*(\S+)", cpuinfo.read_text(encoding="utf-8", errors="replace"), re.MULTILINE
        )
    except OSError:
        return None
    return found[1] if found else None


PROCESS = Path("/proc/self")


def reset_peak_memory(device: torch.device) -> None:
    """Measure the peak from here, if possible; otherwise it is the peak of the process's whole life."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with suppress(OSError):
            (PROCESS / "clear_refs").write_text("5", encoding="ascii")  # proc_pid_clear_refs(5): resets VmHWM


def peak_memory(device: torch.device) -> int | None:
    """Return the peak in bytes; on a CPU with Python and its libraries. None if unknown (on a CPU outside Linux)."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB", (PROCESS / "status").read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None
