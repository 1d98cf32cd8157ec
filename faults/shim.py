"""The preloaded library that counts the calls that change the disk, and breaks one of them; see shim.c."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path

from faults.promise import UnavailableError

SOURCE = Path(__file__).with_name("shim.c")


class Action(IntEnum):
    """What happens at the N-th call, in the order of shim.c; `halfway` is before the second half of a write."""

    count = 0
    signal_before = 1
    signal_after = 2
    signal_halfway = 3
    fail_from = 4
    fail_once = 5
    half_then_fail = 6
    always_half = 7


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong: at call `at`, with `value`, a signal or an error number; a signal may go to the whole group."""

    action: Action
    at: int = 0
    value: int = 0
    group: bool = False

    @property
    def words(self) -> str:
        """Return the fault in words, such as "fail from ENOSPC"."""
        number = signal.Signals(self.value).name if self.action.name.startswith("signal") else self.value
        return f"{self.action.name.replace('_', ' ')} {errno.errorcode.get(number, number or '')}".strip()


@dataclass(frozen=True, slots=True)
class Call:
    """A call: create, open, write, fsync, rename, mkdir, delete, truncate or link; renames have an `other` path."""

    number: int
    name: str
    path: str
    other: str

    @property
    def words(self) -> str:
        """Return the call in words, such as "write state.pt"."""
        return f"{self.name} {Path(self.path).name}"


@cache
def library() -> Path:
    """Return the compiled library, built once per process. Raises UnavailableError."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not sys.platform.startswith("linux"):
        raise UnavailableError("calls are counted on Linux only")
    if compiler is None:
        raise UnavailableError("there is no C compiler to build the counting library")
    made = Path(tempfile.mkdtemp(prefix="faults-")) / "shim.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(made), str(SOURCE), "-ldl"], check=True)
    return made


def arm(below: Path, fault: Fault, journal: Path | None = None) -> None:
    """Count this process's calls below a folder from now on, and break one. The library must have been preloaded."""
    shim = ctypes.CDLL(None)
    whom = 0 if fault.group else os.getpid()
    journal_path = None if journal is None else os.fsencode(journal)
    shim.faults_arm(
        os.fsencode(below.resolve()), int(fault.action), ctypes.c_long(fault.at), fault.value, whom, journal_path
    )


def calls_in(journal: Path) -> list[Call]:
    """Return the calls in a journal, in order."""
    if not journal.exists():
        return []
    fields = [line.split("\t") for line in journal.read_text(encoding="utf-8").splitlines()]
    return [Call(int(number), name, path, other) for number, name, path, other in fields]
