"""Ratios with their spread from the figures of all rounds, and whether a target is met."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.jobs import OURS, Target

LESS_IS_BETTER = {"seconds", "seconds_to_target"}
Rounds = Sequence[dict[str, dict[str, Any]]]  # round by round, the figures of each side


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some values, with the lowest and the highest."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """Return the spread; None if there are no values."""
        return cls(statistics.median(values), min(values), max(values)) if values else None


def ratio(rounds: Rounds, figure: str, peer: str, ours: str = OURS) -> Spread | None:
    """Return how many times better than the peer we are, within each round; None if no round has both figures.

    The two of a round were measured one right after the other, so other load on the machine affects both.
    """
    pairs = [(a, b) for found in rounds if (a := _value(found, ours, figure)) and (b := _value(found, peer, figure))]
    return Spread.of([b / a if figure in LESS_IS_BETTER else a / b for a, b in pairs])


def over_rounds(rounds: Rounds, side: str, figure: str) -> Spread | None:
    """Return one side's figure over all rounds that have it."""
    return Spread.of([value for found in rounds if (value := _value(found, side, figure)) is not None])


def reached(rounds: Rounds, target: Target) -> tuple[Spread | None, bool]:
    """Return the figure of a target, and whether its median meets it; a figure missing in any round misses it."""
    measured = target.side if target.against is None else target.against
    complete = all(
        _value(found, name, target.figure) is not None for found in rounds for name in (target.side, measured)
    )
    if target.against is None:
        spread = over_rounds(rounds, target.side, target.figure)
    else:
        spread = ratio(rounds, target.figure, target.against, target.side)
    if spread is None or not complete:
        return spread, False
    enough = target.at_least is None or spread.median >= target.at_least
    return spread, enough and (target.at_most is None or spread.median <= target.at_most)


def _value(found: dict[str, dict[str, Any]], side: str, figure: str) -> float | None:
    return found.get(side, {}).get(figure)
