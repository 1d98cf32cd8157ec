"""How long a run would take, from the time of a step and of an evaluation; with the range to expect between runs on one
machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SPREAD = 0.2  # share of an estimate, in each direction


def with_time_before(time: Mapping[str, Any], before: Mapping[str, float]) -> dict[str, Any]:
    """Return the result of `run_time` with the seconds of steps `before` the run, by name, added to the total and its
    range.
    """
    more = sum(before.values())
    return {**time, "before": dict(before), **{name: time[name] + more for name in ("total", "low", "high")}}


def run_time(
    step: float, evaluations: Mapping[str, float], *, steps: int | None, budget: float | None, per_evaluation: int
) -> dict[str, Any]:
    """Return the seconds of a whole run: `training`, `evaluation`, `total`, and the range `low` to `high` of that.

    `step` is the mean seconds of a step, `evaluations` those of one evaluation of each split. Validation is scored
    after each `per_evaluation` steps and after the last one, and at the end each split is scored once. If a `budget` of
    seconds ends the run, `steps` are estimated from it.
    """
    validation = evaluations.get("validation", 0.0)
    if steps is None:
        assert budget is not None, "a run ends after some steps or some time"
        steps = max(int(budget / (step + validation / per_evaluation)), 1)
    n_evaluations = -(-steps // per_evaluation)
    training = steps * step
    evaluation = n_evaluations * validation + sum(evaluations.values())
    total = training + evaluation if budget is None else budget + sum(evaluations.values())
    return {
        "steps": steps,
        "evaluations": n_evaluations,
        "training": training,
        "evaluation": evaluation,
        "total": total,
        "low": (1 - SPREAD) * total,
        "high": (1 + SPREAD) * total,
    }
