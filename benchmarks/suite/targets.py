"""The suite's targets, next to what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.page import grid
from benchmarks.suite.kinds import KINDS
from benchmarks.suite.tables import words_of

Result = dict[str, Any]
NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class Target:
    """The lowest acceptable score of a kind of runs on a set, as a mean over seeds.

    Exactly one is given: `at_least`, a score; `ahead`, a lead over the linear model; `beside`, a set whose score to
    reach.
    """

    name: str
    kind: str = "box"
    at_least: float | None = None
    ahead: float | None = None
    beside: str | None = None

    def row(self, results: Mapping[str, Result]) -> list[str]:
        """Return the target, what it requires, what was measured, and whether it is met."""
        wanted, least, found = self._wanted(results)
        verdict = NOT_MEASURED if least is None or found is None else "met" if found >= least else "missed"
        measured = "" if found is None else f"{found:+.3f}" if self.ahead is not None else f"{found:.3f}"
        figure = words_of(results[self.name]["figure"]) if self.name in results else ""
        return [f"{self.name}, {KINDS[self.kind].title}", figure, wanted, measured, verdict]

    def _wanted(self, results: Mapping[str, Result]) -> tuple[str, float | None, float | None]:
        """Return the requirement in words, the lowest value that meets it, and the measured value."""
        found = _figures(results, self.name, self.kind)
        if self.beside is not None:
            other = _figures(results, self.beside, self.kind).get("score")
            return f"at least {self.beside}{'' if other is None else f' ({other:.3f})'}", other, found.get("score")
        if self.ahead is not None:
            wanted = f"{self.ahead:+.2f} over the linear model" if self.ahead else "at least the linear model"
            return wanted, self.ahead, (found.get("ahead") or {}).get("value")
        return f"at least {self.at_least:.2f}", self.at_least, found.get("score")


TARGETS = (
    Target("goemotions", at_least=0.40),
    Target("goemotions", ahead=0.0),
    Target("reuters21578", ahead=0.0),
    Target("sick_relatedness", at_least=0.80),
    Target("wnut17", ahead=0.10),
    Target("ud_french_sequoia_pos", "scratch", at_least=0.94),
    Target("bbc_news_windows", beside="bbc_news"),
    Target("bbc_news_windows", ahead=0.0),
    Target("gnad_sample_windows", beside="gnad_sample"),
    Target("gnad_sample_windows", ahead=0.0),
)


def targets_table(results: Mapping[str, Result]) -> str:
    """Return a row for each target."""
    return "\n".join(grid(["", "score", "target", "measured", ""], [target.row(results) for target in TARGETS]))


def _figures(results: Mapping[str, Result], name: str, kind: str) -> Result:
    return results[name]["kinds"].get(kind, {}) if name in results else {}
