"""Measured child processes: their output, time and memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from encoderlab.errors import TrainingError

ROOT = Path(__file__).resolve().parents[1]


class OutOfTimeError(TrainingError):
    """A process was ended because its time was up."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A process that succeeded: its output, seconds, peak memory in bytes, seconds of processor time, and standard
    error.
    """

    output: str
    seconds: float
    peak_memory: int
    processor_seconds: float = 0.0
    errors: str = ""

    @property
    def last_line(self) -> str:
        """Return the last line that is JSON; the scripts here end with one."""
        return next(line for line in reversed(self.output.splitlines()) if line.startswith("{"))


def python(*arguments: str) -> list[str]:
    """Return the command line of this Python with `arguments`."""
    return [sys.executable, *arguments]


def finished(
    command: Sequence[str], environment: Mapping[str, str] | None = None, seconds_at_most: float | None = None
) -> Finished:
    """Run `command` from the top of the repository and wait, without using processor time meanwhile.

    `environment` is added to this process's own; BENCHMARK_STARTED tells the child when it was started. Python caches
    bytecode, as for an installed package. Raises TrainingError with the last line of a failed process, and
    OutOfTimeError if it had to be ended after `seconds_at_most`.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        started, now = time.perf_counter(), {"BENCHMARK_STARTED": repr(time.time()), "PYTHONDONTWRITEBYTECODE": ""}
        child = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **(environment or {}), **now}, stdout=output, stderr=errors, text=True
        )
        with _ended_after(child, seconds_at_most) as too_slow:
            status, used, processor_seconds = _waited(child)
        seconds = time.perf_counter() - started
        output.seek(0)
        errors.seek(0)
        error_output = errors.read()
        if status and too_slow.is_set():
            raise OutOfTimeError(f"Not finished after {seconds_at_most:.0f} s: {' '.join(command)}")
        if status:
            lines = [line for line in error_output.splitlines() if line.strip()] or ["it printed nothing"]
            raise TrainingError(f"{lines[-1].rstrip('.')} (exit code {status} of {' '.join(command)})")
        return Finished(output.read(), seconds, used, processor_seconds, error_output)


@contextmanager
def _ended_after(child: subprocess.Popen, seconds: float | None) -> Iterator[threading.Event]:
    """Kill `child` if it runs for more than `seconds` (None: never), and set the event that is yielded."""
    killed = threading.Event()

    def end() -> None:
        killed.set()
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)  # Popen.kill would wait for it as `_waited` does

    timer = None if seconds is None else threading.Timer(seconds, end)
    if timer is not None:
        timer.start()
    try:
        yield killed
    finally:
        if timer is not None:
            timer.cancel()


def _waited(child: subprocess.Popen) -> tuple[int, int, float]:
    """Return exit code, peak memory and processor seconds of that child alone, which only wait4 reports."""
    try:
        _, status, used = os.wait4(child.pid, 0)
    except BaseException:
        child.kill()
        child.wait()
        raise
    child.returncode = os.waitstatus_to_exitcode(status)
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage(2): kilobytes on Linux, bytes on macOS
    return child.returncode, used.ru_maxrss * unit, used.ru_utime + used.ru_stime
