"""The processes of a run: how many there are, which one this is, and how they communicate.

`torchrun` starts them, restarts them and reports those it loses; they talk through `torch.distributed`. They are one
value, passed down from the command line like device and seed. In a single process all of this is free, and PyTorch is
not even loaded.

Losses are divided by the number of targets in all processes, counted on the host in the one small message of a step,
which also carries the wish to stop. The main process scores an evaluation from what all have collected, in the order
that one process would have used.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

from encoderlab.errors import SettingError, TrainingError

if TYPE_CHECKING:
    from torch import Tensor

TIMEOUT = timedelta(minutes=10)  # at a synchronisation point: longer than any work that only one process does there
POLL_SECONDS = 0.05
MAIN_ENDS_SECONDS = 5  # before a process that has failed tells the user, in case the main process does
LOST_CONNECTION = ("gloo", "nccl", "connection", "broken pipe", "tcpstore", "timed out")  # in errors of collectives
Value = TypeVar("Value")


class ConnectionLostError(TrainingError):
    """The connection to another process has closed, or that process has not come in time."""


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes of a run, and this one's place among them.

    `rank` counts over all machines, `local_rank` over the `local_size` processes of this one, number `machine`. Apart
    from `rank` and what depends on it, all processes must call the same methods in the same order: each waits for the
    others.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    machine: int = 0
    restarted: bool = False  # torchrun restarted one of them after a failure, as `--max-restarts` allows
    stay: bool = False  # another run follows, so the end of one does not end the process group
    store: Any = field(default=None, repr=False, compare=False)
    turns: list[None] = field(default_factory=list, repr=False, compare=False)  # one for each `main_process_first`

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

    def all_reduce_max(self, number: int) -> int:
        """Return the largest of the processes' numbers."""
        if self.size == 1:
            return number
        import torch.distributed

        largest = torch.tensor(number, dtype=torch.int64)
        torch.distributed.all_reduce(largest, torch.distributed.ReduceOp.MAX)
        return int(largest)

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

        values = [make() if self.is_main else None]
        torch.distributed.broadcast_object_list(values, device=torch.device("cpu"))
        return cast("Value", values[0])

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
        """Run the enclosed work on the main process, then on one process of each other machine, then on all others,
        which find it done. They wait as long as it takes.
        """
        if self.size == 1:
            yield
            return
        self.turns.append(None)
        turn = f"turn {len(self.turns)} of machine"
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
                f"Process {self.rank} of {self.size} has lost its connection to the others; torchrun reports which "
                "ended",
                remedy="Start the run again, with resume=auto to continue from its last checkpoint",
            ) from None

    def tells_user(self) -> bool:
        """Return whether this process, which ends with an error, tells the user so.

        The main process does. Another one does only if the main process does not end as well: most errors occur in all
        of them. A process that ended at once would make torchrun end the main one before it has said anything.
        """
        if self.store is None:  # a single process, or not connected yet
            return self.is_main
        with suppress(RuntimeError):
            if not self.is_main:
                self.store.wait(["main process ended"], timedelta(seconds=MAIN_ENDS_SECONDS))
                return False
            self.store.set("main process ended", "yes")
        return True

    def leave(self) -> None:
        """Leave the process group, unless they stay: from here on, each process is on its own."""
        if self.size > 1 and not self.stay:
            import torch.distributed

            if torch.distributed.is_initialized():
                torch.distributed.destroy_process_group()

    def end(self, exit_code: int) -> None:
        """End this process, unless it is the only one and everything went well.

        One of several skips what Python does at its end: a thread of PyTorch's process group that gives a tensor back
        just then aborts the process (pytorch/pytorch#190489).
        """
        if self.size > 1:
            for stream in (sys.stdout, sys.stderr):
                with suppress(BrokenPipeError):
                    stream.flush()
            os._exit(exit_code)
        if exit_code:
            sys.exit(exit_code)


SINGLE_PROCESS = Processes()


def processes_of_torchrun() -> Processes:
    """Return this process's place from torchrun's variables, not yet connected to the others; otherwise
    `SINGLE_PROCESS`.

    Raises SettingError for variables that are missing or not numbers.
    """
    restarted = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
    try:
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return replace(SINGLE_PROCESS, restarted=restarted)
        rank, size, local_rank, local_size, _ = (
            int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT")
        )
        machine = int(os.environ.get("GROUP_RANK", "0"))
    except (KeyError, ValueError) as error:
        raise SettingError(
            f"Several processes need all of torchrun's environment variables ({error})",
            remedy="Start them with torchrun --standalone --nproc-per-node=2 -m encoderlab train, or unset WORLD_SIZE",
        ) from None
    return Processes(rank, size, local_rank, local_size, machine, restarted)


def connect(processes: Processes) -> Processes:
    """Return the same place, connected to all processes. Raises ConnectionLostError if they do not come."""
    if processes.size == 1:
        return processes
    import torch
    import torch.distributed as distributed

    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and distributed.is_nccl_available() else "gloo"
    with processes.connection_watched():
        rendezvous, prefix = distributed.rendezvous, distributed.PrefixStore  # pyright: ignore[reportPrivateImportUsage]
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
            os.close(before)
        os.close(nowhere)
