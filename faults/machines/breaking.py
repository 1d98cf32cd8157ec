"""The promises of a run on two machines when something breaks: it endures, or a line names the machine and it can be
resumed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from encoderlab.runs.folder import RunFolder
from encoderlab.training.checkpoint import checkpoints, step_of
from faults.machines.equality import MODEL, ROWS, SETTINGS
from faults.machines.launching import POLL_SECONDS, Launch, Launched
from faults.machines.machine import Machine, machines
from faults.machines.network import Link
from faults.promise import Conditions, Trial, UnavailableError
from faults.running import difference, outcome

WAIT_SECONDS = 15  # of silence before a machine is given up here; 60 by default
NOTICED_WITHIN = WAIT_SECONDS + 25  # seconds from the fault to the end of the first machine's torchrun
CLOCK = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
LONG = (
    *(
        "train",
        *ROWS,
        *MODEL,
        "model.dropout=0.1",
        "training.threads=1",
        "training.precision=fp32",
        "training.batch_size=12",
    ),
    *(
        "training.steps=60",
        "training.checkpoint_every=5",
        "training.evaluate_every=30",
        "training.log_every=5",
        "run_dir=run",
    ),
)
SHORT = ("train", *SETTINGS["train"], "run_dir=run")
NOT_ERRORS = ("has waited",)
REJOINED = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}  # docs/clusters.md: so that torchrun accepts a rebooted machine
Two = Sequence[Machine]


@dataclass(frozen=True, slots=True)
class Fault:
    """What breaks, and how it is repaired; the line must name `at_fault`, and the machine `reported_by` prints it."""

    name: str
    strike: Callable[[Two], None]
    mend: Callable[[Two], None]
    at_fault: str = "berta"
    reported_by: int = 0


def endured(conditions: Conditions) -> Iterator[Trial]:
    """Try slow and lossy links, links cut for a while, and a wrong clock: the run must end as if nothing had happened."""
    with two(conditions) as up:
        wanted = {settings: _undisturbed(up, settings) for settings in (SHORT, LONG)}
        for name, link in SLOW.items():
            up[1].port.link = link
            yield Trial(name, ended_otherwise(up, Launch(up, 1, *SHORT).wait(), wanted[SHORT]))
            up[1].port.link = Link()
        launch = Launch(up, 1, *LONG)
        _behind_step(up[0], launch, 10)
        up[1].port.link.cut = True
        time.sleep(5)
        up[1].port.link.cut = False
        yield Trial("a link cut for 5 s", ended_otherwise(up, launch.wait(), wanted[LONG]))
        if CLOCK.exists():
            for name, seconds in (("10 s", 10), ("an hour", 3600)):
                up[1].variables |= fast_clock(seconds)
                yield Trial(
                    f"a clock that is {name} fast", ended_otherwise(up, Launch(up, 1, *SHORT).wait(), wanted[SHORT])
                )


def fast_clock(seconds: int) -> dict[str, str]:
    """Return environment variables under which programs see another time of day but true durations.

    libfaketime can leave the monotonic clock alone, but then Python 3.11 cannot sleep (`OSError: Invalid argument`).
    """
    return {"LD_PRELOAD": str(CLOCK), "FAKETIME": f"+{seconds}s"}


def restarted(conditions: Conditions) -> Iterator[Trial]:
    """Try torchrun --max-restarts: the run must resume by itself after a killed process, or once a lost machine is
    back.
    """
    again = ("--max-restarts=2",)
    with two(conditions) as up:
        wanted = _undisturbed(up, LONG)
        launch = Launch(up, 1, *LONG, options=again)
        _behind_step(up[0], launch, 10)
        _kill_process(up)
        yield Trial("a process killed", ended_otherwise(up, launch.wait(), wanted))
        for machine in up:
            machine.variables |= REJOINED
        launch = Launch(up, 1, *LONG, options=again)
        _behind_step(up[0], launch, 10)
        up[1].lose_power()
        time.sleep(WAIT_SECONDS + 10)
        up[1].boot()
        launch.start_again(1)
        yield Trial("a machine that was rebooted and given the same line", ended_otherwise(up, launch.wait(), wanted))


SLOW = {
    "1 ms each way": Link(delay=0.001),
    "20 ms each way": Link(delay=0.02),
    "100 ms each way": Link(delay=0.1),
    "100 Mbit/s": Link(rate=100e6),
    "1% of the frames lost": Link(loss=0.01),
}


def lost(conditions: Conditions) -> Iterator[Trial]:
    """Let a machine or its network fail in mid-run: a line must name it in time, nothing saved is lost, resume=auto
    works.
    """
    with two(conditions) as up:
        wanted = _undisturbed(up, LONG)
        for fault in conditions.of(LOST):
            if fault.name.startswith("a disk"):
                up[0].mount_disk(up[0].work, "24m")
            yield Trial(fault.name, _survived(up, fault, wanted))
            clear(up)


def _survived(up: Two, fault: Fault, wanted: dict[str, Any]) -> str:
    launch = Launch(up, 1, *LONG)
    _behind_step(up[0], launch, 10)
    before = _steps(up[0])
    fault.strike(up)
    struck = time.monotonic()
    # If the first machine is gone, torchrun on the others tries to reach it for minutes after our line: see
    # docs/clusters.md.
    teller = (
        launch.wait_for(0, NOTICED_WITHIN)
        if fault.reported_by == 0
        else launch.wait_for_line(fault.reported_by, NOTICED_WITHIN)
    )
    failure = badly_reported(teller, fault.at_fault, time.monotonic() - struck)
    fault.mend(up)
    launch.wait(0)
    missing = [step for step in before[-1:] if step not in _steps(up[0]) and max(_steps(up[0]), default=0) < step]
    if missing or failure:
        return failure or f"the checkpoint of step {missing[0]} is gone"
    return ended_otherwise(up, Launch(up, 1, *LONG, "resume=auto").wait(), wanted)


def two(conditions: Conditions) -> AbstractContextManager[list[Machine]]:
    """Yield two machines that are up."""
    return machines(2, conditions.scratch / "two")


def _undisturbed(up: Two, settings: Sequence[str]) -> dict[str, Any]:
    """Return the results of an undisturbed run."""
    ended = Launch(up, 1, *settings).wait()
    if any(one.code for one in ended):
        raise UnavailableError(f"an undisturbed run failed: {ended[0].lines[-3:]}")
    found = outcome(up[0].work / "run")
    clear(up)
    for machine in up:
        machine.variables = {"ENCODERLAB_WAIT_SECONDS": str(WAIT_SECONDS)}
    return found


def ended_otherwise(up: Two, ended: Sequence[Launched], wanted: dict[str, Any]) -> str:
    """Return how the results of a run differ from `wanted`, "" if not at all, and delete the run."""
    bad = [
        f"{one.name} ended with {one.code}: {(one.errors or one.lines or [''])[-1]}" for one in ended if one.code != 0
    ]
    run = up[0].inside(up[0].work / "run")
    failure = "; ".join(bad) or (difference(outcome(run), wanted) if RunFolder(run).finished else "it did not finish")
    clear(up)
    return failure


def badly_reported(ended: Launched, name: str, seconds: float) -> str:
    """Return what is wrong with how a machine reported a fault; "" if one line names the machine at fault."""
    if ended.code is None:
        return f"{ended.name} had not ended after {seconds:.0f} s"
    errors = [line for line in ended.errors if not any(note in line for note in NOT_ERRORS)]
    if ended.code == 0 or len(errors) != 1:
        return f"exit code {ended.code} and {len(errors)} lines: {errors or ended.lines[-3:]}"
    return "" if name in errors[0] else f"{name} is not named: {errors[0]}"


def _behind_step(machine: Machine, launch: Launch, step: int) -> None:
    """Wait for the checkpoint of that step, or the end."""
    while launch.alive() and max(_steps(machine), default=0) < step:
        time.sleep(POLL_SECONDS)


def _steps(machine: Machine) -> list[int]:
    return [step_of(path) for path in checkpoints(RunFolder(machine.inside(machine.work / "run")).checkpoints)]


def clear(up: Two) -> None:
    """Delete the run."""
    for machine in up:
        machine.run("rm", "-rf", str(machine.work / "run"), str(machine.work / "filler"))


def _cut(up: Two, *, cut: bool) -> None:
    up[1].port.link.cut = cut


def _nothing(_: Two) -> None:
    """Repair nothing."""


def _kill_process(up: Two) -> None:
    """Kill a process of the run, but not its torchrun."""
    for process in up[1].processes():
        if b"\0RANK=" in Path(f"/proc/{process}/environ").read_bytes():
            os.kill(process, signal.SIGKILL)


def _fill(up: Two) -> None:
    up[0].run("sh", "-c", f"dd if=/dev/zero of={up[0].work}/filler bs=4k 2>/dev/null || true")


def _free(up: Two) -> None:
    up[0].run("rm", f"{up[0].work}/filler")


LOST = (
    Fault("a link cut for good", partial(_cut, cut=True), partial(_cut, cut=False)),
    Fault("a machine without power", lambda up: up[1].lose_power(), lambda up: up[1].boot()),
    Fault(
        "the first machine without power",
        lambda up: up[0].lose_power(),
        lambda up: up[0].boot(),
        at_fault="anna",
        reported_by=1,
    ),
    Fault("a frozen machine", lambda up: up[1].signal(signal.SIGSTOP), lambda up: up[1].signal(signal.SIGCONT)),
    Fault("a process killed", _kill_process, _nothing),
    Fault("a disk that fills up", _fill, _free, at_fault="run cannot be written"),
)
