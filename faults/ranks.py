"""Promises of a run across processes: signals, a rank that is killed or stopped, and resuming with another number of
ranks.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any

from encoderlab.runs.folder import RunFolder
from encoderlab.training.checkpoint import checkpoints, step_of
from faults.host import Ended
from faults.promise import Conditions, Trial
from faults.resuming import GRID, STEPS
from faults.running import SMALL, difference, outcome, shared_folder
from faults.while_running import NAMES, answers
from faults.while_saving import HOW_TO_RESUME

SETTINGS = (
    "train",
    "task=reverse",
    *SMALL,
    "training.steps=120",
    "training.checkpoint_every=5",
    "training.evaluate_every=60",
)
UNEQUAL = ("training.learning_rate=0.01", "seed=1")
WAIT = "20"  # seconds that a rank waits for the others when one is stopped
ENOUGH = 180.0  # seconds for any of these runs
POLL = 0.02
LAUNCHERS_OWN = "torch.distributed.elastic."  # names of the exceptions of which it prints a traceback
Disturb = Callable[[subprocess.Popen], None]
SAME = 2e-3  # of the final loss: sums over two processes round differently from sums over one


def one_lost(conditions: Conditions) -> Iterator[Trial]:
    """Kill (kill -9) or stop for good (SIGSTOP) one of two ranks in training; the run must end and resume."""
    draw = random.Random(conditions.seed)
    for number, rank in islice(
        cycle((one, rank) for one in (signal.SIGKILL, signal.SIGSTOP) for rank in (0, 1)), conditions.trials or 0
    ):
        with _folder() as run:
            after_step = draw.randrange(5, 60, 5)
            disturb = partial(_behind_a_step, run, after_step, number, rank)
            ended = _launched(run, 2, *SETTINGS, *UNEQUAL, f"run_dir={run}", disturb=disturb)
            failure = _badly_lost(run, ended) or _goes_on(run, 2)
            yield Trial(f"{number.name} to rank {rank} after step {after_step}", failure)


def signalled(conditions: Conditions) -> Iterator[Trial]:
    """Send SIGTERM or SIGINT to torchrun or one of its two ranks: under each setting of the grid, after a step and at
    any time.

    Each rank holds a whole model or a shard.
    """
    draw, whom = random.Random(conditions.seed), cycle(product(NAMES, (None, 0, 1)))
    cases = list(product((True, False), ("none", "full"), GRID))
    for (behind_a_step, sharding, name), (number, rank) in zip(conditions.of(cases), whom, strict=False):
        settings = (*GRID[name], f"training.sharding={sharding}")
        seconds, wanted = _left_alone(settings)
        with _folder() as run:
            moment = draw.randrange(1, STEPS) if behind_a_step else draw.uniform(0, seconds)
            disturb = partial(_behind_a_step if behind_a_step else _at_a_time, run, moment, number, rank)
            ended = _launched(run, 2, *settings, f"run_dir={run}", disturb=disturb)
            failure = _badly_stopped(run, ended) or _goes_on(run, 2, *settings, f"run_dir={run}", "resume=auto")
            when = f"after step {moment}" if behind_a_step else f"after {moment:.2f} s"
            case = (
                f"{number.name} to {'torchrun' if rank is None else f'rank {rank}'} {when}, {name}, sharding={sharding}"
            )
            yield Trial(case, failure or difference(outcome(run), wanted))


@cache
def _left_alone(settings: tuple[str, ...]) -> tuple[float, dict[str, Any]]:
    """Return the results of an undisturbed run of two ranks, and its seconds from when both handle signals."""
    began: list[float] = []
    with _folder() as run:
        ended = _launched(run, 2, *settings, f"run_dir={run}", disturb=lambda child: began.append(_all_answer(child)))
        assert ended.code == 0, ended.output
        return time.monotonic() - began[0], outcome(run)


def processes_changed(conditions: Conditions) -> Iterator[Trial]:
    """Start a run in one process, resume it in two and again in one: steps, rows and scores must be those of an
    undisturbed one.
    """
    draw = random.Random(conditions.seed)
    with _folder() as reference:
        ended = _launched(reference, 1, *SETTINGS, *UNEQUAL, f"run_dir={reference}", "model.dropout=0")
        assert ended.code == 0, ended.output
        wanted = _facts(reference)
    for sizes in islice(cycle(((1, 2, 1), (2, 1, 2))), conditions.trials or 0):
        with _folder() as run:
            stops = sorted(draw.sample(range(10, 90, 5), 2))
            new = (*SETTINGS, *UNEQUAL, f"run_dir={run}", "model.dropout=0")
            for size, stop in zip(sizes, [*stops, None], strict=True):
                typed = new if not RunFolder(run).config.exists() else ("train", f"resume={run}")
                disturb = None if stop is None else partial(_behind_a_step, run, stop, signal.SIGTERM, None)
                ended = _launched(run, size, *typed, disturb=disturb)
            failure = "" if ended.code == 0 else f"exit code {ended.code}: {ended.last_line}"
            yield Trial(f"{sizes} processes, changed after steps {stops}", failure or _unlike(_facts(run), wanted))


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    run = Path(tempfile.mkdtemp(dir=shared_folder()))
    try:
        yield run
    finally:
        shutil.rmtree(run, ignore_errors=True)


def _launched(run: Path, size: int, *typed: str, disturb: Disturb | None = None) -> Ended:
    """Run the command in `size` processes; `disturb` gets the launcher once it has started."""
    program = ["-m", "encoderlab", *typed, f"cache_dir={shared_folder() / 'cache'}"]
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"] if size > 1 else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ENCODERLAB_WAIT_SECONDS": WAIT}
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        started = time.monotonic()
        child = subprocess.Popen(
            [sys.executable, *launcher, *program],
            env=environment,
            cwd=run.parent,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            if disturb is not None:
                disturb(child)
            code = child.wait(ENOUGH)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        output.seek(0)
        return Ended(code, output.read(), time.monotonic() - started)


def _behind_a_step(
    run: Path, after_step: int, number: signal.Signals, rank: int | None, child: subprocess.Popen
) -> None:
    """Wait for the checkpoint of that step, or the end, and send the signal."""
    while child.poll() is None:
        found = [step_of(path) for path in checkpoints(RunFolder(run).checkpoints)]
        if found and max(found) >= after_step:
            break
        time.sleep(POLL)
    _send(child, number, rank)


def _at_a_time(_: Path, after: float, number: signal.Signals, rank: int | None, child: subprocess.Popen) -> None:
    """Wait this many seconds from when all handle signals, or for the end, and send the signal."""
    _all_answer(child)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(after)
    _send(child, number, rank)


def _all_answer(child: subprocess.Popen) -> float:
    """Wait until both ranks have handlers for signals; return the time."""
    while child.poll() is None:
        ranks = _ranks(child.pid)
        with contextlib.suppress(OSError):  # one has just ended
            if len(ranks) == 2 and all(answers(process, number) for process in ranks.values() for number in NAMES):
                break
        time.sleep(POLL)
    return time.monotonic()


def _send(child: subprocess.Popen, number: signal.Signals, rank: int | None) -> None:
    """Send the signal to a rank, or to the launcher (None), unless it has ended."""
    whom = child.pid if rank is None else _ranks(child.pid).get(rank)
    if whom is not None and child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(whom, number)


def _ranks(launcher: int) -> dict[int, int]:
    """Return the process of each rank, found by what the launcher put into its environment."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children")
    found = {}
    for process in map(int, children.read_text(encoding="utf-8").split() if children.exists() else []):
        with contextlib.suppress(OSError):
            variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            found |= {int(one.partition(b"=")[2]): process for one in variables if one.startswith(b"RANK=")}
    return found


