"""A promise: a sentence, and the trials that would show it to be untrue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

Case = TypeVar("Case")


class UnavailableError(Exception):
    """What a promise is tried with is not there, such as a compiler; says what."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial: what was done, and what went wrong; "" if nothing did."""

    case: str
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Conditions:
    """How many trials (None: all there are), the seed that draws them, and a folder of their own to work in."""

    trials: int | None
    seed: int
    scratch: Path

    def of(self, cases: Sequence[Case]) -> list[Case]:
        """As many of the cases as are asked for, spread evenly over them."""
        count = len(cases) if self.trials is None else min(self.trials, len(cases))
        return [cases[place * len(cases) // count] for place in range(count)]


@dataclass(frozen=True, slots=True)
class Promise:
    """What is promised, in a sentence, and how it is tried; `tests` where not test_promises.py but others try it in the suite.

    `tried` yields the trials; `quick` of them are part of the suite, `full` make the figures of RELIABILITY.md (None: all). Raises
    UnavailableError where they cannot be had here.
    """

    name: str
    sentence: str
    tried: Callable[[Conditions], Iterator[Trial]]
    quick: int | None
    full: int | None = None
    tests: tuple[str, ...] = ()

    @property
    def test(self) -> str:
        """The test of the suite that tries it."""
        return " ".join(self.tests) or f"tests/faults/test_promises.py -k {self.name}"

    @property
    def command(self) -> str:
        """What repeats the figures."""
        return f"scripts/faults run {self.name}"
