"""The promises of runs under Slurm: docs/train.sbatch on a cluster of three nodes, and a sweep as Slurm jobs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from benchmarks.processes import ROOT
from encoderlab.runs.folder import RunFolder
from encoderlab.training.checkpoint import checkpoints, step_of
from faults.machines.equality import MODEL, ROWS, SETTINGS
from faults.promise import Conditions, Trial
from faults.slurm.cluster import POLL_SECONDS, Cluster, cluster

ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}
ON_CPUS = ("--gpus-per-node=0", "--cpus-per-task=1")
SHORT = ("train", *SETTINGS["train"])
LONG = (
    *(
        "train",
        *ROWS,
        *MODEL,
        "training.threads=1",
        "training.precision=fp32",
        "training.batch_size=12",
        "training.steps=100000",
    ),
    *("training.checkpoint_every=20", "training.evaluate_every=100000", "training.log_every=5"),
)
ENOUGH = 300.0  # seconds to wait for anything
LAUNCHER = (
    *(
        "hydra/launcher=slurm",
        "hydra.launcher.partition=trial",
        "hydra.launcher.gpus_per_node=0",
        "hydra.launcher.cpus_per_task=1",
    ),
    *("hydra.launcher.mem_gb=0", "hydra.launcher.timeout_min=9"),
)


def jobs(conditions: Conditions) -> Iterator[Trial]:
    """Yield every trial, one after another, on one cluster."""
    with cluster(3, conditions.scratch / "cluster") as up:
        for name, tried in conditions.of(list(TRIALS.items())):
            if tried is not _swept or _has_launcher():
                yield Trial(name, tried(up))


def _trained(up: Cluster) -> str:
    job = _submitted(up, *SHORT, "run_dir=trained")
    return _unfinished(up, job, "trained")


def _out_of_time(up: Cluster) -> str:
    """Check that a job with a limit of minutes saves before its end, is requeued, and resumes where it was."""
    run = up.folder / "long"
    job = _submitted(up, *LONG, "run_dir=long", options=("--time=3", "--signal=B:USR1@60"))
    if not _until(lambda: "Restarts=1" in up.run("scontrol", "show", "job", str(job))):
        return f"it was not requeued: {_printed(up, job)[-3:]}"
    saved = max(_steps(run), default=0)
    if not saved or not _until(lambda: max(_steps(run)) > saved):
        return f"it did not resume: {_printed(up, job)[-3:]}"
    first = next(line["step"] for line in _journal(run) if line["kind"] == "step" and line["step"] > saved)
    up.run("scancel", str(job))
    up.wait(job, ENDED, ENOUGH)
    return "" if saved < first <= saved + 5 else f"it resumed at step {first} after the checkpoint of step {saved}"


def _cancelled(up: Cluster) -> str:
    """Check that a cancelled job saves its last step, and that the same line resumes it."""
    run = up.folder / "cancelled"
    job = _submitted(up, *LONG, "run_dir=cancelled")
    if not _until(lambda: max(_steps(run), default=0) >= 20):
        return f"it did not begin: {_printed(up, job)[-3:]}"
    up.run("scancel", str(job))
    if up.wait(job, ENDED, ENOUGH) != "CANCELLED":
        return f"it ended as {up.state(job)}"
    _until(lambda: any("resume=" in line for line in _printed(up, job)))
    saved, done = max(_steps(run)), _journal(run)[-1]["step"]
    if saved < done:
        return f"step {done} was done and step {saved} saved: {_printed(up, job)[-5:]}"
    again = _submitted(up, *LONG, "run_dir=cancelled")
    resumed = _until(lambda: max(_steps(run)) > saved)
    up.run("scancel", str(again))
    up.wait(again, ENDED, ENOUGH)
    return "" if resumed else f"it did not resume: {_printed(up, again)[-3:]}"


def _drained(up: Cluster) -> str:
    """Check that a drained node gets no new job, and that the job goes to two others."""
    up.run("scontrol", "update", "NodeName=berta", "State=DRAIN", "Reason=trial")
    job = _submitted(up, *SHORT, "run_dir=drained")
    failure = _unfinished(up, job, "drained")
    up.run("scontrol", "update", "NodeName=berta", "State=RESUME")
    used = "NodeList=anna,carla" in up.run("scontrol", "show", "job", str(job))
    return failure or ("" if used else "it did not run on the other two nodes")


def _swept(up: Cluster) -> str:
    """Run a sweep as Slurm jobs, started on the first node."""
    command = ["train", "-m", *SHORT[1:], *LAUNCHER, "seed=0,1", "hydra.sweep.dir=sweep"]
    output = up.folder / "sweep.txt"
    process = up.nodes[0].start([sys.executable, "-m", "encoderlab", *command], output)
    code = process.wait(ENOUGH)
    reports = list(up.folder.glob("**/report.json"))
    found = [path for path in reports if "sweep" in path.as_posix() or "multirun" in path.as_posix()]
    if code or len(found) < 2:
        return f"exit code {code}, {len(found)} reports: {output.read_text(encoding='utf-8').splitlines()[-3:]}"
    return ""


def _has_launcher() -> bool:
    """Return whether encoderlab[slurm] is installed."""
    return find_spec("hydra_plugins") is not None and find_spec("hydra_plugins.hydra_submitit_launcher") is not None


TRIALS: dict[str, Callable[[Cluster], str]] = {
    "training on two nodes": _trained,
    "a node that is drained": _drained,
    "scancel": _cancelled,
    "a time limit": _out_of_time,
    "a sweep by hydra/launcher=slurm": _swept,
}


def _submitted(up: Cluster, *typed: str, options: tuple[str, ...] = ()) -> int:
    return up.submit(*ON_CPUS, *options, str(ROOT / "docs" / "train.sbatch"), *typed)


def _unfinished(up: Cluster, job: int, run: str) -> str:
    """Return what is wrong with a job that should have finished its run on two nodes; "" if nothing is."""
    state = up.wait(job, ENDED, ENOUGH)
    if state != "COMPLETED" or not RunFolder(up.folder / run).finished:
        return f"it ended as {state} ({up.reason(job)}): {_printed(up, job)[-3:]}"
    return "" if any("2 processes" in line for line in _printed(up, job)) else "it did not run in two processes"


def _until(true: Callable[[], bool]) -> bool:
    until = time.monotonic() + ENOUGH
    while not (found := true()) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
    return found


def _printed(up: Cluster, job: int) -> list[str]:
    path = up.folder / f"slurm-{job}.out"
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []


def _steps(run: Path) -> list[int]:
    return [step_of(path) for path in checkpoints(RunFolder(run).checkpoints)]


def _journal(run: Path) -> list[dict]:
    return [json.loads(line) for line in RunFolder(run).metrics.read_text(encoding="utf-8").splitlines()]