def _badly_lost(run: Path, ended: Ended) -> str:
    """Return what is wrong with how a run that lost a rank ended; "" if nothing is. The launcher adds its own report."""
    if RunFolder(run).finished:
        return ""
    if ended.code == 0:
        return "exit code 0 without a report"
    lines = [line for line in ended.lines if line.startswith("encoderlab:")]
    if len(lines) > 1:
        return f"{len(lines)} lines: {lines}"
    if not lines and not any(line.startswith(HOW_TO_RESUME) for line in ended.lines):
        return f"nothing was printed: {ended.output[-300:]!r}"
    return ""


def _badly_stopped(run: Path, ended: Ended) -> str:
    """Return what is wrong with how a run ended on a signal; "" if nothing is. The launcher adds its own report."""
    if ended.code == 0:
        return "" if RunFolder(run).finished else "exit code 0 without a report"
    traces = [line for line in ended.output.split("Traceback (most recent call last):\n")[1:] if not _by_launcher(line)]
    if traces:
        return f"a traceback: {traces[0][-300:]!r}"
    if RunFolder(run).finished:  # everything was done, and the processes were exiting
        return ""
    stopped = [line for line in ended.lines if line.startswith("encoderlab: stopped by")]
    if len(stopped) != 1:
        return f"it said {len(stopped)} times why it ended: {ended.output[-500:]!r}"
    says_how = any(line.startswith(HOW_TO_RESUME) for line in ended.lines)
    return "it did not say how to resume" if RunFolder(run).worth_continuing and not says_how else ""


def _by_launcher(trace: str) -> bool:
    """Return whether a traceback, given without its first line, ends in an exception of the launcher."""
    return next((line for line in trace.splitlines() if line and not line[0].isspace()), "").startswith(LAUNCHERS_OWN)


def _goes_on(run: Path, size: int, command: str = "train", *new: str) -> str:
    """Return what is wrong with resuming as the last line says; "" if nothing is. A run that had not begun is started
    as `new`.
    """
    if RunFolder(run).finished:
        return ""
    ended = _launched(run, size, command, *((f"resume={run}",) if RunFolder(run).config.exists() else new))
    if ended.code or not RunFolder(run).finished:
        return f"resuming ended with exit code {ended.code}: {ended.last_line}"
    return ""


def _facts(run: Path) -> dict[str, float]:
    """Return what a run did and how good it became."""
    lines = [json.loads(line) for line in RunFolder(run).metrics.read_text(encoding="utf-8").splitlines()]
    report = json.loads(RunFolder(run).report.read_text(encoding="utf-8"))
    last = next(line for line in reversed(lines) if line["kind"] == "step")
    counts = {name: last[name] for name in ("step", "examples", "tokens")}
    return {**counts, "loss": report["splits"]["test"]["loss"], "rows": report["splits"]["test"]["n"]}


def _unlike(found: dict[str, float], wanted: dict[str, float]) -> str:
    """Return how a run differs from the undisturbed one; "" if only in the rounding of sums."""
    counts = [name for name in wanted if name != "loss" and found[name] != wanted[name]]
    loss = abs(found["loss"] - wanted["loss"]) > SAME * wanted["loss"]
    return ", ".join(
        f"{name} {found[name]} instead of {wanted[name]}" for name in [*counts, *(["loss"] if loss else [])]
    )
