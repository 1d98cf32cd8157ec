"""A machine: its own namespaces for network, host name, mounts and processes, and a home, a cache and a folder for
runs.

Its first process ends with the trial's process, and all others with the first: whatever happens here, nothing is left
behind.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.processes import ROOT
from faults.machines.network import Link, Port, Switch
from faults.promise import UnavailableError

NAMES = ("anna", "berta", "carla", "dora")
TOOLS = ("unshare", "nsenter", "setpriv", "ip", "mount", "hostname")
START_SECONDS = 10.0
POLL_SECONDS = 0.01
OF_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LD_PRELOAD", "ENCODERLAB_CACHE")


@dataclass(slots=True)
class Machine:
    """A machine that is up. `init` is the id of its first process in this namespace; `port` is its place at the
    `switch`.
    """

    name: str
    folder: Path
    address: str
    hosts: Path
    switch: Switch
    port: Port
    outer: subprocess.Popen
    init: int
    variables: dict[str, str] = field(default_factory=dict)  # of the programs started on it

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def work(self) -> Path:
        """Return the folder in which programs start."""
        return self.folder / "work"

    @property
    def python_path(self) -> str:
        """Return where Python finds this checkout, and what the trial finds."""
        return os.pathsep.join([str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])

    def start(self, command: Sequence[str], output: Path) -> subprocess.Popen:
        """Start a program on the machine; its output goes to the file `output`."""
        inside = ["nsenter", f"--target={self.init}", "--net", "--uts", "--mount", "--pid"]
        change_folder = ["sh", "-c", 'cd "$0" && exec "$@"', str(self.work)]
        with output.open("ab") as file:
            return subprocess.Popen(
                [*inside, *change_folder, *command],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def run(self, *command: str) -> str:
        """Run a short command as root of the machine and return its output. Raises UnavailableError if it fails."""
        return _checked("nsenter", f"--target={self.init}", "--net", "--uts", "--mount", *command)

    def processes(self) -> list[int]:
        """Return its processes, without the first."""
        mine = Path(f"/proc/{self.init}/ns/pid").readlink()
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):  # one has just ended
                if entry.name.isdecimal() and (entry / "ns" / "pid").readlink() == mine:
                    found.append(int(entry.name))
        return [process for process in found if process != self.init]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all its processes except the first: SIGSTOP freezes it."""
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def lose_power(self) -> None:
        """Stop it at once: no more bytes are sent, and no process survives."""
        self.port.link.cut = True
        self.outer.kill()
        self.outer.wait()

    def boot(self) -> None:
        """Start it again with an unchanged disk."""
        self.outer, self.init = _namespaces(self.folder, self.hosts)
        self.port.link = Link()
        self.port.replace(self.switch.open_card(_card(self.address)))
        self._connect()

    def inside(self, path: Path) -> Path:
        """Return a path as the machine sees it, which may have its own disk there."""
        return Path(f"/proc/{self.init}/root{path}")

    def mount_disk(self, at: Path, size: str) -> None:
        """Mount a new, empty disk of this size there, for as long as the machine is up."""
        self.run("mount", "-t", "tmpfs", "-o", f"size={size}", "disk", str(at))

    def _connect(self) -> None:
        _checked("ip", "link", "set", _card(self.address), "netns", str(self.init))
        self.run("ip", "link", "set", _card(self.address), "name", "eth0")
        hardware_address = f"02:00:00:00:00:{int(self.address.rpartition('.')[2]):02x}"  # the same after a boot
        self.run("ip", "link", "set", "eth0", "address", hardware_address)
        self.run("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")
        self.run("ip", "link", "set", "lo", "up")

    def _environment(self) -> Mapping[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in OF_TORCHRUN}
        own = {
            "HOME": str(self.home),
            "ENCODERLAB_CACHE": str(self.cache),
            "OMP_NUM_THREADS": "1",
            "MPLCONFIGDIR": str(self.home),
        }
        return {**kept, **own, "PYTHONPATH": self.python_path, "TOKENIZERS_PARALLELISM": "false", **self.variables}


@contextmanager
def machines(number: int, scratch: Path) -> Iterator[list[Machine]]:
    """Yield machines in one network for the enclosed work. Raises UnavailableError if that is impossible here."""
    _check_available()
    scratch.mkdir(parents=True, exist_ok=True)
    hosts = scratch / "hosts"
    lines = [f"{_address(place)} {name}" for place, name in enumerate(NAMES[:number])]
    hosts.write_text("127.0.0.1 localhost\n" + "\n".join(lines) + "\n", encoding="utf-8")
    with ExitStack() as up:
        switch = up.enter_context(Switch())
        yield [
            up.enter_context(_machine(place, scratch / name, switch, hosts))
            for place, name in enumerate(NAMES[:number])
        ]


@contextmanager
def _machine(place: int, folder: Path, switch: Switch, hosts: Path) -> Iterator[Machine]:
    for name in ("home", "cache", "work"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    outer, init = _namespaces(folder, hosts)
    address = _address(place)
    machine = Machine(folder.name, folder, address, hosts, switch, switch.plug(_card(address)), outer, init)
    try:
        machine._connect()
        yield machine
    finally:
        machine.outer.kill()
        machine.outer.wait()


def _namespaces(folder: Path, hosts: Path) -> tuple[subprocess.Popen, int]:
    """Create the namespaces of a machine; return the process that holds them here, and the first one inside."""
    ready = folder / "ready"
    ready.unlink(missing_ok=True)
    prepare = (
        f"hostname {folder.name}; mount --bind {shlex.quote(str(hosts))} /etc/hosts; touch {shlex.quote(str(ready))}"
    )
    namespaces = ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc"]
    # The shell is the first process: it reaps those whose parents are gone.
    line = [
        "setpriv",
        "--pdeathsig=KILL",
        *namespaces,
        "sh",
        "-c",
        f"set -e; {prepare}; while :; do sleep 3600 || :; done",
    ]
    outer = subprocess.Popen(line, start_new_session=True, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return outer, _first_process(outer, ready)
    except UnavailableError:
        outer.kill()
        raise


def _first_process(outer: subprocess.Popen, ready: Path) -> int:
    """Return the machine's first process, once it has prepared the machine."""
    for _ in range(int(START_SECONDS / POLL_SECONDS)):
        if ready.exists():
            children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text(encoding="utf-8").split()
            return int(children[0])
        if outer.poll() is not None:
            break
        time.sleep(POLL_SECONDS)
    raise UnavailableError("namespaces cannot be created here")


def _check_available() -> None:
    if not sys.platform.startswith("linux"):
        raise UnavailableError("machines require Linux namespaces")
    if os.geteuid() != 0:
        raise UnavailableError("machines require root, for namespaces and network cards")
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise UnavailableError(f"{', '.join(missing)} is not installed")


def _card(address: str) -> str:
    """Return the name of a machine's network card while it is in this namespace."""
    return f"fl{os.getpid()}-{address.rpartition('.')[2]}"[-15:]


def _address(place: int) -> str:
    return f"10.77.0.{place + 1}"


def _checked(*command: str) -> str:
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        raise UnavailableError(f"{' '.join(command)} failed: {found.stderr.strip()}")
    return found.stdout
