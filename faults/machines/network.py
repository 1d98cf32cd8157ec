"""A network between namespaces that can be slow, lossy or cut: a switch that runs in this process.

Each machine has a TAP device as its network card; every frame that it sends is read here and passed on. So a slow link
needs no `netem`, which is a kernel module that many kernels lack, and every byte is counted.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import select
import struct
import time
from dataclasses import dataclass, field
from itertools import count
from threading import Thread

from faults.promise import UnavailableError

TUN = "/dev/net/tun"
TUNSETIFF = 0x400454CA  # linux/if_tun.h
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
BROADCAST_BIT = 0x01  # bit of a frame's first byte: for all machines
MTU_WITH_HEADER = 65536
QUEUE_SECONDS = 0.4  # that a frame waits for a slow link at most; later ones are dropped, as in a router
IDLE_SECONDS = 0.02


@dataclass(slots=True)
class Link:
    """How frames travel to and from a machine: seconds each way, bits per second (None: no limit), fraction lost, cut
    or not.
    """

    delay: float = 0.0
    rate: float | None = None
    loss: float = 0.0
    cut: bool = False


@dataclass(slots=True)
class Port:
    """A machine's place at the switch. `sent` counts the bytes of its frames, headers included."""

    tap: int
    link: Link = field(default_factory=Link)
    sent: int = 0
    free_at: float = 0.0  # when its link will have sent all it was given

    def replace(self, tap: int) -> None:
        """Plug in another network card in its place, as for a restarted machine."""
        before, self.tap = self.tap, tap
        os.close(before)


class Switch:
    """Passes frames from one machine to another; use it as a context manager. Raises UnavailableError without TAP
    devices.
    """

    def __init__(self, seed: int = 0) -> None:
        self.ports: list[Port] = []
        self._learnt: dict[bytes, int] = {}  # the port of each hardware address
        self._waiting: list[tuple[float, int, int, bytes]] = []  # due time, a number that keeps the order, port, frame
        self._numbers, self._draw, self._ended = count(), random.Random(seed), False
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> Switch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._thread.join()
        for port in self.ports:
            os.close(port.tap)

    def plug(self, name: str) -> Port:
        """Return the port of a new network card of that name in this namespace."""
        port = Port(self.open_card(name))
        self.ports.append(port)
        return port

    def open_card(self, name: str) -> int:
        """Create a network card of that name in this namespace; return its end at the switch."""
        try:
            tap = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
        except OSError as error:
            raise UnavailableError(f"there are no TAP devices here: {error.strerror}") from None
        return tap

    def _run(self) -> None:
        while not self._ended:
            now = time.monotonic()
            until = IDLE_SECONDS if not self._waiting else min(max(self._waiting[0][0] - now, 0.0), IDLE_SECONDS)
            taps = [port.tap for port in self.ports]
            try:
                ready, _, _ = select.select(taps, [], [], until)
            except OSError:  # a card was just replaced
                continue
            for tap in ready:
                self._take_all(taps.index(tap))
            while self._waiting and self._waiting[0][0] <= time.monotonic():
                _, _, receiver, frame = heapq.heappop(self._waiting)
                self._deliver(receiver, frame)

    def _take_all(self, sender: int) -> None:
        """Read the frames that a machine has sent, and queue each for its recipients."""
        port = self.ports[sender]
        while True:
            try:
                frame = os.read(port.tap, MTU_WITH_HEADER)
            except OSError:  # none is left, or the machine is not up yet
                return
            port.sent += len(frame)
            self._learnt[frame[6:12]] = sender
            known = None if frame[0] & BROADCAST_BIT else self._learnt.get(frame[:6])
            others = [other for other in range(len(self.ports)) if other != sender]
            for receiver in others if known is None else [known]:
                due = self._due(port, self.ports[receiver], len(frame))
                if due is not None:
                    heapq.heappush(self._waiting, (due, next(self._numbers), receiver, frame))

    def _due(self, sender: Port, receiver: Port, size: int) -> float | None:
        """Return when the frame arrives; None if it is lost."""
        due = time.monotonic()
        for port in (sender, receiver):
            link = port.link
            if link.cut or (link.loss and self._draw.random() < link.loss):
                return None
            if link.rate is not None:
                begins = max(due, port.free_at)
                if begins - due > QUEUE_SECONDS:
                    return None
                due = port.free_at = begins + size * 8 / link.rate
            due += link.delay
        return due

    def _deliver(self, receiver: int, frame: bytes) -> None:
        port = self.ports[receiver]
        if port.link.cut:
            return
        try:
            os.write(port.tap, frame)
        except OSError:  # the machine is gone
            return
