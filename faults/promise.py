"""A promise: a sentence, and the trials that could refute it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

Case = TypeVar("Case")
CONFIDENCE = 0.95


class UnavailableError(Exception):
    """Something that the trials of a promise require is missing, such as a compiler; the message says what."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial: what was done, and what went wrong; "" if nothing did."""

    case: str
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Conditions:
    """How many trials (None: all possible ones), the seed that draws them, and a folder to work in."""

    trials: int | None
    seed: int
    scratch: Path

    def select(self, cases: Sequence[Case]) -> list[Case]:
        """Return as many of the cases as requested, evenly spaced."""
        count = len(cases) if self.trials is None else min(self.trials, len(cases))
        return [cases[place * len(cases) // count] for place in range(count)]


@dataclass(frozen=True, slots=True)
class Promise:
    """How a promise of RELIABILITY.md is tried.

    `trials` yields them: `quick` of them are a smoke run, `full` give the numbers of that page (None: all). Raises
    UnavailableError if they are impossible here.
    """

    trials: Callable[[Conditions], Iterator[Trial]]
    quick: int
    full: int | None = None


def upper_bound(failures: int, trials: int) -> float:
    """Return the upper 95% bound on the failure rate by Clopper and Pearson (1934, one-sided).

    If the trials cover every case, such as every call, nothing was sampled: the bound is what as many random trials
    would show.
    """
    from scipy.stats import binomtest

    test = binomtest(failures, trials, alternative="less")
    return float(test.proportion_ci(CONFIDENCE, method="exact").high)
