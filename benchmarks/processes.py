"""Child processes, measured: what they print, how long they take and how much memory they need."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from encoderlab.errors import TrainingError

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Finished:
    """A process that ended well: its standard output, its seconds, its peak memory in bytes, and its seconds on a processor."""

    output: str
    seconds: float
    peak_memory: int
    processor_seconds: float = 0.0

    @property
    def last_line(self) -> str:
        """The last line that is JSON: the scripts here end with one."""
        return next(line for line in reversed(self.output.splitlines()) if line.startswith("{"))


def python(*arguments: str) -> list[str]:
    """The command line of this Python with `arguments`."""
    return [sys.executable, *arguments]


def finished(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Finished:
    """Run `command` from the top of the repository and wait, without taking any processor time meanwhile.

    `environment` is added to this process's own; BENCHMARK_STARTED tells the child when it was started. Python's bytecode is kept,
    as it is where a package is installed. Raises TrainingError with the last thing it said where it fails.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        started, now = time.perf_counter(), {"BENCHMARK_STARTED": repr(time.time()), "PYTHONDONTWRITEBYTECODE": ""}
        child = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **(environment or {}), **now}, stdout=output, stderr=errors, text=True
        )
        status, used, processor_seconds = _waited(child)
        seconds = time.perf_counter() - started
        output.seek(0)
        errors.seek(0)
        if status:
            said = [line for line in errors.read().splitlines() if line.strip()] or ["it said nothing"]
            raise TrainingError(f"{said[-1].rstrip('.')} (exit code {status} of {' '.join(command)})")
        return Finished(output.read(), seconds, used, processor_seconds)


def _waited(child: subprocess.Popen) -> tuple[int, int, float]:
    """The exit code, the peak memory and the seconds on a processor of that child alone, which only wait4 tells."""
    try:
        _, status, used = os.wait4(child.pid, 0)
    except BaseException:
        child.kill()
        child.wait()
        raise
    child.returncode = os.waitstatus_to_exitcode(status)
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage(2): kilobytes on Linux, bytes on macOS
    return child.returncode, used.ru_maxrss * unit, used.ru_utime + used.ru_stime
