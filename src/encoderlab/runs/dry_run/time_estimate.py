"""How long a run would take, from a few of its steps and evaluation batches; with the range that so few leave open.

The estimate is a regression of steps on tokens, with a range of two standard errors and at least a tenth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

LEAST_SPREAD = 0.1  # of an estimate, to each side: no two runs on a machine take the same time
STANDARD_ERRORS = 2.0  # to each side, for about 95 percent
LEAST_FOR_A_LINE = 5  # steps: through fewer points of time and tokens, no line is drawn


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of the mean step, and the standard error of that."""

    seconds: float
    error: float


def step_time(seconds: Sequence[float], tokens: Sequence[int], mean_tokens: float) -> StepTime:
    """The mean step's time, `mean_tokens` long, from the times and lengths of some steps drawn at random.

    The regression estimator (Cochran 1977, section 7.1): drawn steps that are longer than the mean are made shorter along the line
    that fits them, which a few steps of very unequal length need. Of few steps, or of equal ones, it is the plain mean.
    """
    times, lengths = np.asarray(seconds, np.float64), np.asarray(tokens, np.float64)
    centred = lengths - lengths.mean()
    spread = float((centred**2).sum())
    slope = float((centred * times).sum()) / spread if len(times) >= LEAST_FOR_A_LINE and spread else 0.0
    estimate = float(times.mean()) + max(slope, 0.0) * (mean_tokens - float(lengths.mean()))
    left = times - times.mean() - max(slope, 0.0) * centred
    freedom = max(len(times) - (2 if slope else 1), 1)
    error = float(np.sqrt((left**2).sum() / freedom / len(times)))
    return StepTime(max(estimate, float(times.min()) / 2), error)  # a line may run below zero far from its points


def with_time_before(time: Mapping[str, Any], before: Mapping[str, float]) -> dict[str, Any]:
    """What `run_time` gives, with the seconds of what comes `before` the run, by what it does, in the total and its range."""
    more = sum(before.values())
    return {**time, "before": dict(before), **{name: time[name] + more for name in ("total", "low", "high")}}


def run_time(
    step: StepTime, evaluations: Mapping[str, float], *, steps: int | None, budget: float | None, per_evaluation: int
) -> dict[str, Any]:
    """Seconds of a whole run: `training`, `evaluation`, `total`, and the range `low` to `high` of that.

    `evaluations` are the seconds of one evaluation of each split: validation's comes after each `per_evaluation` steps and after
    the last one, and at the end each is scored once. Where a `budget` of seconds ends the run, `steps` are estimated from it.
    """
    validation = evaluations.get("validation", 0.0)
    if steps is None:
        assert budget is not None, "a run ends after some steps or some time"
        steps = max(int(budget / (step.seconds + validation / per_evaluation)), 1)
    n_evaluations = -(-steps // per_evaluation)
    training = steps * step.seconds
    evaluation = n_evaluations * validation + sum(evaluations.values())
    total = training + evaluation if budget is None else budget + sum(evaluations.values())
    spread = max(STANDARD_ERRORS * steps * step.error, LEAST_SPREAD * total) if budget is None else LEAST_SPREAD * total
    return {
        "steps": steps,
        "evaluations": n_evaluations,
        "training": training,
        "evaluation": evaluation,
        "total": total,
        "low": max(total - spread, 0.0),
        "high": total + spread,
    }
