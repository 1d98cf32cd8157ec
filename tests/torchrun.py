"""Start several processes as a user does, with torchrun, and return what they printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
BESIDE_OURS = re.compile(
    r"^([WE]\d{4} |\*{5}|Setting OMP_NUM_THREADS)"
)  # what torchrun says itself before and when a process fails


def command_of(size):
    """Return the start of a command line that runs `size` processes on this machine."""
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"]


def environment(**variables):
    """Return the environment of a new process: it finds this source, and no trace of a torchrun that may run the tests."""
    kept = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return kept | {"PYTHONPATH": os.pathsep.join([str(SOURCE), *sys.path]), "OMP_NUM_THREADS": "1"} | variables


def torchrun(size, *arguments, folder, **variables):
    """Run `size` processes to their end; return exit code, standard output, and our own lines on standard error."""
    started = subprocess.Popen(
        [*command_of(size), *map(str, arguments)],
        cwd=folder,
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, errors = started.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        started.terminate()  # torchrun then ends its processes; killed, it would leave them behind
        raise
    return started.returncode, out, ours(errors)


def ours(stderr):
    """Return the lines that are not torchrun's own report of a failed run."""
    lines = stderr.partition("Traceback (most recent call last):\n  File")[0].splitlines()
    return [line for line in lines if line.strip() and not BESIDE_OURS.match(line)]
