"""Several programs started in the same instant."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import traceback
from typing import IO


def race(commands: list[list[str]], folder: str) -> None:
    """In a child: fork once for each command, let all go at once, and print how each ended as a line of JSON."""
    gate, opened = os.pipe()
    with contextlib.ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile("w+", errors="replace")) for _ in commands]
        children = [_waiting(gate, opened, *each, folder) for each in zip(commands, outputs, strict=True)]
        os.close(opened)  # those waiting at the other end continue
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        for code, output in zip(codes, outputs, strict=True):
            output.seek(0)
            print(json.dumps({"code": code, "output": output.read(), "seconds": 0.0}))


def _waiting(gate: int, opened: int, command: list[str], output: IO[str], folder: str) -> int:
    """A forked child that waits at the gate and then runs the command."""
    from faults.running import type_command

    if child := os.fork():
        return child
    os.close(opened)
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    os.read(gate, 1)
    code = 0
    try:
        type_command(command, folder)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        os._exit(code)
