"""The most memory that was taken at once, by PyTorch on a card, by the whole process on a CPU."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import torch

PROCESS = Path("/proc/self")


def reset_peak_memory(device: torch.device) -> None:
    """Measure the peak from here on, where that can be done; elsewhere it is the peak of the process's whole life."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with suppress(OSError):
            (PROCESS / "clear_refs").write_text("5", encoding="ascii")  # proc_pid_clear_refs(5): resets VmHWM


def peak_memory(device: torch.device) -> int | None:
    """Bytes; on a CPU with Python and its libraries. None where that cannot be known (on a CPU outside Linux)."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB", (PROCESS / "status").read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None
