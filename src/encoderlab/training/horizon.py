"""How long a run goes on: a number of steps, or as many as a time allows."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable


class Horizon(ABC):
    """Where a run ends, as far as that is known."""

    @abstractmethod
    def steps(self, done: int) -> int:
        """How many steps the run is expected to have in all, `done` of them having been taken. It is over when that is `done`."""

    def spent(self) -> float:
        """Seconds that are gone of the time there is, for a continuation to know; 0 where time does not matter."""
        return 0.0


class FixedSteps(Horizon):
    """A run of so many steps."""

    def __init__(self, total: int) -> None:
        self.total = total

    def steps(self, done: int) -> int:
        """See `Horizon.steps`."""
        return self.total


class TimeBudget(Horizon):
    """A run of so many seconds from its first step on, evaluations included, and of one step at least; `spent` are gone already.

    The number of steps is estimated anew after each of them, from the time that all have taken so far. A schedule that follows the
    estimate comes down to zero with the last step, which ends before the time does.
    """

    GUESS = 1000  # steps, before the first one has been timed: its learning rate is that of a warmup of some length

    def __init__(self, seconds: float, spent: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self.clock = seconds, clock
        self._spent = spent
        self._started: float | None = None

    def steps(self, done: int) -> int:
        """See `Horizon.steps`."""
        if self._started is None:
            self._started = self.clock() - self._spent
            self._before = 0 if self._spent else done
        taken = done - self._before
        if taken == 0:
            return done + self.GUESS
        elapsed = self.clock() - self._started
        return done + max(int((self.seconds - elapsed) * taken / max(elapsed, 1e-9)), 0)

    def spent(self) -> float:
        """See `Horizon.spent`."""
        return self._spent if self._started is None else self.clock() - self._started
