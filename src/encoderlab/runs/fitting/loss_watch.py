"""Watches the logged losses of a run for two signs of trouble: a loss that rises again, and one that never falls.

Each is warned about once. Nothing else sees such a run while every loss is finite: `NonFiniteGuard` skips no step,
early stopping only counts evaluations without a better score, and a run without evaluations or with `keep=last` goes
through all its steps.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

WINDOW, FEWEST = (
    10,
    6,
)  # lines in the mean that is judged, because single batches vary; and the least in a window of a short run
DIVERGED_BY = 0.25  # least share of the first loss
FLAT_FROM = 0.9  # fraction of the first loss above which it counts as flat
RISING_ERRORS, FALLING_ERRORS = 3.0, 2.0  # standard errors allowed for chance


@dataclass(slots=True)
class LossWatch:
    """Warns once if the loss diverges, and once if it is flat; a function of only the lines it has seen.

    A level is the mean of a window of lines with its standard error: the spread of the lines over the root of their
    number. `first` is the loss of the first line, before anything is learned, and `opening` the first window.

    *Diverging*: the last window is, by more than three standard errors, above the `lowest` level so far (at first,
    `first`) by half of what was gained by then, and by at least a quarter of `first`. A run that has learned has to
    lose half of it again; one that has not has to get worse by a quarter.

    *Flat*: judged once, at the first line after half of the run with twice `FEWEST` lines, unless the run diverged. The
    last window's level is at least 0.9 of `first` and of the opening's level, and not below the opening's by two
    standard errors of their difference. So neither a run that learned within its first lines nor one that learns slowly
    is reported; one that rose at once by more than a tenth and then stayed level goes unnoticed.
    """

    first: float | None = None
    lowest: float | None = None
    lines: int = 0
    opening: list[float] = field(default_factory=list)
    recent: list[float] = field(default_factory=list)
    flatness_judged: bool = False
    divergence_reported: bool = False
    notes: list[str] = field(default_factory=list)

    def state(self) -> dict[str, Any]:
        """Return its state as plain values, from which `LossWatch` can be rebuilt."""
        return asdict(self)

    def see(self, step: int, of: int, loss: float | None) -> str | None:
        """Record the loss of a logged `step` out of `of`, None if it is not finite; return a new warning, if any."""
        if loss is None:
            return None
        self._take_in(loss)
        found = self._divergence(step) or self._flatness(step, of)
        if found is not None:
            self.notes.append(found)
        return found

    def _take_in(self, loss: float) -> None:
        if self.first is None:
            self.first = self.lowest = loss
        self.lines += 1
        if len(self.opening) < WINDOW:
            self.opening.append(loss)
        self.recent = [*self.recent[1 - WINDOW :], loss]

    def _divergence(self, step: int) -> str | None:
        if len(self.recent) < FEWEST:
            return None
        assert self.first is not None
        assert self.lowest is not None
        level, error = _level(self.recent)
        bound = self.lowest + max((self.first - self.lowest) / 2, DIVERGED_BY * self.first)
        was, self.lowest = self.lowest, min(self.lowest, level)
        if self.divergence_reported or level - RISING_ERRORS * error <= bound:
            return None
        self.divergence_reported = True
        return (
            f"The loss diverges: {level:.4g} over the logged steps up to {step:,}, {was:.4g} before."
            " Try a smaller training.learning_rate or a longer training.warmup"
        )

    def _flatness(self, step: int, of: int) -> str | None:
        if self.flatness_judged or self.divergence_reported or self.lines < 2 * FEWEST or 2 * step < of:
            return None
        assert self.first is not None
        self.flatness_judged = True
        window = min(WINDOW, self.lines // 2)
        level, error = _level(self.recent[-window:])
        opening, opening_error = _level(self.opening[:window])
        is_low = level < FLAT_FROM * max(self.first, opening)
        if is_low or opening - level > FALLING_ERRORS * math.hypot(error, opening_error):
            return None
        return (
            f"The loss is flat: {level:.4g} over the logged steps up to {step:,}, {self.first:.4g} at the first."
            " Try another training.learning_rate, and check the labels"
        )


def _level(losses: Sequence[float]) -> tuple[float, float]:
    """Return the mean, and its standard error."""
    return statistics.fmean(losses), statistics.stdev(losses) / math.sqrt(len(losses))
