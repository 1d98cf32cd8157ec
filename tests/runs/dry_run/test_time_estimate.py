"""The time of a run: its steps, its evaluations, and everything before them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.runs.dry_run.time_estimate import SPREAD, run_time, with_time_before


@given(
    step=st.floats(1e-4, 100),
    steps=st.integers(1, 10_000),
    per=st.integers(1, 500),
    validation=st.floats(0, 100),
    test=st.floats(0, 100),
)
def test_a_runs_time_is_that_of_its_steps_and_evaluations(step, steps, per, validation, test):
    found = run_time(step, {"validation": validation, "test": test}, steps=steps, budget=None, per_evaluation=per)
    evaluations = len({*range(per, steps + 1, per), steps})
    assert found["evaluations"] == evaluations
    assert found["training"] == pytest.approx(steps * step)
    assert found["total"] == pytest.approx(steps * step + (evaluations + 1) * validation + test)
    assert (found["low"], found["high"]) == pytest.approx(
        ((1 - SPREAD) * found["total"], (1 + SPREAD) * found["total"])
    )


def test_a_budget_ends_a_run_however_long_a_step_takes():
    slow, quick = (run_time(s, {"validation": 5.0}, steps=None, budget=600, per_evaluation=10) for s in (2.0, 0.5))
    assert slow["total"] == quick["total"] == 605
    assert slow["steps"] == 240 and quick["steps"] == 600
    assert run_time(99, {}, steps=None, budget=1, per_evaluation=1)["steps"] == 1


def test_time_before_the_first_step_is_counted():
    alone = run_time(0.5, {"validation": 2.0}, steps=100, budget=None, per_evaluation=50)
    found = with_time_before(alone, {"adapting": 300.0})
    assert [found[name] - alone[name] for name in ("total", "low", "high")] == pytest.approx([300, 300, 300])
    assert found["before"] == {"adapting": 300.0} and found["training"] == alone["training"]
