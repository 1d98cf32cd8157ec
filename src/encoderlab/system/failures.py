"""How a run of several processes fails: which process, on which machine, with which exit code, and what the user is
told.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from encoderlab.errors import TrainingError


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
