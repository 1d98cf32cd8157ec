"""Signals: Ctrl-C, SIGTERM and a closed terminal end the program at a point where no work is lost; a second one ends it
at once.

A signal sets a flag. Work that can be saved asks for the flag between steps and between scoring batches; all other work
ends at once. `Interrupted` is not an `Exception`, so nothing that handles errors swallows it. A signal that arrives
during an import waits for its end: C++ code that calls Python as it loads aborts on an exception.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from threading import Event, Thread
from types import FrameType

from encoderlab.errors import UserError
from encoderlab.system.processes import SINGLE_PROCESS, Processes

IMPORT_SECONDS = 0.02  # between two checks whether an import has ended
PASS_ON_SECONDS = 0.1  # between two notices to workers, because one may have started in between
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
    has_workers = False
    is_worker = False  # the process that has started this one passes signals on to it


@contextmanager
def signals_handled() -> Iterator[None]:
    """Turn the first signal into `Interrupted`, at once or when `deferred` work checks for it; the second ends the
    process.

    A signal that is already ignored, such as SIGHUP under nohup, stays ignored.
    """
    before = {number: signal.getsignal(number) for number in _numbers()}
    _handle()
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


def _handle() -> None:
    for number in _numbers():
        if signal.getsignal(number) not in (signal.SIG_IGN, None):  # None: not set by Python
            signal.signal(number, _on_signal)


def _heeded() -> set[int]:
    return {number for number in _numbers() if signal.getsignal(number) is _on_signal}


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


@contextmanager
def signals_passed_on(promise: str) -> Iterator[Callable[[], None]]:
    """Pass signals on to workers and handle them here only when the work is done; a second signal also kills the
    workers.

    Yields a function to call before the first worker is started, if any. From then on signals are blocked, in the
    workers from their very beginning, until they enter `signals_for_worker`: a signal would kill one that is still
    starting, and joblib then kills the others in the midst of their saving. A thread checks for signals, because the
    main one may wait for the workers in a call that ends for no signal. Raises Interrupted at the end. Without signal
    masks, as on Windows, nothing is passed on.
    """
    ended = Event()
    listener = Thread(target=_pass_on, args=(ended,), daemon=True)

    def begin() -> None:
        if _Received.has_workers or not hasattr(signal, "pthread_sigmask"):
            return
        _Received.has_workers, _Received.is_deferred, _Received.promise = True, True, promise
        # up to Python 3.13, starting it unblocks signals; it would start with the first worker
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, _heeded())
        listener.start()

    try:
        yield begin
    except Exception as error:
        if not is_interrupted() or isinstance(error, UserError):
            raise
    finally:
        if _Received.has_workers:
            ended.set()
            listener.join()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _heeded())
            _Received.has_workers = _Received.is_deferred = False
    stop_if_interrupted()


def _pass_on(ended: Event) -> None:
    while not ended.wait(PASS_ON_SECONDS):
        if signal.sigpending() & _heeded():
            _on_signal(signal.sigwait(_heeded()), None)
        if _Received.number is not None:
            _tell_workers(_Received.number)


def _tell_workers(number: int) -> None:
    for worker in multiprocessing.active_children():
        with suppress(ProcessLookupError):
            assert worker.pid is not None  # they have been started
            os.kill(worker.pid, number)


@contextmanager
def signals_for_worker() -> Iterator[None]:
    """Turn the first signal that this worker ever gets, even earlier, into `Interrupted`; it ignores further ones.

    Afterwards it keeps recording them until the process ends, because it has no work left.
    """
    if not _Received.is_worker:
        _Received.is_worker = _Received.is_deferred = True
        _handle()
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _heeded())
    try:
        _Received.is_deferred = False
        stop_if_interrupted()
        yield
    finally:
        _Received.is_deferred = True


def _on_signal(number: int, frame: FrameType | None) -> None:
    if _Received.number is not None:
        if (
            not _Received.is_worker and UNDER_TORCHRUN not in os.environ
        ):  # these get again what the terminal has sent to all
            if _Received.has_workers:
                _tell_workers(signal.SIGKILL)
            os._exit(128 + number)
        return
    _Received.number = number
    if not _Received.is_deferred:
        _raise_unless_importing(0, frame)
        return
    if _Received.is_worker:
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
