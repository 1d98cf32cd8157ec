"""The promise of a sweep that two machines share: if one dies or freezes, the other resumes its job."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from encoderlab.runs.folder import RunFolder
from encoderlab.runs.folders.sweep import FINISHED, SweepFolder
from encoderlab.training.checkpoint import checkpoints, step_of
from faults.machines.breaking import CLOCK, Two, fast_clock, two
from faults.machines.equality import MODEL, ROWS
from faults.machines.launching import ENOUGH, OURS, POLL_SECONDS
from faults.machines.machine import Machine
from faults.promise import Conditions, Trial
from faults.running import difference, outcome

TAKEOVER_SECONDS = 10
KERNEL = "/proc/sys/kernel/random/boot_id"  # identifies the processes that see each other's locks
LINE = (
    *(
        "train",
        "-m",
        *ROWS,
        *MODEL,
        "model.dropout=0.1",
        "training.threads=1",
        "training.precision=fp32",
        "training.batch_size=12",
    ),
    *(
        "training.steps=300",
        "training.checkpoint_every=5",
        "training.evaluate_every=100",
        "training.log_every=20",
        "seed=1,2",
    ),
    f"takeover_seconds={TAKEOVER_SECONDS}",
)
LOST_CODE = 4
FAULTS = ("a machine without power", "a frozen machine that wakes later", "clocks that differ by an hour")


def shared(conditions: Conditions) -> Iterator[Trial]:
    """Type one line on two machines and strike the first in its first run; the second must end the sweep as one alone
    would.
    """
    with two(conditions) as up:
        for machine in up:
            _own_kernel(machine)
        folder = conditions.scratch / "alone"
        _started(up[0], folder).wait(ENOUGH)
        wanted = {
            tuple(record.overrides): outcome(record.folder) for record in SweepFolder(folder).records() if record.folder
        }
        for fault in conditions.of(FAULTS):
            if fault != FAULTS[2] or CLOCK.exists():
                folder = conditions.scratch / fault.replace(" ", "-")
                failure = _tried(up, fault, folder)
                yield Trial(fault, failure or _otherwise(folder, wanted))


def _own_kernel(machine: Machine) -> None:
    """Make the machine look like another computer, so that a free lock does not mean that one of its processes is dead."""
    name = machine.folder / "boot_id"
    name.write_text(f"{machine.name}\n", encoding="utf-8")
    machine.run("mount", "--bind", str(name), KERNEL)


def _tried(up: Two, fault: str, folder: Path) -> str:
    """Return what is wrong with how the two machines end; "" if nothing is."""
    anna, berta = up
    if fault == FAULTS[2]:
        berta.variables = fast_clock(3600)
    first = _started(anna, folder)
    if not _until_step(folder, 10):
        return f"the first run did not begin: {_output_lines(anna)[-3:]}"
    if fault == FAULTS[0]:
        anna.lose_power()
    elif fault == FAULTS[1]:
        anna.signal(signal.SIGSTOP)
    second = _started(berta, folder)
    code = _wait(second)
    berta.variables = {}
    taken_over = any("is taken over from anna" in line for line in _output_lines(berta))
    if code or taken_over is (fault == FAULTS[2]):
        return f"berta ended with {code}, {'and' if taken_over else 'and nothing'} was taken over: {_output_lines(berta)[-3:]}"
    if fault == FAULTS[0]:
        anna.boot()
        _own_kernel(anna)
        return ""
    anna.signal(signal.SIGCONT)
    first.send_signal(signal.SIGCONT)  # nsenter, which stops when its child does
    wanted = 0 if fault == FAULTS[2] else LOST_CODE
    code, lines = _wait(first), [line for line in _output_lines(anna) if line.startswith(OURS)]
    is_named = wanted == 0 or "has taken over a job of this process" in lines[-1]
    return "" if code == wanted and is_named else f"anna ended with {code}: {lines[-2:]}"


def _started(machine: Machine, folder: Path) -> subprocess.Popen:
    output = machine.folder / "output.txt"
    output.unlink(missing_ok=True)
    return machine.start([sys.executable, "-m", "encoderlab", *LINE, f"sweep_dir={folder}"], output)


def _wait(process: subprocess.Popen) -> int | None:
    with suppress(subprocess.TimeoutExpired):
        return process.wait(ENOUGH)
    process.kill()
    return None


def _output_lines(machine: Machine) -> list[str]:
    return (machine.folder / "output.txt").read_text(encoding="utf-8", errors="replace").splitlines()


def _until_step(folder: Path, step: int) -> bool:
    until = time.monotonic() + ENOUGH
    while time.monotonic() < until:
        found = [step_of(path) for run in folder.glob("runs/*") for path in checkpoints(RunFolder(run).checkpoints)]
        if max(found, default=0) >= step:
            return True
        time.sleep(POLL_SECONDS)
    return False


def _otherwise(folder: Path, wanted: dict) -> str:
    """Return how a sweep's results differ from those of an undisturbed one; "" if not at all."""
    records = SweepFolder(folder).records()
    if [record.state for record in records] != [FINISHED, FINISHED]:
        return f"its jobs ended as {[record.state for record in records]}"
    if not (folder / "compare.html").is_file():
        return "no comparison was written"
    runs = [(record.folder, wanted[tuple(record.overrides)]) for record in records if record.folder]
    return "; ".join(filter(None, (difference(outcome(run), like) for run, like in runs)))
