"""The cost of a step on several machines, compared with the formula: bytes on the network, and seconds added by a
narrow link.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from encoderlab.runs.folder import RunFolder
from faults.machines.breaking import clear
from faults.machines.equality import ROWS
from faults.machines.launching import Launch
from faults.machines.machine import Machine, machines
from faults.machines.network import Link
from faults.promise import Conditions, Trial, UnavailableError

FEW, MANY = 4, 20  # steps: what both runs do once cancels out in the difference
WIDE = (
    "model.n_layers=2",
    "model.d_model=128",
    "model.n_heads=2",
    "model.d_ff=512",
    "model.dropout=0",
    "baselines=false",
)
SHORT = (
    *(
        "train",
        *ROWS,
        *WIDE,
        "training.threads=1",
        "training.precision=fp32",
        "training.batch_size=16",
        "training.log_every=1",
    ),
    *("training.evaluate_every=1000", "run_dir=run"),
)
TOLERANCE = 0.15  # of the formula: for headers, acknowledgements, the small message of each step, heartbeats
NARROW = 100e6  # bits per second


def cost(conditions: Conditions) -> Iterator[Trial]:
    """Compare bytes per step with 2 (n - 1) / n of the gradients for any accumulation, and seconds with bytes /
    bandwidth.
    """
    for number in (2, 3):
        with machines(number, conditions.scratch / f"cost-{number}") as up:
            found = {accumulate: _bytes_per_step(up, accumulate) for accumulate in (1, 4)}
            parameters = found[1][1]
            wanted = 2 * (number - 1) / number * parameters * 4
            for accumulate, (sent, _) in found.items():
                case = f"{number} machines, {parameters:,} parameters, accumulate={accumulate}: {sent / wanted:.3f} of the formula"
                yield Trial(
                    case, "" if abs(sent / wanted - 1) <= TOLERANCE else f"{sent:,.0f} bytes instead of {wanted:,.0f}"
                )
            if number == 2:
                yield _waited(up, wanted)


def _bytes_per_step(up: Sequence[Machine], accumulate: int) -> tuple[float, int]:
    """Return the bytes a machine sends per step, as a mean over machines, and the model's number of parameters."""
    sent = {}
    for steps in (FEW, MANY):
        before = [machine.port.sent for machine in up]
        parameters = _run(up, f"training.steps={steps}", f"training.accumulate={accumulate}")[0]
        sent[steps] = sum(machine.port.sent for machine in up) - sum(before)
    return (sent[MANY] - sent[FEW]) / (MANY - FEW) / len(up), parameters


def _waited(up: Sequence[Machine], sent: float) -> Trial:
    """Compare the seconds that a narrow link adds to a step with the time its bytes take."""
    _, free = _run(up, f"training.steps={MANY}")
    for machine in up:
        machine.port.link = Link(rate=NARROW)
    _, narrow = _run(up, f"training.steps={MANY}")
    least = sent * 8 / NARROW
    ratio = (narrow - free) / least
    case = f"a link of 100 Mbit/s adds {narrow - free:.3f} s to a step of {free:.3f} s, {ratio:.2f} of the formula"
    return Trial(case, "" if 0.5 <= ratio <= 2.5 else f"the formula says {least:.3f} s")


def _run(up: Sequence[Machine], *typed: str) -> tuple[int, float]:
    """Return the number of parameters of a run, and the median seconds between its steps."""
    ended = Launch(up, 1, *SHORT, *typed).wait()
    if any(one.code for one in ended):
        raise UnavailableError(f"a run failed: {[one.errors for one in ended]}")
    run = RunFolder(up[0].work / "run")
    lines = [json.loads(line) for line in run.metrics.read_text(encoding="utf-8").splitlines()]
    times = [line["seconds"] for line in lines if line["kind"] == "step"]
    gaps = sorted(later - earlier for earlier, later in zip(times, times[1:], strict=False))
    parameters = json.loads(run.report.read_text(encoding="utf-8"))["model"]["parameters"]
    clear(up)
    return parameters["total"] if isinstance(parameters, dict) else parameters, gaps[len(gaps) // 2]
