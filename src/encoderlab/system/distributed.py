"""The processes of a run: how many there are, which one this is, and how they communicate.

They talk through PyTorch's own process group, and report failures through its store, which outlives any of them. Alone,
all of this is free, and nothing of it is loaded. `torchrun.py` connects them.

The processes of a run are one value, passed down from the command line like device and seed. It sums, gathers, lets the
main process go first, and reports a lost process. Losses are divided by the number of targets in all processes, counted
on the host in the one small message of a step, which also carries the wish to stop. The main process scores an
evaluation from what all have collected, in the order that one process would have used. A run of several processes ends
without Python's own shutdown, during which a thread of PyTorch's process group can abort it (`Processes.end`).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from encoderlab.errors import UserError
from encoderlab.system.failures import FailedElsewhereError, Failure, ProcessLostError, name_processes
from encoderlab.system.heartbeat import BEAT_SECONDS, CLOSED, SILENT_BEATS, Heartbeat

if TYPE_CHECKING:
    from torch import Tensor

PATIENCE_SECONDS = 5  # to learn whether the main process reports the same
SHOWN_AFTER_SECONDS = 10  # of waiting, and again after twice as long
RESTART = "Start the run again on every machine, with resume=auto to continue from its last checkpoint"
POLL_SECONDS = 0.05
SIGNS = (
    "gloo",
    "NCCL",
    "nccl",
    "Connection closed by peer",
    "Connection reset",
    "Broken pipe",
    "TCPStore",
    "DistBackendError",
)
STORE_ERRORS = ("DistStoreError", "DistNetworkError")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes of a run, and this one's place among them.

    `rank` counts over all machines, `local_rank` over the `local_size` processes of this one, number `machine`. `hosts`
    has each process's machine by name. Apart from `rank` and what depends on it, all processes must call the same
    methods in the same order: each waits for the others.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    machine: int = 0
    n_machines: int = 1
    store: Any = field(default=None, repr=False, compare=False)
    hosts: tuple[str, ...] = ()
    heartbeat: Heartbeat | None = field(default=None, repr=False, compare=False)
    restarted: bool = False  # torchrun restarted one of them after a failure, as `--max-restarts` allows
    errors: int = 2  # the file descriptor of the standard error that the user sees
    stay: bool = False  # another run follows, so the end of one does not end the process group
    turns: list[None] = field(
        default_factory=list, repr=False, compare=False
    )  # one for each time that the main process went first

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
        import torch
        import torch.distributed

        found = torch.tensor(number, dtype=torch.int64)
        torch.distributed.all_reduce(found, torch.distributed.ReduceOp.MAX)
        return int(found)

    def gather(self, mine: Answer) -> list[Answer] | None:
        """Return every process's value by rank, on the main process; None on the others."""
        if self.size == 1:
            return [mine]
        import torch.distributed

        found: list[Answer] | None = [mine] * self.size if self.is_main else None
        torch.distributed.gather_object(mine, found)
        return found

    def broadcast_from_main(self, make: Callable[[], Answer]) -> Answer:
        """Return on all processes the result of `make` on the main process. An error there ends the others too."""
        if self.size == 1:
            return make()
        import torch.distributed

        made = [make() if self.is_main else None]
        torch.distributed.broadcast_object_list(made, device=torch.device("cpu"))
        return cast("Answer", made[0])

    @contextmanager
    def entered_by_main(self, make: Callable[[], AbstractContextManager[Answer]]) -> Iterator[Answer]:
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
        """Run the enclosed work on the main process, then one process per other machine, then all others, which find it
        done.

        They wait as long as it takes.
        """
        if self.size == 1:
            yield
            return
        self.turns.append(None)
        turn = len(self.turns)
        if not self.is_main:
            self._wait_for([f"turn {turn} main"] if self.local_rank == 0 else [f"turn {turn} machine {self.machine}"])
        yield
        if self.is_main:
            self.store.set(f"turn {turn} main", "done")
        if self.local_rank == 0:
            self.store.set(f"turn {turn} machine {self.machine}", "done")
        if self.is_main:  # otherwise the next collective would wait for the others without a message
            self._wait_for([f"turn {turn} machine {machine}" for machine in range(1, self.n_machines)])

    def _wait_for(self, keys: Sequence[str]) -> None:
        """Wait until all keys are in the store; one process of each machine prints for whom it waits, and for how long."""
        started, shown = time.monotonic(), SHOWN_AFTER_SECONDS
        while missing := [key for key in keys if not self.store.check([key])]:
            self._end_with_others()
            waited = time.monotonic() - started
            if waited > shown and self.local_rank == 0:
                self.tell_user(f"{self.hosts[self.rank]} has waited {waited:.0f} s for {self._whose(missing)}")
                shown *= 2
            time.sleep(POLL_SECONDS)

    def _whose(self, turns: Sequence[str]) -> str:
        """Return the names of the machines whose turns these are."""
        numbers = [turn.rpartition(" ")[2].replace("main", "0") for turn in turns]
        return ", ".join(self.store.get(f"machine {number}").decode() for number in numbers)

    def tell_user(self, line: str) -> None:
        """Print a line to the user's standard error, even if this process is silenced (see
        `torchrun.speaking_for_all`).
        """
        with suppress(OSError):
            os.write(self.errors, f"encoderlab: {line}\n".encode())

    def _end_with_others(self) -> None:
        """Raise FailedElsewhereError if another process has reported why it ends."""
        if self.store.check(["failed"]):
            failure = Failure.from_json(self.store.get("failed"))
            line = f"{name_processes([failure.rank], self.hosts)}: {failure.line}" if failure.line else ""
            raise FailedElsewhereError(failure.exit_code, line)

    @contextmanager
    def watched(self, remedy: str) -> Iterator[None]:
        """Raise ProcessLostError, with `remedy`, if another process is lost during the enclosed work.

        Raises FailedElsewhereError if that one has reported why it ends.
        """
        try:
            yield
        except RuntimeError as error:
            if self.size == 1 or not (
                type(error).__name__ in STORE_ERRORS or any(sign in str(error) for sign in SIGNS)
            ):
                raise
            raise self._gone(error, remedy) from None

    def _gone(self, error: RuntimeError, remedy: str) -> Exception:
        """Return what a broken connection means: the next heartbeats, or another process's report, show who has died."""
        broken = time.monotonic()
        if hasattr(
            signal, "pthread_sigmask"
        ):  # torchrun ends the remaining processes, and this one still has to say why
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        try:
            if self.heartbeat is not None:
                self.heartbeat.tell_broken(self.store)
            while time.monotonic() - broken < (SILENT_BEATS if self.is_main else 2 * SILENT_BEATS + 2) * BEAT_SECONDS:
                self._end_with_others()
                time.sleep(POLL_SECONDS)
            if not self.is_main and self.store.add(f"gone {self.machine}", 1) > 1:
                return FailedElsewhereError(ProcessLostError.exit_code)
        except FailedElsewhereError as failed:
            return failed
        except RuntimeError:  # the store is gone as well
            if self.local_rank:
                return FailedElsewhereError(ProcessLostError.exit_code)
        lost = self.heartbeat.silent_since(broken + BEAT_SECONDS) if self.heartbeat else []
        if lost:
            return ProcessLostError(f"Lost {name_processes(lost, self.hosts)}: {CLOSED}", remedy=remedy)
        how = "did not meet in time" if "imed out" in str(error) else "lost a connection, though all of them respond"
        return ProcessLostError(f"The {self.size} processes of this run {how}", remedy=remedy)

    def lost_meanwhile(self) -> ProcessLostError | None:
        """After a signal that was announced: return the error if another process has died, because torchrun then ends
        the rest.
        """
        if self.heartbeat is None:
            return None
        signalled, others = time.monotonic(), range(1, self.size) if self.is_main else [0]
        with suppress(RuntimeError):  # the store is gone: others report it
            while time.monotonic() - signalled < SILENT_BEATS * BEAT_SECONDS:
                if self.store.check([f"ended {rank}" for rank in others]):
                    return None
                time.sleep(POLL_SECONDS)
            silent = self.heartbeat.silent_since(signalled + BEAT_SECONDS)
            lost = [rank for rank in silent if not self.store.check([f"ended {rank}"])]
            if lost and self.store.add(f"gone {self.machine}", 1) == 1:
                return ProcessLostError(f"Lost {name_processes(lost, self.hosts)}: {CLOSED}", remedy=RESTART)
        return None

    def give_up(self, lost: list[int], why: str) -> None:
        """End this process, from any thread, because the processes `lost` have died or, without any, the main one ended
        it.
        """
        if lost and (self.local_rank == 0 or (self.local_rank == 1 and self.machine == 0 and 0 in lost)):
            self.tell_user(f"Lost {name_processes(lost, self.hosts)}: {why}. {RESTART}.")
        if self.is_main:
            with suppress(RuntimeError):
                self.store.set("failed", Failure(ProcessLostError.exit_code, self.rank).to_json())
                self.store.set("given up", "yes")
                time.sleep(2 * BEAT_SECONDS)  # for the others to read it: the store may end with this process
        os._exit(ProcessLostError.exit_code)

    def announce(self, error: BaseException, exit_code: int) -> bool:
        """Tell the others that this process ends with `exit_code`; return whether it should tell the user why.

        The main process prints what it knows of any failure. A process of another machine prints on that machine as
        well, unless the main process prints the same.
        """
        if self.store is None:  # alone, or not connected yet
            return True
        line = str(error) if isinstance(error, UserError) else getattr(error, "line", "")
        try:
            self.store.set(f"ended {self.rank}", "yes")
            self.store.compare_set("failed", "", Failure(exit_code, self.rank, "" if self.is_main else line).to_json())
            if self.is_main:
                self.store.set("reported", line)
                return True
            if isinstance(error, ProcessLostError):
                return True
            # Once this process has ended, torchrun stops the main one, which may not have reached the same error yet.
            reported = (self.machine > 0 or isinstance(error, UserError)) and self._reported_by_main(line)
            return self.machine > 0 and not reported and self.store.add(f"reported {self.machine}", 1) == 1
        except RuntimeError:  # the store is gone
            return True

    def _reported_by_main(self, line: str) -> bool:
        for _ in range(int(PATIENCE_SECONDS / POLL_SECONDS)):
            if self.store.check(["reported"]):
                return self.store.get("reported").decode() == line
            time.sleep(POLL_SECONDS)
        return False

    def leave(self) -> None:
        """Leave the process group, unless they stay: from here on, each process is on its own."""
        if self.heartbeat is not None and not self.stay:
            self.heartbeat.stop()
        if self.size > 1 and not self.stay:
            import torch.distributed

            if torch.distributed.is_initialized():
                torch.distributed.destroy_process_group()

    def end(self, exit_code: int) -> None:
        """End this process, unless it is the only one and everything went well.

        One of several skips what Python does at its end: a thread of PyTorch's process group that gives a tensor back
        just then aborts the process (pytorch/pytorch#190489), and modules and caches of PyTorch keep the group, so that
        leaving it does not end its threads.
        """
        if self.size > 1:
            for stream in (sys.stdout, sys.stderr):
                with suppress(BrokenPipeError):
                    stream.flush()
            os._exit(exit_code)
        if exit_code:
            sys.exit(exit_code)


SINGLE_PROCESS = Processes()
