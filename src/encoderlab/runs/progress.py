"""How far a run has come: what a checkpoint holds beside the weights, so that a continuation takes the same steps."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class Best:
    """The best evaluation so far: `score` at `step`, and how many evaluations have come since."""

    score: float = -1.0
    step: int = 0
    since: int = 0

    def offer(self, step: int, score: float) -> None:
        """Take in the evaluation after `step`; of equal scores the earlier stays."""
        if score > self.score:
            self.score, self.step, self.since = score, step, 0
        else:
            self.since += 1


@dataclass(slots=True)
class Counted:
    """What has gone by in training: seconds of it, and examples, real tokens and tokens with padding."""

    seconds: float = 0.0
    examples: int = 0
    tokens: int = 0
    padded_tokens: int = 0


@dataclass(slots=True)
class Progress:
    """Where a run stands: the last `step` taken, `of` how many, the step that was `judged` last, the best, and what was counted."""

    step: int = 0
    of: int = 0
    judged: int = 0
    best: Best = field(default_factory=Best)
    counted: Counted = field(default_factory=Counted)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as a checkpoint holds them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Progress:
        """What `as_dict` wrote."""
        return cls(**plain | {"best": Best(**plain["best"]), "counted": Counted(**plain["counted"])})
