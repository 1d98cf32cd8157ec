"""How a run of several processes fails: which process, on which machine, with which exit code, and what the user is
told.

Detects which processes of a run still answer.

Every process increments a counter in the store once a second. The main process reads all counts; the others read the
main one's. A process whose count stops has died, is frozen, or cannot be reached. The main thread may wait inside a
collective that no signal ends, so threads do this: one talks to the store, which a broken network can block, and one
looks at the clock.

The processes of a run: how many there are, which one this is, and how they communicate.

They talk through PyTorch's own process group, and report failures through its store, which outlives any of them. Alone,
all of this is free, and nothing of it is loaded. `torchrun.py` connects them.

The processes of a run are one value, passed down from the command line like device and seed. It sums, gathers, lets the
main process go first, and reports a lost process. Losses are divided by the number of targets in all processes, counted
on the host in the one small message of a step, which also carries the wish to stop. The main process scores an
evaluation from what all have collected, in the order that one process would have used. A run of several processes ends
without Python's own shutdown, during which a thread of PyTorch's process group can abort it (`Processes.end`).

Refuses a run whose processes differ in what they must share, and names the machine that differs.

Connects the processes of a run: `torchrun` starts them, and gives each its place in environment variables.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from itertools import count
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TypeVar, cast

from encoderlab.errors import SettingError, TrainingError, UserError

if TYPE_CHECKING:
    from torch import Tensor


class FailedElsewhereError(Exception):
    """Another process has failed: this one ends with the same `exit_code`.

    `line` is what the main process tells the user about it, "" if it already has.
    """

    def __init__(self, exit_code: int, line: str = "") -> None:
        super().__init__(exit_code)
        self.exit_code, self.line = exit_code, line


class ProcessLostError(TrainingError):
    """Another process of the run has died, or no longer answers."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The record of a failure in the processes' store. `line` is empty if the user has been told."""

    exit_code: int
    rank: int
    line: str = ""

    def to_json(self) -> str:
        """Return the record as the store keeps it; see `from_json`."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Failure:
        """Return the record that `to_json` wrote."""
        return cls(**json.loads(text))


def name_processes(ranks: Sequence[int], hosts: Sequence[str]) -> str:
    """Return the processes of these ranks by machine (`hosts` has each process's): "berta (processes 2 and 3 of 4)"."""
    by_host: dict[str, list[str]] = {}
    for rank in sorted(ranks):
        by_host.setdefault(hosts[rank], []).append(str(rank))
    named = []
    for host, numbers in by_host.items():
        several = (
            f"processes {', '.join(numbers[:-1])} and {numbers[-1]}" if len(numbers) > 1 else f"process {numbers[0]}"
        )
        named.append(f"{host} ({several} of {len(hosts)})")
    return ", ".join(named)


BEAT_SECONDS = 1.0
LOST_SECONDS = 60  # without a beat, before a process is given up
LEAST_SECONDS = 5  # the same if the user sets less
SILENT_BEATS = 4  # missed by a process that has died, when a connection to it has broken
PAUSE_SECONDS = 5.0  # between two checks of the clock: then this process itself was frozen
CLOSED = "its connection closed"
GRACE_SECONDS = 3.0  # for the main thread to end by itself, once another process has been given up


class Heartbeat:
    """The beats of process `rank`, one of `size`, in a `store` of its own connection.

    `give_up` is called, from a thread, with the ranks that are lost and the reason; with none if the main process has
    given one up. Lost is a process without a beat for `lost_seconds` or, in the main process, once another one has met
    a closed connection (`tell_broken`), for some beats.
    """

    def __init__(
        self, rank: int, size: int, store: Any, lost_seconds: float, give_up: Callable[[list[int], str], None]
    ) -> None:
        self.lost_seconds = max(lost_seconds, LEAST_SECONDS)
        self._rank, self._store, self._give_up = rank, store, give_up
        self._watched = [other for other in range(size) if other != rank] if rank == 0 else [0]
        self._seen = dict.fromkeys(self._watched, time.monotonic())
        self._given_up_at: float | None = None  # when this process saw that the main process had given up another one
        self._broken_at: float | None = None  # when the main process learned of a closed connection
        self._ended = Event()
        store.set(f"beat {rank}", "0")

    def start(self) -> None:
        """Start beating and listening. All processes must have created their Heartbeat before."""
        for work in (self._exchange, self._watch):
            Thread(target=work, daemon=True).start()

    def stop(self) -> None:
        """Stop beating and listening."""
        self._ended.set()

    def tell_broken(self, store: Any) -> None:
        """Tell the main process, through this thread's connection to the store, that a connection has closed."""
        if self._rank:
            store.set("broken", "yes")
        self._broken_at = float("inf")  # the main thread of the main process finds out by itself

    def silent_since(self, moment: float) -> list[int]:
        """Return the watched ranks without a beat since that moment of `time.monotonic`."""
        return [rank for rank, seen in self._seen.items() if seen < moment]

    def _exchange(self) -> None:
        counts: dict[int, bytes] = {}
        with suppress(
            RuntimeError
        ):  # the store is gone, and with it the main process's machine: its beats will be missed
            for beat in count(1):
                if self._ended.wait(BEAT_SECONDS):
                    return
                self._store.set(f"beat {self._rank}", str(beat))
                self._read(counts)

    def _read(self, counts: dict[int, bytes]) -> None:
        """Record which counts differ from those in `counts`, and what others have reported."""
        found = self._store.multi_get([f"beat {rank}" for rank in self._watched])
        now = time.monotonic()
        for rank, beats in zip(self._watched, found, strict=True):
            if counts.get(rank) != beats:
                counts[rank], self._seen[rank] = beats, now
        if self._rank and self._given_up_at is None and self._store.check(["given up"]):
            self._given_up_at = now
        if not self._rank and self._broken_at is None and self._store.check(["broken"]):
            self._broken_at = now

    def _watch(self) -> None:
        looked = time.monotonic()
        while not self._ended.wait(BEAT_SECONDS):
            now = time.monotonic()
            if now - looked > BEAT_SECONDS + PAUSE_SECONDS:
                self._seen = dict.fromkeys(self._watched, now)
            looked = now
            lost, why = self.silent_since(now - self.lost_seconds), f"no answer for {self.lost_seconds:.0f} s"
            if self._broken_at is not None and now - self._broken_at > SILENT_BEATS * BEAT_SECONDS and not lost:
                lost, why = self.silent_since(self._broken_at + BEAT_SECONDS), CLOSED
            if lost or (self._given_up_at is not None and now - self._given_up_at > GRACE_SECONDS):
                self._give_up(lost, why)
                return


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


LONGEST_VALUE = 60  # characters of a value that a message shows


def check_agreement(
    processes: Processes, facts: Mapping[str, object], remedy: str, error: type[UserError] = SettingError
) -> None:
    """Compare this process's `facts`, by name, with the main process's; all processes call it.

    Raises `error`, the same in each of them, for the first fact in which a process differs.
    """
    if processes.size == 1:
        return
    import torch.distributed

    every: list[dict[str, str]] = [{} for _ in range(processes.size)]
    torch.distributed.all_gather_object(every, {name: str(value) for name, value in facts.items()})
    wanted = every[0]
    for name in dict.fromkeys(name for found in every for name in found):
        other = [rank for rank, found in enumerate(every) if found.get(name) != wanted.get(name)]
        if other:
            same = [rank for rank in other if every[rank].get(name) == every[other[0]].get(name)]
            theirs, ours = (_short(found.get(name)) for found in (every[other[0]], wanted))
            raise error(
                f"{name_processes(same, processes.hosts)} has {name} {theirs}, and {processes.hosts[0]} {ours}",
                remedy=remedy,
            )


def _short(value: str | None) -> str:
    if value is None:
        return "none"
    return value if len(value) <= LONGEST_VALUE else f"{value[:LONGEST_VALUE]}..."


WAIT_SECONDS = 600  # for the others at a synchronisation point: longer than any work that only one does there
START = "torchrun --standalone --nproc-per-node=2 -m encoderlab train"


def placed() -> Processes:
    """Return this process's place from torchrun's variables, not yet connected to the others; otherwise
    `SINGLE_PROCESS`.

    Raises SettingError for variables that are missing or not numbers.
    """
    size = _whole_number("WORLD_SIZE", 1, default=1)
    restarted = _whole_number("TORCHELASTIC_RESTART_COUNT", 0, default=0) > 0
    if size == 1:
        return replace(SINGLE_PROCESS, restarted=True) if restarted else SINGLE_PROCESS
    _whole_number("MASTER_PORT", 1, below=2**16)
    return Processes(
        rank=_whole_number("RANK", 0, below=size),
        size=size,
        local_rank=_whole_number("LOCAL_RANK", 0, below=size),
        local_size=_whole_number("LOCAL_WORLD_SIZE", 1, below=size + 1),
        machine=_whole_number("GROUP_RANK", 0, below=size, default=0),
        n_machines=_whole_number("GROUP_WORLD_SIZE", 1, below=size + 1, default=1),
        restarted=restarted,
        errors=os.dup(2),
    )


def join(place: Processes) -> Processes:
    """Return the same place, connected to all processes.

    Raises ProcessLostError if they do not come, and SettingError if the time to wait for them is not a number.
    """
    if place.size == 1:
        return place
    import torch
    import torch.distributed as distributed

    wait = _whole_number("ENCODERLAB_WAIT_SECONDS", 1, default=WAIT_SECONDS)
    timeout = timedelta(seconds=wait)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and distributed.is_nccl_available() else "gloo"
    try:
        meet, prefixed = distributed.rendezvous, distributed.PrefixStore  # pyright: ignore[reportPrivateImportUsage]  documented
        store, _, _ = next(meet("env://", timeout=timeout))
        distributed.init_process_group(backend, store=store, rank=place.rank, world_size=place.size, timeout=timeout)
        processes = _with_heartbeat(
            replace(place, store=prefixed("encoderlab", store)), min(wait, LOST_SECONDS), timeout
        )
    except (RuntimeError, ValueError) as error:
        why = " ".join(str(error).split())[:160]
        raise ProcessLostError(
            f"The {place.size} processes of this run cannot find one another ({why})", remedy="Start all of them"
        ) from None
    return processes


def _with_heartbeat(place: Processes, lost_seconds: int, timeout: timedelta) -> Processes:
    """Return the same, with the machines known and all heartbeats running; see `Heartbeat`, which has its own
    connection.
    """
    import torch.distributed as distributed

    prefixed, tcp = distributed.PrefixStore, distributed.TCPStore  # pyright: ignore[reportPrivateImportUsage]  documented
    connection = tcp(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, timeout=timeout)
    found: list[Processes] = []
    own_store = prefixed("encoderlab", connection)
    heartbeat = Heartbeat(
        place.rank, place.size, own_store, lost_seconds, lambda lost, why: found[0].give_up(lost, why)
    )
    place.store.set(f"host {place.rank}", socket.gethostname())
    place.store.set(f"machine {place.machine}", socket.gethostname())
    # They meet here: one that ends at once, because of a wrong setting, would leave others still connecting to it. A
    # machine that was rebooted has not been restarted itself, and must resume with those that were.
    [restarted] = place.all_reduce_sum([int(place.restarted)])
    hosts = place.store.multi_get([f"host {rank}" for rank in range(place.size)])
    found.append(
        replace(place, hosts=tuple(host.decode() for host in hosts), heartbeat=heartbeat, restarted=restarted > 0)
    )
    heartbeat.start()
    return found[0]


def _whole_number(name: str, least: int, *, below: int | None = None, default: int | None = None) -> int:
    """Return the number in an environment variable. Raises SettingError."""
    text = os.environ.get(name)
    if text is None and default is not None:
        return default
    value = int(text) if text is not None and text.strip().isascii() and text.strip().isdigit() else None
    if value is None or value < least or (below is not None and value >= below):
        found = "not set" if text is None else f"{text!r}"
        most = "" if below is None else f" and at most {below - 1}"
        remedy = f"Let torchrun set it: {START}; without it, unset WORLD_SIZE"
        raise SettingError(
            f"The environment variable {name} is {found}",
            allowed=f"a whole number, at least {least}{most}",
            remedy=remedy,
        )
    return value


@contextmanager
def speaking_for_all(processes: Processes) -> Iterator[None]:
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
