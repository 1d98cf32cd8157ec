"""A Slurm cluster from Debian's packages (slurm-wlm, munge): a controller, and a daemon on each of several machines of
namespaces.

The machines share a work folder, as in a cluster. All daemons end with the machines.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.processes import ROOT
from faults.machines.machine import Machine, machines
from faults.promise import UnavailableError

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch")
START_SECONDS = 60.0
POLL_SECONDS = 0.2
CONFIG = """ClusterName=trial
SlurmctldHost={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={sockets}/munge.socket,cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdTimeout=20
KillWait=30
JobRequeue=1
SchedulerParameters=batch_sched_delay=1,sched_min_interval=1
StateSaveLocation={folder}/state
SlurmdSpoolDir={sockets}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
{nodes}
PartitionName=trial Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Cluster:
    """A cluster that is up. Jobs are submitted on the first of its `nodes`, which share `folder`.

    `sockets` is a second folder, with a short path: Slurm refuses a job whose socket has a path of more than 108
    characters.
    """

    def __init__(self, nodes: list[Machine], folder: Path, sockets: Path) -> None:
        self.nodes, self.folder, self.sockets = nodes, folder, sockets

    def run(self, *command: str) -> str:
        """Run a command on the first node, in the shared folder, and return its output. Raises UnavailableError if it
        fails.
        """
        output = self.folder / "command.txt"
        output.unlink(missing_ok=True)
        code = self.nodes[0].start(command, output).wait()
        printed = output.read_text(encoding="utf-8")
        if code:
            raise UnavailableError(f"{' '.join(command)} failed: {printed.strip()}")
        return printed

    def submit(self, *arguments: str) -> int:
        """Submit a job with sbatch and return its number."""
        return int(self.run("sbatch", "--parsable", *arguments).split(";")[0])

    def state(self, job: int) -> str:
        """Return the state of a job: PENDING, RUNNING, COMPLETED, ..."""
        return self._field(job, "JobState")

    def reason(self, job: int) -> str:
        """Return why a job is in its state: Resources, launch_failed_requeued_held, ..."""
        return self._field(job, "Reason")

    def _field(self, job: int, name: str) -> str:
        fields = self.run("scontrol", "--oneliner", "show", "job", str(job)).split()
        return next(field.partition("=")[2] for field in fields if field.startswith(f"{name}="))

    def wait(self, job: int, states: set[str], seconds: float) -> str:
        """Return the job's state once it is one of `states`, or after this many seconds."""
        until = time.monotonic() + seconds
        while (state := self.state(job)) not in states and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        return state


@contextmanager
def cluster(number: int, scratch: Path) -> Iterator[Cluster]:
    """Yield a cluster with this many nodes for the enclosed work. Raises UnavailableError if that is impossible here."""
    missing = [daemon for daemon in DAEMONS if shutil.which(daemon) is None]
    if missing:
        raise UnavailableError(f"{', '.join(missing)} is not installed (Debian: slurm-wlm, munge)")
    with tempfile.TemporaryDirectory(prefix="slurm-") as sockets, machines(number, scratch) as nodes:
        up = Cluster(nodes, scratch / "shared", Path(sockets).resolve())
        _prepare(up)
        _start(up)
        yield up


def _prepare(up: Cluster) -> None:
    """Write the daemons' configuration, and let all nodes work in the shared folder."""
    nodes, folder = up.nodes, up.folder
    (folder / "state").mkdir(parents=True)
    (folder / "munge.key").write_bytes(secrets.token_bytes(128))
    (folder / "munge.key").chmod(0o600)
    lines = [f"NodeName={node.name} NodeAddr={node.address} CPUs=2 RealMemory=1000 State=UNKNOWN" for node in nodes]
    config = CONFIG.format(controller=nodes[0].name, folder=folder, sockets=up.sockets, nodes="\n".join(lines))
    (folder / "slurm.conf").write_text(config, encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for node in nodes:
        shutil.rmtree(node.work)
        node.work.symlink_to(folder, target_is_directory=True)
        node.variables = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": path}


def _start(up: Cluster) -> None:
    """Start the daemons, and wait until all nodes are idle."""
    folder, first = up.folder, up.nodes[0]
    munge = [
        f"--{name}={folder}/munge.{name.partition('-')[0]}"
        for name in ("key-file", "pid-file", "log-file", "seed-file")
    ]
    munge.append(f"--socket={up.sockets}/munge.socket")
    first.start(["munged", "--foreground", "--force", "--num-threads=2", *munge], folder / "munged.txt")
    _wait_for(lambda: (up.sockets / "munge.socket").exists(), folder / "munged.txt")
    first.start(["slurmctld", "-D", "-f", str(folder / "slurm.conf")], folder / "slurmctld.txt")
    for node in up.nodes:
        (up.sockets / f"spool-{node.name}").mkdir()
        node.start(["slurmd", "-D", "-f", str(folder / "slurm.conf")], folder / f"slurmd-{node.name}.txt")
    _wait_for(lambda: _idle(up) == len(up.nodes), folder / "slurmctld.log")


def _idle(up: Cluster) -> int:
    try:
        return up.run("sinfo", "--noheader", "--Node", "--format=%T").split().count("idle")
    except UnavailableError:  # the controller does not answer yet
        return 0


def _wait_for(ready: Callable[[], bool], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while not ready():
        if time.monotonic() > until:
            last = log.read_text(encoding="utf-8").splitlines()[-2:] if log.exists() else []
            raise UnavailableError(f"Slurm does not start: {' '.join(last)}")
        time.sleep(POLL_SECONDS)


def main() -> None:
    """Run the typed command on the first node of a new cluster of three nodes: scripts/slurm_cluster bash."""
    with tempfile.TemporaryDirectory(prefix="faults-") as scratch, cluster(3, Path(scratch).resolve()) as up:
        first = up.nodes[0]
        inside = [
            "nsenter",
            f"--target={first.init}",
            "--net",
            "--uts",
            "--mount",
            "--pid",
            *(sys.argv[1:] or ["bash"]),
        ]
        environment = {**os.environ, **first.variables, "PYTHONPATH": str(ROOT / "src")}
        sys.exit(subprocess.run(inside, env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
