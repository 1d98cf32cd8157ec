"""Where and how precisely to compute: picks the device, the precision and the threads, and says what was picked."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from encoderlab.errors import SettingError

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class Compute:
    """What a run computes on. `precision` is the dtype of the matrix products; weights and optimizer stay in float32.

    `reason` says why that precision was picked.
    """

    device: torch.device
    precision: torch.dtype
    threads: int
    reason: str

    def autocast(self) -> AbstractContextManager:
        """Run the enclosed forward pass in `precision`."""
        if self.precision is torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.precision)

    def __str__(self) -> str:
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else self.device.type
        precision = str(self.precision).removeprefix("torch.")
        return f"device {name}, precision {precision} ({self.reason}), {self.threads} threads"


def choose_compute(
    device: str = "auto", precision: str = "auto", threads: int | None = None, *, setting: str = "training.device"
) -> Compute:
    """Pick what is there, in the order CUDA, Apple's MPS, CPU, unless the settings say otherwise.

    Sets the number of CPU threads of this process, and makes it flush denormal numbers to zero: they slow some CPU kernels down up
    to elevenfold. Raises SettingError for a device this machine lacks, naming the `setting` it came from.
    """
    torch.set_num_threads(threads or _available_cores())
    torch.set_flush_denormal(True)
    chosen = _choose_device(device, setting)
    dtype, reason = _choose_precision(precision, chosen)
    return Compute(chosen, dtype, torch.get_num_threads(), reason)


def _available_cores() -> int:
    """Cores this process may run on: fewer than the machine has under a batch system or in a container."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _available() -> list[str]:
    accelerators = [("cuda", torch.cuda.is_available()), ("mps", torch.backends.mps.is_available())]
    return [name for name, there in accelerators if there] + ["cpu"]


def _choose_device(wanted: str, setting: str) -> torch.device:
    available = _available()
    if wanted == "auto":
        return torch.device(available[0])
    remedy = f"Leave {setting} out to use what is there"
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise SettingError(f"{setting}={wanted} is no device", allowed=", ".join(["auto", *available]), remedy=remedy) from None
    there = device.type in available and (device.type != "cuda" or (device.index or 0) < torch.cuda.device_count())
    if not there:
        raise SettingError(f"{setting}={wanted} is not on this machine", allowed=", ".join(["auto", *available]), remedy=remedy)
    return device


def _choose_precision(wanted: str, device: torch.device) -> tuple[torch.dtype, str]:
    if wanted != "auto":
        return PRECISIONS[wanted], "as set"
    if device.type == "cuda":
        if torch.cuda.is_bf16_supported():
            return torch.bfloat16, "the card has bf16 units"
        return torch.float32, "the card has no bf16 units"
    if device.type == "cpu" and torch.cpu._is_amx_tile_supported():
        return torch.bfloat16, "the processor has AMX"
    return torch.float32, "bf16 only pays with AMX or on a CUDA card"
