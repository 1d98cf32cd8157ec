"""Refuses a run whose processes differ in what they must share, and names the machine that differs."""

from __future__ import annotations

from collections.abc import Mapping

from encoderlab.errors import SettingError, UserError
from encoderlab.system.distributed import Processes
from encoderlab.system.failures import name_processes

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
