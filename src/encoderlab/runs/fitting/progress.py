"""How far a run has come: what a checkpoint holds besides the weights, so that a resumed run takes the same steps."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from encoderlab.runs.fitting.loss_watch import LossWatch


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
    """The progress of a run: the last `step` taken, `of` how many, the step `judged` last, the best one, totals and
    loss watch.
    """

    step: int = 0
    of: int = 0
    judged: int = 0
    best: Best = field(default_factory=Best)
    counted: Counted = field(default_factory=Counted)
    watch: LossWatch = field(default_factory=LossWatch)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, as a checkpoint holds them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Progress:
        """Return the progress that `as_dict` wrote."""
        nested = {"best": Best, "counted": Counted, "watch": LossWatch}
        return cls(**plain | {name: schema(**plain[name]) for name, schema in nested.items()})
