"""What a process knows of the others that work on the same run: how many there are, which one it is, and how they agree.

They talk through PyTorch's own process group, and say what went wrong through its store, which outlives any of them. Alone, all of
this is free, and nothing of it is loaded. `torchrun.py` says how they come together.

The processes of a run are one value, handed down from the command line like device and seed. It adds up, collects, lets the main
process go first, and says when a process is lost. Losses are divided by the number of targets in all processes, counted on the host
in the one small message of a step, which also carries the wish to stop. The main process scores an evaluation from what all have
collected, in the order that one process would have used. A run of several processes ends without Python's own shutdown, during
which a thread of PyTorch's process group can abort it (`Processes.end`).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from encoderlab.errors import TrainingError, UserError

if TYPE_CHECKING:
    from torch import Tensor

PATIENCE_SECONDS = 5  # to learn whether the first process says the same
POLL_SECONDS = 0.05
SIGNS = ("gloo", "NCCL", "nccl", "Connection closed by peer", "Connection reset", "Broken pipe", "DistBackendError", "TCPStore")
Answer = TypeVar("Answer")


class FailedElsewhereError(Exception):
    """Another process has failed, and said why: this one ends with the same `exit_code` and says nothing."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


class ProcessLostError(TrainingError):
    """Another process of the run has gone without a word, or answers no more."""


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes of a run, and this one's place among them.

    `rank` counts over all machines, `local_rank` over the `local_size` processes of this one, which is number `machine`. Apart from
    `rank` and what depends on it, all processes must call the same methods in the same order: each waits for the others.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    machine: int = 0
    store: Any = field(default=None, repr=False, compare=False)
    turns: list[None] = field(default_factory=list, repr=False, compare=False)  # one for each time that the first went alone

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes and speaks for all."""
        return self.rank == 0

    def all_reduce_sum(self, numbers: Sequence[int]) -> list[int]:
        """Each number summed over all processes. They wait for one another, and not for their devices."""
        if self.size == 1:
            return list(numbers)
        import torch

        return self.sum(torch.tensor(numbers, dtype=torch.int64)).tolist()

    def sum(self, tensor: Tensor) -> Tensor:
        """The tensor summed over all processes, in place and on its device."""
        if self.size > 1:
            import torch.distributed

            torch.distributed.all_reduce(tensor)
        return tensor

    def all_reduce_max(self, number: int) -> int:
        """The largest of the processes' numbers."""
        if self.size == 1:
            return number
        import torch
        import torch.distributed

        found = torch.tensor(number, dtype=torch.int64)
        torch.distributed.all_reduce(found, torch.distributed.ReduceOp.MAX)
        return int(found)

    def gather(self, mine: Answer) -> list[Answer] | None:
        """What each process has, by rank, on the first; None on the others."""
        if self.size == 1:
            return [mine]
        import torch.distributed

        found: list[Answer] | None = [mine] * self.size if self.is_main else None
        torch.distributed.gather_object(mine, found)
        return found

    def broadcast_from_main(self, make: Callable[[], Answer]) -> Answer:
        """What `make` gives on the first process, on all. What it raises ends the others too."""
        if self.size == 1:
            return make()
        import torch.distributed

        made = [make() if self.is_main else None]
        torch.distributed.broadcast_object_list(made, device=torch.device("cpu"))
        return cast("Answer", made[0])

    @contextmanager
    def entered_by_main(self, make: Callable[[], AbstractContextManager[Answer]]) -> Iterator[Answer]:
        """Only the first process enters what `make` makes, and leaves it at the end; all have what it gives."""
        with ExitStack() as entered:
            yield self.broadcast_from_main(lambda: entered.enter_context(make()))

    def broadcast_tensors(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite the tensors, on their devices, with those of the first process."""
        if self.size == 1:
            return
        import torch.distributed

        for tensor in tensors:
            torch.distributed.broadcast(tensor, 0)

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """The first process does the enclosed work, then one of each other machine, then all others: each finds it done.

        They wait as long as it takes.
        """
        if self.size == 1:
            yield
            return
        self.turns.append(None)
        turn = len(self.turns)
        if not self.is_main:
            self._wait_for(f"turn {turn} first" if self.local_rank == 0 else f"turn {turn} machine {self.machine}")
        yield
        if self.is_main:
            self.store.set(f"turn {turn} first", "done")
        if self.local_rank == 0:
            self.store.set(f"turn {turn} machine {self.machine}", "done")

    def _wait_for(self, key: str) -> None:
        while not self.store.check([key]):
            self._end_with_others()
            time.sleep(POLL_SECONDS)

    def _end_with_others(self) -> None:
        """Raise FailedElsewhereError if another process has said why it ends."""
        if self.store.check(["failed"]):
            raise FailedElsewhereError(int(self.store.get("failed")))

    @contextmanager
    def watched(self, remedy: str) -> Iterator[None]:
        """Raise ProcessLostError, with `remedy`, where another process is lost during the enclosed work.

        Raises FailedElsewhereError where that one has said why it ends.
        """
        try:
            yield
        except RuntimeError as error:
            if self.size == 1 or not any(sign in str(error) for sign in SIGNS):
                raise
            raise self._gone(error, remedy) from None

    def _gone(self, error: RuntimeError, remedy: str) -> Exception:
        try:
            self._end_with_others()
            if self.store.add("gone", 1) > 1:
                return FailedElsewhereError(ProcessLostError.exit_code)
        except FailedElsewhereError as failed:
            return failed
        except RuntimeError:
            pass  # the store has gone as well
        how = "answers no more" if "imed out" in str(error) else "has gone"
        return ProcessLostError(f"One of the {self.size} processes of this run {how}", remedy=remedy)

    def announce(self, error: BaseException, exit_code: int) -> bool:
        """Let the others know that this process ends with `exit_code`; whether it is to say why.

        The first process always is, and any other what the first does not say too.
        """
        if self.store is None:  # alone, or not met yet
            return True
        try:
            if not self.is_main and isinstance(error, UserError) and not isinstance(error, ProcessLostError):
                return not self._said_by_first(str(error))
            if self.is_main:
                self.store.set("said", str(error))
            return True
        except RuntimeError:  # the store has gone
            return True
        finally:
            with suppress(RuntimeError):
                self.store.set("failed", str(exit_code))

    def _said_by_first(self, line: str) -> bool:
        for _ in range(int(PATIENCE_SECONDS / POLL_SECONDS)):
            if self.store.check(["said"]):
                return self.store.get("said").decode() == line
            time.sleep(POLL_SECONDS)
        return False

    def leave(self) -> None:
        """Part from the others: from here on each process goes its own way."""
        if self.size > 1:
            import torch.distributed

            if torch.distributed.is_initialized():
                torch.distributed.destroy_process_group()

    def end(self, exit_code: int) -> None:
        """End this process, unless it is alone and all went well.

        One of several skips what Python does at its end: a thread of PyTorch's process group that gives a tensor back just then
        aborts the process (pytorch/pytorch#190489), and modules and caches of PyTorch keep the group, so that leaving it does not
        end its threads.
        """
        if self.size > 1:
            for stream in (sys.stdout, sys.stderr):
                with suppress(BrokenPipeError):
                    stream.flush()
            os._exit(exit_code)
        if exit_code:
            sys.exit(exit_code)


SINGLE_PROCESS = Processes()


@contextmanager
def speaking_for_all(processes: Processes) -> Iterator[None]:
    """During the enclosed work, only what the first process writes to standard output and error reaches the user."""
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
