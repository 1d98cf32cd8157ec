"""A process that has loaded everything once and forks a child for each trial; starting Python for each would take
seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.processes import ROOT
from faults.shim import Fault, library

TIMEOUT = 120.0  # seconds for one child; many times what one needs


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
    timeout: float = TIMEOUT


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
        return self.lines[-1] if self.lines else "nothing was printed"


class Host:
    """The process, with `modules` imported; use it as a context manager. Raises UnavailableError without a compiler."""

    def __init__(self, modules: Sequence[str], *, environment: dict[str, str] | None = None) -> None:
        self._command = [sys.executable, "-m", "faults.forked", *modules]
        one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self._environment = {
            **os.environ,
            **one_thread,
            **(environment or {}),
            "LD_PRELOAD": str(library()),
            "PYTHONPATH": path,
        }

    def __enter__(self) -> Host:
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path.home(),
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait()

    def run(self, job: Job) -> Ended:
        """Fork a child for the job and wait until it has ended."""
        print(json.dumps(asdict(job)), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, f"the host has ended: {self._process.wait()}"
        return Ended(**json.loads(answer))
