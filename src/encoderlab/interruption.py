"""Signals: Ctrl-C, SIGTERM and a closed terminal end the program where nothing is lost; a second one ends it at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from encoderlab.errors import UserError
from encoderlab.world import ALONE, World

IMPORT_SECONDS = 0.02  # between two looks whether an import has ended
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # by name: Windows has no SIGHUP
UNDER_TORCHRUN = "TORCHELASTIC_RUN_ID"  # an environment variable that it sets


class Interrupted(BaseException):
    """The user, or the system, has asked this program to end. No Exception: nothing that handles errors may swallow it."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(self.name)

    @property
    def name(self) -> str:
        """The signal's name."""
        return signal.Signals(self.number).name

    @property
    def exit_code(self) -> int:
        """What a shell is told: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + self.number


class _Received:
    """What has come in. A process has one table of signal handlers, and so one of these."""

    number: int | None = None
    is_deferred = False
    promise = ""
    is_raised = False


@contextmanager
def signals_handled() -> Iterator[None]:
    """Turn the first signal into `Interrupted`, at once or where `deferred` work asks for it; the second ends the process.

    A signal that is ignored already, as SIGHUP under nohup, stays so.
    """
    numbers = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    _Received.number, _Received.is_raised = None, False
    for number, handler in before.items():
        if handler not in (signal.SIG_IGN, None):  # None: set by something that is no Python
            signal.signal(number, _on_signal)
    try:
        yield
    except Exception as error:  # a library that is interrupted while it loads may report an error of its own
        if not _Received.is_raised or isinstance(error, UserError):
            raise
        raise Interrupted(_Received.number) from None
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


def is_interrupted() -> bool:
    """Whether a signal has come."""
    return _Received.number is not None


def stop_if_interrupted(world: World = ALONE) -> None:
    """A place at which deferred work can end. Raises Interrupted where a signal has come, to any process of the `world`."""
    number = world.most(_Received.number or 0)
    if number:
        raise Interrupted(number)


@contextmanager
def deferred(promise: str = "saving after this step") -> Iterator[None]:
    """Let signals wait until the enclosed work calls `stop_if_interrupted`, or ends; whoever sends one is told the `promise`."""
    _Received.is_deferred, _Received.promise = True, promise
    try:
        yield
    finally:
        _Received.is_deferred = False
    stop_if_interrupted()


def _on_signal(number: int, frame: FrameType | None) -> None:
    if _Received.number is not None:
        if UNDER_TORCHRUN not in os.environ:  # torchrun passes on what the terminal has sent to all already
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
    """Raise Interrupted, or wait with that while a module is imported: C++ that calls Python as it loads aborts."""
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
