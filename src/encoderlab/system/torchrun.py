"""Connects the processes of a run: `torchrun` starts them, and gives each its place in environment variables."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from encoderlab.errors import SettingError
from encoderlab.system.distributed import SINGLE_PROCESS, Processes
from encoderlab.system.failures import ProcessLostError
from encoderlab.system.heartbeat import LOST_SECONDS, Heartbeat

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
