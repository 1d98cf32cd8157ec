"""Trials on two machines: Linux namespaces with a network, host name, processes, home and cache of their own.

`torchrun` is started on each with the line of docs/clusters_and_large_data.md. A machine's first process ends with the
trial's process, and all others with the first: whatever happens here, nothing is left behind. Needs root.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count, product
from pathlib import Path
from typing import Any

from faults.host import ENVIRONMENT
from faults.processes import newest_step
from faults.promise import Conditions, Trial, UnavailableError
from faults.training import OF_THE_CLOCK, difference, finished, outcome

NAMES = ("anna", "berta")
TOOLS = ("unshare", "nsenter", "setpriv", "ip", "mount", "hostname")
START_SECONDS = 10.0
POLL_SECONDS = 0.02
ENOUGH = 240.0  # seconds for any of these runs
NOTICED = 720.0  # seconds: `system/processes.py` waits ten minutes for a machine that is silent
STEPS = 40
MIDDLE = 20
ROUNDING = 2e-5  # of a loss: sums over several processes round differently from sums over one
_ROWS = (
    *("task=reverse", "dataset.train_rows=120", "dataset.validation_rows=32", "dataset.test_rows=31"),
    "baselines=false",
)
_SHAPE = ("model.n_layers=2", "model.d_model=16", "model.n_heads=2", "model.d_ff=32", "model.dropout=0")
_STEPS = (
    *(f"training.steps={STEPS}", "training.keep_state=true", "training.checkpoint_every=5"),
    *("training.evaluate_every=20", "training.log_every=1"),
)
SETTINGS = (*_ROWS, *_SHAPE, *_STEPS, "training.threads=1", "training.precision=fp32", "training.batch_size=12")
_ids = count(1)


class Machine:
    """A machine that is up. Programs start in its folder `work`."""

    def __init__(self, folder: Path, address: str, hosts: Path, switch: int) -> None:
        """Boot it. `hosts` names all machines; `switch` is the process whose namespace holds the bridge."""
        self.name = folder.name
        self.folder = folder
        self.address = address
        self.hosts = hosts
        self.switch = switch
        self.work = folder / "work"
        self.output = folder / "output.txt"
        for name in ("home", "cache", "work"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.boot()

    def boot(self) -> None:
        """Start it, with an unchanged disk. Raises UnavailableError if namespaces cannot be created."""
        prepare = f"hostname {self.name}; mount --bind '{self.hosts}' /etc/hosts"
        self.outer, self.init = _namespaces(self.folder / "ready", prepare)
        here, there = (f"{self.name}{end}{os.getpid()}"[:15] for end in "ab")
        in_switch = ("nsenter", f"--target={self.switch}", "--net", "ip", "link")
        with suppress(UnavailableError):  # that of before a boot, which may not have gone yet
            _checked(*in_switch, "delete", there)
        _checked("ip", "link", "add", here, "type", "veth", "peer", "name", there)
        _checked("ip", "link", "set", there, "netns", str(self.switch))
        _checked(*in_switch, "set", there, "master", "bridge", "up")
        _checked("ip", "link", "set", here, "netns", str(self.init))
        self.run("ip", "link", "set", here, "name", "eth0")
        self.run("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        for card in ("eth0", "lo"):
            self.run("ip", "link", "set", card, "up")

    def start(self, *command: str) -> subprocess.Popen:
        """Start a program on the machine; its output goes to a file."""
        inside = ["nsenter", f"--target={self.init}", "--net", "--uts", "--mount", "--pid"]
        own = {"HOME": str(self.folder / "home"), "ENCODERLAB_CACHE": str(self.folder / "cache")}
        environment = {**os.environ, **ENVIRONMENT, **own}
        with self.output.open("wb") as file:
            line = [*inside, "sh", "-c", 'cd "$0" && exec "$@"', str(self.work), *command]
            streams = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file}
            return subprocess.Popen(line, env=environment, start_new_session=True, **streams)

    def run(self, *command: str) -> None:
        """Run a short command as root of the machine. Raises UnavailableError if it fails."""
        _checked("nsenter", f"--target={self.init}", "--net", "--uts", "--mount", "--pid", *command)

    def signal(self, name: str) -> None:
        """Send a signal to all its processes, if any, except the first: STOP freezes it."""
        with suppress(UnavailableError):
            self.run("sh", "-c", f"kill -{name} -1")

    def lose_power(self) -> None:
        """Stop it at once: no more bytes are sent, and no process survives."""
        with suppress(UnavailableError):  # it is off already
            self.run("ip", "link", "set", "eth0", "down")
        self.outer.kill()
        self.outer.wait()


@contextmanager
def two_machines(folder: Path) -> Iterator[list[Machine]]:
    """Yield two machines that share a run folder. Raises UnavailableError if that is impossible here."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if not sys.platform.startswith("linux") or os.geteuid() != 0 or missing:
        raise UnavailableError(f"machines need Linux, root and {', '.join(TOOLS)}")
    folder.mkdir(parents=True, exist_ok=True)
    hosts = folder / "hosts"
    addresses = {name: f"10.77.0.{number}" for number, name in enumerate(NAMES, start=1)}
    lines = [f"{address} {name}\n" for name, address in addresses.items()]
    hosts.write_text("".join(["127.0.0.1 localhost\n", *lines]), encoding="utf-8")
    with ExitStack() as up:
        bridge = "ip link add bridge type bridge; ip link set bridge up"
        outer, switch = _namespaces(folder / "ready", bridge)
        up.callback(outer.kill)
        machines = []
        for name, address in addresses.items():
            machines.append(Machine(folder / name, address, hosts, switch))
            up.callback(machines[-1].lose_power)
        yield machines


