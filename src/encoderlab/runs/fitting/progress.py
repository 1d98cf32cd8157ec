"""How far a run has come: what a checkpoint holds besides the weights, so that a resumed run takes the same steps."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class Best:
    """The best evaluation so far: `score` and `loss` at `step`, and how many evaluations have come since."""

    score: float = -math.inf
    step: int = 0
    since: int = 0
    loss: float = math.inf

    def offer(self, step: int, score: float, loss: float) -> None:
        """Record the evaluation after `step`. Ties in the score go to the lower loss, and ties in both to the earlier
        one.
        """
        if (score, -loss) > (self.score, -self.loss):
            self.score, self.loss, self.step, self.since = score, loss, step, 0
        else:
            self.since += 1


@dataclass(slots=True)
class Counted:
    """Totals of training so far: seconds, examples, real tokens, and tokens with padding."""

    seconds: float = 0.0
    examples: int = 0
    tokens: int = 0
    padded_tokens: int = 0


@dataclass(slots=True)
class Progress:
    """The progress of a run: the last `step` taken, `of` how many, the step `judged` last, the best one, and
    totals; the logged losses by which `see_loss` tells that the run diverges.
    """

    step: int = 0
    of: int = 0
    judged: int = 0
    best: Best = field(default_factory=Best)
    counted: Counted = field(default_factory=Counted)
    recent_losses: list[float] = field(default_factory=list)
    first_loss: float | None = None
    diverged_at: int | None = None

    def see_loss(self, loss: float) -> bool:
        """Record a logged loss; return whether the run diverges from here on, which is reported once.

        It does if the mean of the last ten lies a quarter above the loss before anything was learned.
        """
        self.first_loss = loss if self.first_loss is None else self.first_loss
        self.recent_losses = [*self.recent_losses[-9:], loss]
        if self.diverged_at is not None or len(self.recent_losses) < 10:
            return False
        if sum(self.recent_losses) / 10 <= 1.25 * self.first_loss:
            return False
        self.diverged_at = self.step
        return True

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, as a checkpoint holds them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Progress:
        """Return the progress that `as_dict` wrote."""
        nested = {"best": Best, "counted": Counted}
        return cls(**plain | {name: schema(**plain[name]) for name, schema in nested.items()})
