"""Detects which processes of a run still answer.

Every process increments a counter in the store once a second. The main process reads all counts; the others read the
main one's. A process whose count stops has died, is frozen, or cannot be reached. The main thread may wait inside a
collective that no signal ends, so threads do this: one talks to the store, which a broken network can block, and one
looks at the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from threading import Event, Thread
from typing import Any

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