def _namespaces(ready: Path, prepare: str) -> tuple[subprocess.Popen, int]:
    """Create namespaces; return the process that holds them here, and the first one inside. Raises UnavailableError."""
    ready.unlink(missing_ok=True)
    namespaces = ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc"]
    # The shell is the first process: it reaps those whose parents are gone.
    first = ["sh", "-c", f"set -e; {prepare}; touch '{ready}'; while :; do sleep 3600 || :; done"]
    quiet = {"start_new_session": True, "stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    outer = subprocess.Popen(["setpriv", "--pdeathsig=KILL", *namespaces, *first], **quiet)
    until = time.monotonic() + START_SECONDS
    while not ready.exists():
        if outer.poll() is not None or time.monotonic() > until:
            outer.kill()
            raise UnavailableError("namespaces cannot be created here")
        time.sleep(POLL_SECONDS)
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text(encoding="utf-8")
    return outer, int(children.split()[0])


class Launch:
    """A run started on both machines, with `per_machine` processes on each."""

    def __init__(self, machines: Sequence[Machine], per_machine: int, *words: str) -> None:
        self.machines = machines
        place = ["--rdzv-backend=c10d", f"--rdzv-endpoint={NAMES[0]}:29500", f"--rdzv-id=trial-{next(_ids)}"]
        size = ["--nnodes=2", f"--nproc-per-node={per_machine}"]
        line = [sys.executable, "-m", "torch.distributed.run", *size, *place, "-m", "encoderlab", *words]
        self.processes = [machine.start(*line) for machine in machines]

    def wait(self) -> str:
        """Wait until both have ended, and end what still runs. Returns what is wrong; "" if nothing is."""
        failures = []
        for machine, process in zip(self.machines, self.processes, strict=True):
            with suppress(subprocess.TimeoutExpired):
                process.wait(ENOUGH)
            if process.poll() != 0:
                failures.append(f"{machine.name} ended with {process.poll()}: {_last_line(machine)}")
        self.end()
        return "; ".join(failures)

    def end(self) -> None:
        """End whatever still runs."""
        for machine, process in zip(self.machines, self.processes, strict=True):
            if process.poll() is None:
                process.kill()
                process.wait()
            if machine.outer.poll() is None:
                machine.signal("KILL")


def equal(conditions: Conditions) -> Iterator[Trial]:
    """Train on two machines, evaluate the run there, and resume it from its middle; compare with one process."""
    for per_machine, sharding in conditions.select(list(product((1, 2), ("none", "full")))):
        with two_machines(conditions.scratch / f"equal-{per_machine}-{sharding}") as machines:
            first = machines[0]
            many = machines[0].work / "many"
            alone = first.start(sys.executable, "-m", "encoderlab", "train", *SETTINGS, "run_dir=one").wait(ENOUGH)
            failure = f"one process ended with {alone}: {_last_line(first)}" if alone else ""
            words = ("train", *SETTINGS, f"training.sharding={sharding}", "run_dir=many")
            failure = failure or Launch(machines, per_machine, *words).wait() or _unlike(many, first.work / "one")
            failure = failure or _scored_otherwise(machines, per_machine) or _resumed_otherwise(machines, per_machine)
        yield Trial(f"{per_machine} processes on each machine, sharding={sharding}", failure)


def lost(conditions: Conditions) -> Iterator[Trial]:
    """Let a machine fail: the other must end, nothing saved is lost, and resume=auto ends like undisturbed."""
    words = ("train", *SETTINGS, "model.dropout=0.1", "run_dir=run")
    with two_machines(conditions.scratch / "lost") as machines:
        run = machines[0].work / "run"
        failure = Launch(machines, 1, *words).wait()
        assert not failure, failure
        reference = outcome(run)
        for name, (strike, mend) in [list(FAULTS.items())[place] for place in conditions.select(range(len(FAULTS)))]:
            shutil.rmtree(run)
            launch = Launch(machines, 1, *words)
            while launch.processes[0].poll() is None and newest_step(run) < MIDDLE // 2:
                time.sleep(POLL_SECONDS)
            strike(machines)
            saved = newest_step(run)
            struck = time.monotonic()
            with suppress(subprocess.TimeoutExpired):
                launch.processes[0].wait(NOTICED)
            code = launch.processes[0].poll()
            seconds = time.monotonic() - struck
            launch.end()
            mend(machines)
            failure = "" if code else f"the first machine ended with {code} after {seconds:.0f} s"
            failure = failure or ("" if newest_step(run) >= saved else f"the checkpoint of step {saved} is gone")
            failure = failure or Launch(machines, 1, *words, "resume=auto").wait()
            yield Trial(f"{name}: ended after {seconds:.0f} s", failure or difference(outcome(run), reference))


Act = Callable[[Sequence[Machine]], Any]
FAULTS: dict[str, tuple[Act, Act]] = {
    "a machine without power": (lambda machines: machines[1].lose_power(), lambda machines: machines[1].boot()),
    "a frozen machine": (lambda machines: machines[1].signal("STOP"), lambda machines: None),
    "a cable that is cut": (
        lambda machines: machines[1].run("ip", "link", "set", "eth0", "down"),
        lambda machines: machines[1].run("ip", "link", "set", "eth0", "up"),
    ),
}


def _scored_otherwise(machines: Sequence[Machine], per_machine: int) -> str:
    """Evaluate the run on both machines and in one process: the scores must be identical to the last bit."""
    words = ("eval", "run=many", "threads=1", "precision=fp32")
    first = machines[0]
    failure = Launch(machines, per_machine, *words, "run_dir=by-many").wait()
    failure = failure or (first.start(sys.executable, "-m", "encoderlab", *words, "run_dir=by-one").wait(ENOUGH) or "")
    if failure:
        return f"eval failed: {failure}: {_last_line(first)}"
    reports = [json.loads((first.work / name / "report.json").read_bytes()) for name in ("by-many", "by-one")]
    return "" if reports[0]["splits"] == reports[1]["splits"] else "other scores than those of one process"


def _resumed_otherwise(machines: Sequence[Machine], per_machine: int) -> str:
    """Remove everything after a checkpoint in mid-run, as a kill would have, and resume: the run must end as it did."""
    run = machines[0].work / "many"
    reference = outcome(run)
    for checkpoint in (run / "checkpoints").glob("step-*"):
        if int(checkpoint.name.removeprefix("step-")) > MIDDLE:
            shutil.rmtree(checkpoint)
    for path in (run / "model", run / "plots"):
        shutil.rmtree(path, ignore_errors=True)
    (run / "report.json").unlink()
    return Launch(machines, per_machine, "train", "resume=many").wait() or difference(outcome(run), reference)


def _unlike(run: Path, other: Path) -> str:
    """Return how two runs differ beyond the rounding of sums; "" if not at all."""
    if not finished(run):
        return "it did not finish"
    for line, like in zip(_steps(run), _steps(other), strict=True):
        if line.keys() != like.keys() or abs(line["loss"] - like["loss"]) > ROUNDING * abs(like["loss"]):
            return f"{line} instead of {like}"
    return ""


def _steps(run: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    steps = [line for line in lines if line["kind"] == "step"]
    return [{name: value for name, value in line.items() if name not in OF_THE_CLOCK} for line in steps]


def _last_line(machine: Machine) -> str:
    lines = [line for line in machine.output.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("encoderlab:")]
    return (ours or lines or ["nothing was printed"])[-1]


def _checked(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(f"{' '.join(command)} failed: {done.stderr.strip()}")
