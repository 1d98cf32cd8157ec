"""A run on several machines: the line from docs/clusters.md is typed on each of them."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from faults.machines.machine import POLL_SECONDS, Machine

ENOUGH = 240.0  # seconds for any of these runs
BESIDE_OURS = re.compile(  # torchrun's own output, with PyTorch's C++ stacks
    r"^([WEI]\d{4} |\*{5}|Setting OMP_NUM_THREADS|\[rank\d+\]:|\[[WE]\d|frame #|Exception raised from |<omitting python|$)"
)
OURS = "encoderlab: "
TRACEBACK = "Traceback (most recent call last):"
Disturb = Callable[[], None]
_ids = count(1)


@dataclass(frozen=True, slots=True)
class Launched:
    """How a machine's torchrun ended: its exit code (None: it had to be ended), and its output without torchrun's own."""

    name: str
    code: int | None
    lines: list[str]
    seconds: float

    @property
    def errors(self) -> list[str]:
        """Return the lines that say what is wrong."""
        return [line for line in self.lines if line.startswith(OURS)]


class Launch:
    """A run started on each of the machines, with `per_machine` processes on each."""

    def __init__(
        self,
        machines: Sequence[Machine],
        per_machine: int,
        *typed: str,
        options: Sequence[str] = (),
        last_only: Sequence[str] = (),
        last_starts_with: Sequence[str] = (),
    ) -> None:
        """Start it with torchrun's `options`; `last_only` is added on the last machine only, with a command in front."""
        self.machines, self.started = machines, time.monotonic()
        place = ["--rdzv-backend=c10d", f"--rdzv-endpoint={machines[0].name}:29500", f"--rdzv-id=trial-{next(_ids)}"]
        size = [f"--nnodes={len(machines)}", f"--nproc-per-node={per_machine}"]
        torchrun = [sys.executable, "-m", "torch.distributed.run", *size, *place, *options, "-m", "encoderlab"]
        for machine in machines:
            _output(machine).unlink(missing_ok=True)
        line, last = [*torchrun, *typed], machines[-1]
        self.processes = [machine.start(line, _output(machine)) for machine in machines[:-1]]
        self.processes.append(last.start([*last_starts_with, *line, *last_only], _output(last)))
        self._line = line

    def wait(self, seconds: float = ENOUGH) -> list[Launched]:
        """Wait for all that have not ended; then end what still runs, together with its machine's processes."""
        until = time.monotonic() + seconds
        ended = [self._wait(place, until) for place in range(len(self.machines))]
        for machine, process in zip(self.machines, self.processes, strict=True):
            if process.poll() is None:
                process.kill()
                process.wait()
            for stray in machine.processes():
                subprocess.run(["kill", "-9", str(stray)], check=False, capture_output=True)
        return ended

    def start_again(self, place: int) -> None:
        """Type the same line again on one of the machines, as after a reboot."""
        self.processes[place] = self.machines[place].start(self._line, _output(self.machines[place]))

    def wait_for(self, place: int, seconds: float = ENOUGH) -> Launched:
        """Wait only for the torchrun of one machine, and return how it ended."""
        return self._wait(place, time.monotonic() + seconds)

    def wait_for_line(self, place: int, seconds: float) -> Launched:
        """Wait until a machine has printed what is wrong; its torchrun then counts as failed, even if it still runs."""
        until = time.monotonic() + seconds
        while not any(line.startswith(OURS) for line in self.lines_so_far(place)) and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        return Launched(self.machines[place].name, self.processes[place].poll() or 1, self.lines_so_far(place), seconds)

    def alive(self) -> bool:
        """Return whether the first machine's torchrun is still running."""
        return self.processes[0].poll() is None

    def lines_so_far(self, place: int = 0) -> list[str]:
        """Return the output lines of a machine so far."""
        return ours(_output(self.machines[place]).read_text(encoding="utf-8", errors="replace"))

    def _wait(self, place: int, until: float) -> Launched:
        process = self.processes[place]
        while process.poll() is None and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        return Launched(
            self.machines[place].name, process.poll(), self.lines_so_far(place), time.monotonic() - self.started
        )


def alone(machine: Machine, *typed: str) -> Launched:
    """Run a command on one machine in one process."""
    _output(machine).unlink(missing_ok=True)
    started = time.monotonic()
    process = machine.start([sys.executable, "-m", "encoderlab", *typed], _output(machine))
    code = process.wait(ENOUGH)
    return Launched(machine.name, code, ours(_output(machine).read_text(encoding="utf-8")), time.monotonic() - started)


def ours(output: str) -> list[str]:
    """Return the lines that are not torchrun's own report of a failed run."""
    lines = output.partition(f"{TRACEBACK}\n  File")[0].splitlines()
    return [line for line in lines if not BESIDE_OURS.match(line)]


def _output(machine: Machine) -> Path:
    return machine.folder / "output.txt"
