"""The cores of this machine: how their threads wait for each other, and how many cores other programs keep busy.

A thread that waits for another one keeps its core busy for a moment, because to fall asleep and wake up takes longer
than most waits. On a machine that also does other things, waits are long, and the awaited thread cannot run on a core
that is kept busy by waiting.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

KERNEL_TIMES = Path("/proc/stat")  # proc(5); Linux alone has it. Importing psutil for it takes 25 ms of each start
STILL_RECENT = 60.0  # seconds; what other programs did before then says little about now
PAUSE = 0.2  # seconds in which other programs are watched instead; the kernel counts in hundredths
LOOK_EVERY = 2.0  # seconds between two looks at the load while a run trains
IDLE_AFTER = 10.0  # seconds without another program after which its core counts as idle
THREADS_VARIABLE = "OMP_NUM_THREADS"
# Threads that wait fall asleep after about a millisecond: benchmarks/results/busy_machine.md. GNU's library, which
# PyTorch for Linux comes with, counts looks at the variable, some 35 ns each, and by default takes 300,000. LLVM's and
# Intel's, for macOS and Windows, count milliseconds, by default 200.
WAITING = {"GOMP_SPINCOUNT": "30000", "KMP_BLOCKTIME": "1"}


def let_waiting_threads_sleep() -> None:
    """Set, unless the user has, how long threads wait without sleeping. OpenMP reads it when PyTorch is loaded."""
    if "OMP_WAIT_POLICY" in os.environ:
        return
    for name, value in WAITING.items():
        os.environ.setdefault(name, value)


def available_cores() -> int:
    """Return the number of cores this process may use, as a batch system or a container limits it."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_set_by_user() -> int | None:
    """Return the number of threads that OMP_NUM_THREADS sets; None if it is unset or no number."""
    first = os.environ.get(THREADS_VARIABLE, "").partition(",")[0].strip()  # further numbers are for nested threads
    return int(first) if first.isdigit() and int(first) > 0 else None


@dataclass(frozen=True, slots=True)
class BusyTimes:
    """Seconds of processor time up to the `moment` (time.monotonic): of `all` programs on this process's cores, and of
    this process with its children.
    """

    moment: float
    all: float
    own: float

    @classmethod
    def now(cls) -> BusyTimes | None:
        """Return the times up to now; None where the kernel does not tell."""
        try:
            lines = KERNEL_TIMES.read_text(encoding="ascii").splitlines()
            allowed = {f"cpu{number}" for number in os.sched_getaffinity(0)}
            seconds = sum(_busy_seconds(line) for line in lines if line.split(" ", 1)[0] in allowed)
        except (OSError, AttributeError, ValueError):
            return None
        own = os.times()
        children = own.children_user + own.children_system
        return cls(time.monotonic(), seconds, own.user + own.system + children)


def _busy_seconds(line: str) -> float:
    """Return the seconds in which programs ran on a core, from its line of /proc/stat: user, nice, system, and so on.

    Programs of low priority count, too: beside one, two threads were slower than one
    (benchmarks/results/busy_machine.md).
    """
    user, nice, system = (int(ticks) for ticks in line.split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def busy_between(before: BusyTimes, now: BusyTimes) -> int:
    """Return how many of this process's cores other programs kept busy between two moments, rounded."""
    by_others = (now.all - before.all) - (now.own - before.own)
    return max(round(by_others / (now.moment - before.moment)), 0)


AT_START = BusyTimes.now()  # of this program: `import encoderlab` loads this module


@cache
def busy_cores() -> int:
    """Return how many of this process's cores other programs keep busy, rounded; 0 where the kernel does not tell.

    They are watched since this program started or, if that is long ago, for a moment. Later calls return the first
    result, so that all a process does has the same number of threads.
    """
    before = AT_START
    if before is None:
        return 0
    if time.monotonic() - before.moment > STILL_RECENT:
        before = BusyTimes.now()
        time.sleep(PAUSE)
    now = BusyTimes.now()
    if before is None or now is None or now.moment - before.moment < PAUSE:
        return 0
    return busy_between(before, now)


class LoadWatch:
    """Tells a process that runs for long how many cores other programs keep busy, as that changes.

    A program that begins counts at the next look, one that has ended after a while without it: to have a thread too
    many costs more than to have one too few.
    """

    def __init__(self, busy: int, before: BusyTimes | None) -> None:
        self.busy = busy
        self._before = before
        self._last_needed = 0.0  # the moment when other programs last kept as many cores busy

    def is_due(self) -> bool:
        """Return whether it is time for another look, which reads a file."""
        return self._before is not None and time.monotonic() - self._before.moment > LOOK_EVERY

    def look(self, now: BusyTimes | None) -> int:
        """Return how many cores to leave to other programs from now on."""
        before = self._before
        self._before = now
        if before is None or now is None:
            return self.busy
        busy = busy_between(before, now)
        if busy >= self.busy:
            self.busy = busy
            self._last_needed = now.moment
        elif now.moment - self._last_needed > IDLE_AFTER:
            self.busy = busy
        return self.busy
