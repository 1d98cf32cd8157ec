"""The peak memory: of PyTorch on a GPU, of the whole process on a CPU."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import torch

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
