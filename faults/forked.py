"""The other side of host.py: read jobs, a line of JSON each, and fork a child for each one."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from faults.shim import Action, Fault, arm

POLL = 0.0005  # seconds between two checks of a child


def main() -> None:
    """Load the modules given as arguments, then process jobs from standard input."""
    for name in sys.argv[1:]:
        import_module(name)
    gc.freeze()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # so that nothing printed here gets between the results
    for line in sys.stdin:
        job = json.loads(line)
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            started = time.perf_counter()
            child = os.fork()
            if child == 0:
                _work(job, output.fileno())
            os.setpgid(child, child)  # by whichever of the two comes first
            code = _waited(child, job, started)
            seconds = time.perf_counter() - started
            output.seek(0)
            print(json.dumps({"code": code, "output": output.read(), "seconds": seconds}), file=answers, flush=True)


def _work(job: dict[str, Any], output: int) -> None:
    """In the child, do the job and end as a program would, without the parent's cleanup."""
    from encoderlab.errors import UserError

    os.setpgid(0, 0)  # a separate group, so that a signal to the group does not end this host
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, source in ((0, nothing), (1, output), (2, output)):
        os.dup2(source, descriptor)
    code = 0
    try:
        module, _, name = job["work"].partition(":")
        work = getattr(import_module(module), name)
        if job["below"] is not None:
            fault = (
                Fault(**{**job["fault"], "action": Action(job["fault"]["action"])})
                if job["fault"]
                else Fault(Action.count)
            )
            arm(Path(job["below"]), fault, Path(job["journal"]) if job["journal"] else None)
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


def _waited(child: int, job: dict[str, Any], started: float) -> int:
    """Send the job's signals when they are due; return the exit code. A child that does not end is killed."""
    due = sorted(job["signals"], key=lambda sent: sent["after"])
    due.append({"after": job["timeout"], "signal": signal.SIGKILL, "group": True})
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.perf_counter() - started >= due[0]["after"]:
            sent = due.pop(0)
            if not due:
                print("faults: the child did not end and was killed", file=sys.stderr)
            _send(child, sent)
            due = due or [{"after": float("inf"), "signal": 0, "group": False}]
        time.sleep(POLL)


def _send(child: int, sent: dict[str, Any]) -> None:
    with suppress(ProcessLookupError):  # it ended after our last check
        (os.killpg if sent["group"] else os.kill)(child, sent["signal"])


if __name__ == "__main__":
    main()
