"""Watches the logged losses of a run for two signs that it learns nothing: a loss that rises again, and one that never falls."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from statistics import fmean, median
from typing import Any

WINDOW, FEWEST = 10, 6  # lines that are judged together, since single batches scatter; and in a window at least
DIVERGED_BY = 0.25  # of the first loss, at least
FLAT_FROM = 0.975  # of the mean of the first window on
LEARNT_BELOW = 0.9  # of the first loss: what was learnt within the first window is no flat loss


@dataclass(slots=True)
class LossWatch:
    """Says once that the loss diverges, and once that it is flat; a function of the lines it was shown, and of nothing else.

    `first` is the loss of the first line, whose weights have learnt nothing; a window is ten lines.
    *Diverging*: a window's median lies above the `lowest` one so far by half of what was gained by then, and by a quarter of
    `first` at least. A single bad batch does not move it.
    *Flat*: judged once, in the middle of the run. The window's mean is about that of the `opening`, and not well below `first`.
    """

    first: float | None = None
    lowest: float = 0.0
    opening: list[float] = field(default_factory=list)
    recent: list[float] = field(default_factory=list)
    lines: int = 0
    flatness_judged: bool = False
    diverged: bool = False
    notes: list[str] = field(default_factory=list)

    def state(self) -> dict[str, Any]:
        """All it knows, as plain values, of which `LossWatch` can be made again."""
        return asdict(self)

    def see(self, step: int, of: int, loss: float | None) -> str | None:
        """Take in the loss of a logged `step` `of` so many, None where that is not finite; a warning, if there is a new one."""
        if loss is None:
            return None
        if self.first is None:
            self.first = self.lowest = loss
        self.lines += 1
        self.opening = [*self.opening, loss][:WINDOW]
        self.recent = [*self.recent, loss][-WINDOW:]
        found = self._divergence(step, self.first) or self._flatness(step, of, self.first)
        self.notes += [found] if found else []
        return found

    def _divergence(self, step: int, first: float) -> str | None:
        if len(self.recent) < FEWEST:
            return None
        level, lowest = median(self.recent), self.lowest
        self.lowest = min(lowest, level)
        if self.diverged or level <= lowest + max((first - lowest) / 2, DIVERGED_BY * first):
            return None
        self.diverged = True
        return (
            f"The loss diverges: {level:.4g} over the logged steps up to {step:,}, {lowest:.4g} before."
            " Try a smaller training.learning_rate or a longer training.warmup"
        )

    def _flatness(self, step: int, of: int, first: float) -> str | None:
        if self.flatness_judged or self.diverged or self.lines < 2 * FEWEST or 2 * step < of:
            return None
        self.flatness_judged = True
        level = fmean(self.recent)
        if level < max(FLAT_FROM * fmean(self.opening), LEARNT_BELOW * first):
            return None
        return (
            f"The loss is flat: {level:.4g} over the logged steps up to {step:,}, {first:.4g} at the first."
            " Try another training.learning_rate, and look at the labels"
        )
