"""Signals: Ctrl-C, SIGTERM and a closed terminal end the program at a point where no work is lost; a second one ends it
at once.

A signal sets a flag. Work that can be saved asks for the flag between steps and between scoring batches; all other work
ends at once. `Interrupted` is not an `Exception`, so nothing that handles errors swallows it. A signal that arrives
during an import waits for its end: C++ code that calls Python as it loads aborts on an exception.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from encoderlab.errors import UserError
from encoderlab.system.processes import SINGLE_PROCESS, Processes

IMPORT_SECONDS = 0.02  # between two checks whether an import has ended
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # by name: Windows has no SIGHUP
UNDER_TORCHRUN = "TORCHELASTIC_RUN_ID"  # an environment variable that it sets


class Interrupted(BaseException):
    """The user, or the system, has asked this program to end. Not an Exception: no error handler may swallow it."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(self.name)

    @property
    def name(self) -> str:
        """Return the signal's name."""
        return signal.Signals(self.number).name

    @property
    def exit_code(self) -> int:
        """Return the exit code for the shell: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + self.number


class _Received:
    """The signals received. A process has one table of signal handlers, and so one of these."""

    number: int | None = None
    is_deferred = False
    promise = ""
    is_raised = False


@contextmanager
def signals_handled() -> Iterator[None]:
    """Turn the first signal into `Interrupted`, at once or when `deferred` work checks for it; the second ends the
    process.

    A signal that is already ignored, such as SIGHUP under nohup, stays ignored.
    """
    before = {number: signal.getsignal(number) for number in _numbers()}
    for number, handler in before.items():
        if handler not in (signal.SIG_IGN, None):  # None: not set by Python
            signal.signal(number, _on_signal)
    try:
        yield
    except Exception as error:  # a library interrupted while loading may report its own error
        if not _Received.is_raised or isinstance(error, UserError):
            raise
        assert _Received.number is not None
        raise Interrupted(_Received.number) from None
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
        _Received.number, _Received.is_raised = None, False


def _numbers() -> list[int]:
    return [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]


def is_interrupted() -> bool:
    """Return whether a signal has arrived."""
    return _Received.number is not None


def stop_if_interrupted(processes: Processes = SINGLE_PROCESS) -> None:
    """Raise Interrupted if a signal has arrived, at any of the `processes`: a point at which deferred work can end."""
    number = processes.all_reduce_max(_Received.number or 0)
    if number:
        raise Interrupted(number)


@contextmanager
def deferred(promise: str = "saving after this step") -> Iterator[None]:
    """Make signals wait until the enclosed work calls `stop_if_interrupted`, or ends; the `promise` is printed when one
    arrives.
    """
    _Received.is_deferred, _Received.promise = True, promise
    try:
        yield
    finally:
        _Received.is_deferred = False
    stop_if_interrupted()


def _on_signal(number: int, frame: FrameType | None) -> None:
    if _Received.number is not None:
        if UNDER_TORCHRUN not in os.environ:  # torchrun passes on what the terminal has sent to all of them already
            os._exit(128 + number)
        return
    _Received.number = number
    if not _Received.is_deferred:
        _raise_unless_importing(0, frame)
        return
    name = signal.Signals(number).name
    again = "" if UNDER_TORCHRUN in os.environ else "; send it again to stop at once"
    os.write(2, f"\nencoderlab: {name}: {_Received.promise}{again}\n".encode())


def _raise_unless_importing(_: int, frame: FrameType | None) -> None:
    """Raise Interrupted, but not during an import: C++ code that calls Python while loading would abort."""
    if _Received.is_deferred or _Received.number is None:
        return
    if hasattr(signal, "setitimer") and _is_importing(frame):
        signal.signal(signal.SIGALRM, _raise_unless_importing)
        signal.setitimer(signal.ITIMER_REAL, IMPORT_SECONDS)
        return
    _Received.is_raised = True
    raise Interrupted(_Received.number)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False
