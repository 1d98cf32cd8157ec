"""Claims: which process works on what, in a folder that several machines share.

A claim is a numbered file, created with O_CREAT | O_EXCL: of all processes on all machines, one succeeds (NFS since
version 3, SMB and cluster file systems guarantee it). A process that wants what claim 3 holds creates claim 4, once
claim 3 is released or its holder is dead. Numbers are never reused, and no claim is renamed or deleted, so two
processes cannot take over the same job.

The holder increments a count in its file. It is dead if the count has not changed for some seconds on the reader's own
clock; clocks of two machines are never compared. A holder on the reader's machine is dead as soon as its lock is free,
because the system releases locks when a process ends. Locks alone would not do: on network storage they may reach one
machine only, or outlive theirs. A holder that was only frozen, or cut off from the storage, finds that its claim has a
successor, and ends its process.
"""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from io import FileIO
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

from filelock import FileLock, Timeout

from encoderlab.errors import TrainingError

BEATS = 12  # renewals within the time after which a holder counts as dead
DIGITS = 12  # of the count: it is overwritten in place, which works on a full disk too
RELEASED = "released"
BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Claim:
    """What a claim's file says. `place` is shared by processes that see each other's locks, `is_locked` says that it
    has one.

    `beat` changes while the holder lives.
    """

    number: int
    beat: str
    host: str = "another machine"
    pid: int | None = None
    place: str = ""
    is_locked: bool = False

    @property
    def is_released(self) -> bool:
        """Return whether the holder has let go of it."""
        return self.beat == RELEASED

    @property
    def holder(self) -> str:
        """Return the process for a message: "berta (process 4711)"."""
        return self.host if self.pid is None else f"{self.host} (process {self.pid})"


class Claims:
    """The claims in `folder`, as one process sees them; a holder that is silent for `dead_after` seconds is dead.

    `on_loss` is called from a thread, with the claim of another process that has taken over what this one holds, and
    `dead_after`.
    """

    def __init__(
        self,
        folder: Path,
        dead_after: float,
        on_loss: Callable[[Claim, float], None] | None = None,
        clock: Any = time.monotonic,
    ) -> None:
        self.folder, self.dead_after = folder, dead_after
        self._on_loss, self._clock = on_loss or end_process, clock
        self._watched: dict[
            str, tuple[tuple[int, str], float]
        ] = {}  # by key, number and count, and when they were first seen
        self._dead: set[tuple[str, int, str]] = set()  # keys, numbers and counts that have not changed for too long

    @property
    def pause(self) -> float:
        """Return seconds between two renewals."""
        return self.dead_after / BEATS

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a worker: which processes are dead, but no times, which are by this process's own clock."""
        return self.__dict__ | {"_watched": {}}

    @contextmanager
    def held(self, key: str) -> Iterator[tuple[bool, Claim | None]]:
        """Hold `key` during the enclosed work.

        Yields whether this process holds it, with the claim of a dead holder that it was taken over from, or else of
        the holder.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder / f".{key}.lock") as is_locked:
            last = self.last(key)
            if last is not None and not last.is_released and not self._is_dead(key, last, is_locked):
                yield False, last
                return
            number = 1 if last is None else last.number + 1
            try:
                file = self._path(key, number).open("xb", buffering=0)
            except FileExistsError:  # another process was faster
                yield False, self._read(key, number)
                return
            with file, self._renewed(file, key, number, is_locked):
                yield True, None if last is None or last.is_released else last

    def last(self, key: str) -> Claim | None:
        """Return the newest claim of `key`; None if there is none."""
        found = None
        for number in count(1):
            claim = self._read(key, number)
            if claim is None:
                return found
            found = claim
        return found

    def is_free(self, key: str, claim: Claim) -> bool:
        """Return whether `claim`, the last of `key`, is released, or its holder dead."""
        if claim.is_released:
            return True
        if claim.place != self._place() or not claim.is_locked:
            return self._is_dead(key, claim, is_locked=False)
        with locked(self.folder / f".{key}.lock") as is_locked:
            return self._is_dead(key, claim, is_locked)

    def _is_dead(self, key: str, claim: Claim, is_locked: bool) -> bool:
        if is_locked and claim.is_locked and claim.place == self._place():
            return True
        state, now = (claim.number, claim.beat), self._clock()
        seen, since = self._watched.get(key, (None, now))
        if seen != state:
            self._watched[key] = (state, now)
        elif now - since >= self.dead_after:
            self._dead.add((key, *state))
        return (key, *state) in self._dead

    @contextmanager
    def _renewed(self, file: FileIO, key: str, number: int, is_locked: bool) -> Iterator[None]:
        """Write a claim to its new file and renew it, until it is released."""
        claim = asdict(Claim(number, "", socket.gethostname(), os.getpid(), self._place(), is_locked))
        head = (
            json.dumps({name: value for name, value in claim.items() if name not in ("number", "beat")}) + "\n"
        ).encode()

        def write(beat: str) -> None:
            file.seek(0)
            file.write(head + beat.ljust(DIGITS).encode())
            os.fsync(file.fileno())  # so that other machines read it at their next open

        ended = Event()
        renewing = Thread(target=self._renew, args=(write, key, number, ended), daemon=True)
        write(f"{0:0{DIGITS}}")
        renewing.start()
        try:
            yield
        finally:
            ended.set()
            renewing.join()
            write(RELEASED)

    def _renew(self, write: Callable[[str], None], key: str, number: int, ended: Event) -> None:
        for beat in count(1):
            if ended.wait(self.pause):
                return
            with suppress(OSError):  # storage that does not answer may come back
                successor = self._read(key, number + 1)
                if successor is not None:
                    self._on_loss(successor, self.dead_after)
                    return
                write(f"{beat:0{DIGITS}}")

    def _read(self, key: str, number: int) -> Claim | None:
        try:
            head, _, beat = self._path(key, number).read_text(encoding="utf-8", errors="replace").partition("\n")
        except FileNotFoundError:
            return None
        try:
            return Claim(number, beat.strip(), **json.loads(head))
        except (ValueError, TypeError):  # just created, or its process died at that moment
            return Claim(number, "")

    def _path(self, key: str, number: int) -> Path:
        return self.folder / f".{key}.claim-{number}"

    def _place(self) -> str:
        """Return the kernel and the file system of the folder, which processes share if they see each other's locks in
        it.
        """
        try:
            kernel = BOOT.read_text(encoding="ascii").strip()
        except OSError:
            kernel = f"{socket.gethostname()}-{uuid.getnode():x}"
        return f"{kernel}-{self.folder.stat().st_dev}"


def end_process(successor: Claim, silent: float) -> None:
    """End this process at once, because another one now writes to its run folder."""
    line = f"{successor.holder} has taken over a job of this process, which was silent for {silent:g} s"
    os.write(2, f"encoderlab: {line}. Run the same command to resume.\n".encode())
    os._exit(TrainingError.exit_code)


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Hold a lock on the file `path`, which ends with this process, however that ends; False if another process holds
    it.
    """
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()
