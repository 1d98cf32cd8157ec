"""The processes of a run: how many there are, which one this is, how they communicate, and the signals that end them.

`torchrun` starts them, restarts them and reports those it loses; they talk through `torch.distributed`. In a single
process all of this is free, and PyTorch is not even loaded. Apart from `rank` and what depends on it, all must call the
same methods in the same order: each waits for the others.

Ctrl-C, SIGTERM and a closed terminal end the program at a point where no work is lost; a second signal ends it at once.
The first sets a flag. Work that can be saved asks for the flag between steps and between scoring batches; all other
work ends at once. `Interrupted` is not an `Exception`, so nothing that handles errors swallows it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from encoderlab.errors import SettingError, TrainingError, UserError
from encoderlab.system.cores import let_waiting_threads_sleep

if TYPE_CHECKING:
    from torch import Tensor

TIMEOUT = timedelta(minutes=10)  # at a synchronisation point: longer than any work that only one process does there
POLL_SECONDS = 0.05
LOST_CONNECTION = ("gloo", "nccl", "connection", "broken pipe", "tcpstore", "timed out")  # in errors of collectives
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # by name: Windows has no SIGHUP
UNDER_TORCHRUN = "TORCHELASTIC_RUN_ID"  # an environment variable that it sets
Value = TypeVar("Value")
_turns = count(1)  # of `main_process_first`, which all processes call equally often


class ConnectionLostError(TrainingError):
    """The connection to another process has closed, or that process did not connect in time."""


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes of a run, and this one's place among them.

    `rank` counts over all machines, `local_rank` over the `local_size` processes of this one, number `machine`.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    machine: int = 0
    restarted: bool = False  # torchrun restarted one of them after a failure, as `--max-restarts` allows
    stay: bool = False  # another run follows, so the end of one does not end the process group
    store: Any = field(default=None, repr=False, compare=False)

    @property
    def is_main(self) -> bool:
        """Return whether this is the process that writes files and prints for all."""
        return self.rank == 0

    def all_reduce_sum(self, numbers: Sequence[int]) -> list[int]:
        """Return each number summed over all processes. They wait for one another, but not for their devices."""
        if self.size == 1:
            return list(numbers)
        import torch

        return self.sum(torch.tensor(numbers, dtype=torch.int64)).tolist()

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the tensor summed over all processes, in place and on its device."""
        if self.size > 1:
            import torch.distributed

            torch.distributed.all_reduce(tensor)
        return tensor

    def gather(self, mine: Value) -> list[Value] | None:
        """Return every process's value by rank, on the main process; None on the others."""
        if self.size == 1:
            return [mine]
        import torch.distributed

        values: list[Value] | None = [mine] * self.size if self.is_main else None
        torch.distributed.gather_object(mine, values)
        return values

    def broadcast_from_main(self, make: Callable[[], Value]) -> Value:
        """Return on all processes the result of `make` on the main process. An error there ends the others too."""
        if self.size == 1:
            return make()
        import torch.distributed

        values: list[Any] = [make() if self.is_main else None]
        torch.distributed.broadcast_object_list(values, device=torch.device("cpu"))
        return values[0]

    @contextmanager
    def entered_by_main(self, make: Callable[[], AbstractContextManager[Value]]) -> Iterator[Value]:
        """Enter the context from `make` on the main process only; yield its value on all processes."""
        with ExitStack() as entered:
            yield self.broadcast_from_main(lambda: entered.enter_context(make()))

    def broadcast_tensors(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite the tensors, on their devices, with those of the main process."""
        if self.size == 1:
            return
        import torch.distributed

        for tensor in tensors:
            torch.distributed.broadcast(tensor, 0)

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """Run the enclosed work on the main process, then on one of each other machine, then on the rest."""
        if self.size == 1:
            yield
            return
        turn = f"turn {next(_turns)} of machine"
        if not self.is_main:
            self._wait_for(f"{turn} 0")
            if self.local_rank:
                self._wait_for(f"{turn} {self.machine}")
        yield
        if self.local_rank == 0:
            self.store.set(f"{turn} {self.machine}", "done")

    def _wait_for(self, key: str) -> None:
        while not self.store.check([key]):  # in Python, where a signal can end it
            time.sleep(POLL_SECONDS)

    @contextmanager
    def connection_watched(self) -> Iterator[None]:
        """Raise ConnectionLostError if a collective of the enclosed work fails because another process has ended."""
        try:
            yield
        except RuntimeError as error:
            if self.size == 1 or not any(sign in str(error).lower() for sign in LOST_CONNECTION):
                raise
            raise ConnectionLostError(
                f"Process {self.rank} of {self.size} has lost its connection to the others; torchrun says which ended",
                remedy="Start the run again with resume=auto",
            ) from None

    def leave(self) -> None:
        """Leave the process group, unless they stay: from here on, each process is on its own."""
        if self.size > 1 and not self.stay:
            import torch.distributed

            if torch.distributed.is_initialized():
                torch.distributed.destroy_process_group()

    def end(self, exit_code: int) -> None:
        """End this process, unless it is the only one and all went well.

        One of several skips Python's own end, where a thread of PyTorch's may abort it (pytorch/pytorch#190489).
        """
        if self.size > 1:
            for stream in (sys.stdout, sys.stderr):
                with suppress(BrokenPipeError):
                    stream.flush()
            os._exit(exit_code)
        if exit_code:
            sys.exit(exit_code)


SINGLE_PROCESS = Processes()


def set_up_libraries() -> None:
    """Set, unless they are set, the variables that PyTorch reads as it loads, allocates or multiplies first.

    `import encoderlab` calls it, and so every program does before it loads PyTorch, unless that is imported first.
    """
    let_waiting_threads_sleep()
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # huge pages if available
    # PyTorch keeps the last 1,024 matrix products in bf16 that it has prepared, half a megabyte each, and oneDNN, below
    # it, keeps them again. With one instead of 1,024 in PyTorch's cache, steps are as fast
    # (benchmarks/results/bf16_memory.md).
    os.environ.setdefault("LRU_CACHE_CAPACITY", "1")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # any job of a sweep may need deterministic products
    if "WORLD_SIZE" in os.environ:  # DDP would warn that all parameters are used; see `training.distribution`
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    if sys.platform == "linux" and "PYTORCH_CUDA_ALLOC_CONF" not in os.environ:  # the older name of the same variable
        # Lengths differ from batch to batch, and fixed segments of a GPU's memory would be left in pieces that fit no
        # other batch.
        os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")


def processes_of_torchrun() -> Processes:
    """Return this process's place from torchrun's variables, not yet connected; without any, `SINGLE_PROCESS`.

    Raises SettingError for variables that are missing or not numbers.
    """
    restarted = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
    try:
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return Processes(restarted=restarted)
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT")
        rank, size, local_rank, local_size, _ = (int(os.environ[name]) for name in names)
        machine = int(os.environ.get("GROUP_RANK", "0"))
    except (KeyError, ValueError) as error:
        problem = f"Several processes need all of torchrun's environment variables ({error})"
        raise SettingError(problem, remedy="Start them with torchrun, or unset WORLD_SIZE") from None
    return Processes(rank, size, local_rank, local_size, machine, restarted)


def connect(processes: Processes) -> Processes:
    """Return the same place, connected to all processes. Raises ConnectionLostError if they did not connect in time."""
    if processes.size == 1:
        return processes
    import torch
    import torch.distributed as distributed

    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and distributed.is_nccl_available() else "gloo"
    with processes.connection_watched():
        rendezvous = distributed.rendezvous  # pyright: ignore[reportPrivateImportUsage]
        prefix = distributed.PrefixStore  # pyright: ignore[reportPrivateImportUsage]
        store, _, _ = next(rendezvous("env://", timeout=TIMEOUT))
        distributed.init_process_group(
            backend, store=store, rank=processes.rank, world_size=processes.size, timeout=TIMEOUT
        )
        # A process on a machine that was rebooted has not been restarted itself, and resumes with those that were.
        [restarted] = processes.all_reduce_sum([int(processes.restarted)])
    return replace(processes, store=prefix("encoderlab", store), restarted=restarted > 0)


@contextmanager
def only_main_prints(processes: Processes) -> Iterator[None]:
    """Let only the main process's standard output and error reach the user during the enclosed work."""
    if processes.is_main:
        yield
        return
    kept = [os.dup(1), os.dup(2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for stream, before in zip((1, 2), kept, strict=True):
            os.dup2(before, stream)


class Interrupted(BaseException):
    """The user, or the system, has asked this program to end. Not an Exception: no error handler may swallow it."""

    def __init__(self, number: int) -> None:
        self.name = signal.Signals(number).name
        self.exit_code = 128 + number  # as a shell expects it: 130 for Ctrl-C, 143 for SIGTERM
        super().__init__(self.name)


class _Received:
    """The signal received. A process has one table of signal handlers, and so one of these."""

    number: int | None = None
    is_deferred = False
    was_raised = False
    promise = ""


@contextmanager
def signals_handled() -> Iterator[None]:
    """Turn the first signal into `Interrupted`, at once or when `deferred` work asks; the second ends the process.

    A signal that is already ignored, such as SIGHUP under nohup, stays ignored. If a library turns the
    exception into an error of its own, it is raised again.
    """
    numbers = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler not in (signal.SIG_IGN, None):  # None: not set by Python
            signal.signal(number, _on_signal)
    try:
        yield
    except UserError:
        if _Received.was_raised and _Received.number is not None:
            raise Interrupted(_Received.number) from None
        raise
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
        _Received.number = None
        _Received.was_raised = False


def stop_if_interrupted(processes: Processes = SINGLE_PROCESS) -> None:
    """Raise Interrupted if a signal has arrived, at any of the `processes`: a point at which deferred work can end."""
    [received] = processes.all_reduce_sum([_Received.number is not None])
    if received:
        raise Interrupted(_Received.number or signal.SIGTERM)  # as torchrun ends a process whose fellow was stopped


@contextmanager
def deferred(promise: str = "saving after this step") -> Iterator[None]:
    """Make signals wait for `stop_if_interrupted`, or for the end; one that arrives prints the `promise`."""
    _Received.is_deferred = True
    _Received.promise = promise
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
    name = signal.Signals(number).name
    if _Received.is_deferred:
        again = "" if UNDER_TORCHRUN in os.environ else "; send it again to stop at once"
        os.write(2, f"\nencoderlab: {name}: {_Received.promise}{again}\n".encode())
    elif _is_importing(frame):  # C++ code that calls Python as it loads aborts on an exception
        os.write(2, f"\nencoderlab: stopped by {name}\n".encode())
        os._exit(128 + number)
    else:
        _Received.was_raised = True
        raise Interrupted(number)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_globals.get("__name__") != "importlib._bootstrap":
        frame = frame.f_back
    return frame is not None
