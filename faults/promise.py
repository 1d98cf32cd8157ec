"""A promise: a sentence, and the trials that could refute it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

Case = TypeVar("Case")


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

    def of(self, cases: Sequence[Case]) -> list[Case]:
        """Return as many of the cases as requested, evenly spaced."""
        count = len(cases) if self.trials is None else min(self.trials, len(cases))
        return [cases[place * len(cases) // count] for place in range(count)]


@dataclass(frozen=True, slots=True)
class Promise:
    """What is promised, in a sentence, and how it is tried; `tests` if other tests than test_promises.py try it in the
    suite.

    `tried` yields the trials; `quick` of them are part of the suite, `full` give the figures of RELIABILITY.md (None:
    all). Raises UnavailableError if they are impossible here.
    """

    name: str
    sentence: str
    tried: Callable[[Conditions], Iterator[Trial]]
    quick: int | None
    full: int | None = None
    tests: tuple[str, ...] = ()

    @property
    def test(self) -> str:
        """Return the test of the suite that tries it."""
        return " ".join(self.tests) or f"tests/faults/test_promises.py -k {self.name}"

    @property
    def command(self) -> str:
        """Return the command that repeats the trials."""
        return f"scripts/faults run {self.name}"
