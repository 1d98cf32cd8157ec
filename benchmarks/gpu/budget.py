"""A time budget: rows are measured in order while time remains, and the others are named."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.processes import OutOfTimeError
from encoderlab.errors import TrainingError

Clock = Callable[[], float]


class Budget:
    """The seconds that all rows may take together."""

    def __init__(self, seconds: float, clock: Clock = time.monotonic) -> None:
        self.clock, self.ends = clock, clock() + seconds

    def left(self) -> float:
        """Return the seconds that are left, at least 0."""
        return max(self.ends - self.clock(), 0.0)


@dataclass(frozen=True, slots=True)
class Row:
    """A row to be measured. `measure` returns its figures; it ends within the seconds that it is given or raises
    OutOfTimeError.

    Rows of one `kind` take about equally long.
    """

    name: str
    kind: str
    measure: Callable[[float], dict[str, Any]]


@dataclass(slots=True)
class Rows:
    """The figures of each row that was measured, why each failed row failed, and the rows dropped for lack of time."""

    figures: list[dict[str, Any]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)

    def measure(self, rows: Sequence[Row], budget: Budget) -> None:
        """Measure the `rows` in order, each if there is as much time left as the longest of its kind has taken."""
        longest: dict[str, float] = {}
        for row in rows:
            if budget.left() <= longest.get(row.kind, 0.0):
                self.dropped.append(row.name)
                continue
            started = budget.clock()
            self._measure(row, budget.left())
            longest[row.kind] = max(longest.get(row.kind, 0.0), budget.clock() - started)

    def _measure(self, row: Row, seconds: float) -> None:
        try:
            self.figures.append({"name": row.name, **row.measure(seconds)})
            print(f"  {row.name}: done", file=sys.stderr)
        except OutOfTimeError:
            self.dropped.append(row.name)
        except TrainingError as error:
            self.failed.append({"name": row.name, "reason": str(error)})
            print(f"  {row.name}: {error}", file=sys.stderr)
