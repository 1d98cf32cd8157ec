"""A process that has loaded everything once and forks a child per trial; starting Python would take seconds."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from faults.shim import Action, Fault, arm, library

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT = 120.0  # seconds for one child; many times what one needs
POLL = 0.0005  # seconds between two checks of the children
ENVIRONMENT = {  # of every child
    **{"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
    "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]),
}


@dataclass(frozen=True, slots=True)
class Sent:
    """A signal sent `after` this many seconds, to the child or to its whole group."""

    after: float
    signal: int
    group: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """The job of a child: `work` is module:function, called with `arguments`.

    A `fault` strikes in calls below the folder `below`, and all those calls are recorded in `journal`.
    """

    work: str
    arguments: dict[str, Any]
    below: str | None = None
    fault: Fault | None = None
    journal: str | None = None
    signals: tuple[Sent, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: its exit code (negative: the signal that killed it), its output and its seconds."""

    code: int
    output: str
    seconds: float

    @property
    def lines(self) -> list[str]:
        """Return its output lines, without empty ones."""
        return [line for line in self.output.splitlines() if line.strip()]

    @property
    def last_line(self) -> str:
        """Return the last line of its output."""
        return self.lines[-1] if self.lines else "nothing was printed"


class Host:
    """The process, with `modules` imported; use it as a context manager. Raises UnavailableError without a compiler."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._command = [sys.executable, "-m", "faults.host", *modules]
        self._environment = {**os.environ, **ENVIRONMENT, "LD_PRELOAD": str(library())}

    def __enter__(self) -> Host:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(self._command, env=self._environment, text=True, cwd=Path.home(), **pipes)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait()

    def run(self, job: Job) -> Ended:
        """Fork a child for the job and wait until it has ended."""
        return self.run_together([job])[0]

    def run_together(self, jobs: Sequence[Job]) -> list[Ended]:
        """Fork a child for each job in the same instant, and wait until all have ended."""
        print(json.dumps([asdict(job) for job in jobs]), file=self._process.stdin, flush=True)
        reply = self._process.stdout.readline()
        assert reply, f"the host has ended: {self._process.wait()}"
        return [Ended(**ended) for ended in json.loads(reply)]


def serve() -> None:
    """In the host: load the modules named by the arguments, then do jobs from standard input, a line of JSON each."""
    for name in sys.argv[1:]:
        import_module(name)
    gc.freeze()
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # so that nothing printed here gets between the replies
    for line in sys.stdin:
        children = [_Child(job) for job in json.loads(line)]
        while sum(child.is_running() for child in children):
            time.sleep(POLL)
        print(json.dumps([child.ended() for child in children]), file=replies, flush=True)


class _Child:
    """A forked child, in a group of its own, so that a signal to the group does not end this host."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.output: IO[str] = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 (closed by `ended`)
        self.started = time.perf_counter()
        self.code = None
        self.seconds = 0.0
        self.process = os.fork()
        if self.process == 0:
            _work(job, self.output.fileno())
        with suppress(PermissionError, ProcessLookupError):  # the child does the same, whichever comes first
            os.setpgid(self.process, self.process)
        killed = {"after": TIMEOUT, "signal": signal.SIGKILL, "group": True}
        self.due = [*sorted(job["signals"], key=lambda sent: sent["after"]), killed]

    def is_running(self) -> bool:
        """Send what is due, and return whether the child still runs. One that does not end is killed."""
        if self.code is not None:
            return False
        ended, status = os.waitpid(self.process, os.WNOHANG)
        self.seconds = time.perf_counter() - self.started
        if ended:
            self.code = os.waitstatus_to_exitcode(status)
        elif self.due and self.seconds >= self.due[0]["after"]:
            sent = self.due.pop(0)
            with suppress(ProcessLookupError):  # it ended after our last check
                (os.killpg if sent["group"] else os.kill)(self.process, sent["signal"])
        return not ended

    def ended(self) -> dict[str, Any]:
        """Return how it ended."""
        with self.output:
            self.output.seek(0)
            return {"code": self.code, "output": self.output.read(), "seconds": self.seconds}


def _work(job: dict[str, Any], output: int) -> None:
    """In the child, do the job and end as a program would, without the parent's cleanup."""
    from encoderlab.errors import UserError

    os.setpgid(0, 0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, source in ((0, nothing), (1, output), (2, output)):
        os.dup2(source, descriptor)
    code = 0
    try:
        module, _, name = job["work"].partition(":")
        work = getattr(import_module(module), name)
        if job["below"] is not None:
            fault = job["fault"] or {"action": Action.count}
            journal = Path(job["journal"]) if job["journal"] else None
            arm(Path(job["below"]), Fault(**{**fault, "action": Action(fault["action"])}), journal)
        work(**job["arguments"])
    except UserError as error:
        print(f"encoderlab: {error}", file=sys.stderr)
        code = error.exit_code
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1 if error.code else 0
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
