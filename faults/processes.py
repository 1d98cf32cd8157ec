"""Trials of runs in two processes by torchrun: signals, and a process that is lost."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any

from encoderlab.training.checkpoint import checkpoints, step_of
from faults.host import ENVIRONMENT, Ended
from faults.promise import Conditions, Trial
from faults.training import GRID, HOW_TO_RESUME, SIGNALS, STEPS, difference, finished, outcome, shared_folder

ENOUGH = 240.0  # seconds for any of these runs
POLL = 0.02
Disturb = Callable[[subprocess.Popen], None]


def disturbed(conditions: Conditions) -> Iterator[Trial]:
    """Kill one of two processes, or signal it or torchrun, after a step: the run must end, and resume like undisturbed.

    Each process holds the whole model or a shard of it.
    """
    draw = random.Random(conditions.seed)
    targets = [(signal.SIGKILL, 0), (signal.SIGKILL, 1), *product(SIGNALS, (None, 0, 1))]
    cases = [(*target, sharding) for sharding in ("none", "full") for target in targets]
    for number, rank, sharding in islice(cycle(cases), conditions.trials or 0):
        settings = (*GRID["dropout"], f"training.sharding={sharding}")
        reference = _undisturbed(settings)
        with tempfile.TemporaryDirectory(dir=shared_folder(), ignore_cleanup_errors=True) as folder:
            run = Path(folder)
            step = draw.randrange(1, STEPS)
            ended = launch(run, 2, *settings, disturb=_after_step(run, step, number, rank))
            failure = "exit code 0 without a report" if ended.code == 0 and not finished(run) else ""
            if number != signal.SIGKILL:
                failure = failure or _badly_stopped(run, ended)
            failure = failure or _ends(run, 2, settings) or difference(outcome(run), reference)
            target = "torchrun" if rank is None else f"process {rank}"
            yield Trial(f"{number.name} to {target} after step {step}, sharding={sharding}", failure)


def launch(run: Path, size: int, *words: str, disturb: Disturb | None = None) -> Ended:
    """Run a command in `size` processes; `disturb` gets the launcher once it has started."""
    folder = () if any(word.startswith("resume=") for word in words) else (f"run_dir={run}",)
    program = ["-m", "encoderlab", *words, *folder, f"cache_dir={shared_folder() / 'cache'}"]
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"] if size > 1 else []
    environment = {**os.environ, **ENVIRONMENT}
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        started = time.monotonic()
        streams = {"stdout": output, "stderr": output, "start_new_session": True}
        child = subprocess.Popen([sys.executable, *launcher, *program], env=environment, cwd=run.parent, **streams)
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


@cache
def _undisturbed(settings: tuple[str, ...]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=shared_folder(), ignore_cleanup_errors=True) as run:
        ended = launch(Path(run), 2, *settings)
        assert ended.code == 0, ended.output
        return outcome(Path(run))


def newest_step(run: Path) -> int:
    """Return the step of the newest checkpoint; -1 if there is none."""
    return max(map(step_of, checkpoints(run / "checkpoints")), default=-1)


def _after_step(run: Path, step: int, number: signal.Signals, rank: int | None) -> Disturb:
    """Return what waits for the checkpoint of a step, or the end, and signals a process, or the launcher (None)."""

    def disturb(child: subprocess.Popen) -> None:
        while child.poll() is None and newest_step(run) < step:
            time.sleep(POLL)
        whom = child.pid if rank is None else ranks_of(child.pid).get(rank)
        if whom is not None and child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(whom, number)

    return disturb


def ranks_of(launcher: int) -> dict[int, int]:
    """Return the process of each rank, by what the launcher has put into its environment."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children")
    ranks = {}
    for process in map(int, children.read_text(encoding="utf-8").split() if children.exists() else []):
        with contextlib.suppress(OSError):  # it has just ended
            variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            for variable in variables:
                if variable.startswith(b"RANK="):
                    ranks[int(variable.partition(b"=")[2])] = process
    return ranks


def _badly_stopped(run: Path, ended: Ended) -> str:
    """Return what is wrong with how a run ended on a signal; "" if nothing is. The launcher adds its own report."""
    if finished(run):
        return ""
    if ended.code == 0:
        return "exit code 0 without a report"
    stopped = [line for line in ended.lines if line.startswith("encoderlab: stopped by")]
    if len(stopped) != 1:
        return f"it said {len(stopped)} times why it ended: {ended.output[-500:]!r}"
    says_how = any(line.startswith(HOW_TO_RESUME) for line in ended.lines)
    return "" if says_how or newest_step(run) < 0 else "it did not say how to resume"


def _ends(run: Path, size: int, settings: Sequence[str]) -> str:
    """Resume a run unless it is finished; return what is wrong. A run that had not begun is started."""
    if finished(run):
        return ""
    words = (settings[0], f"resume={run}") if (run / "config.yaml").exists() else settings
    ended = launch(run, size, *words)
    return "" if ended.code == 0 and finished(run) else f"resuming ended with code {ended.code}: {ended.last_line}"
