"""The time of a run from a few of its steps: right where time follows length, and a range that says how little is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.runs.dry_run.time_estimate import LEAST_SPREAD, StepTime, run_time, step_time, with_time_before

lengths = st.lists(st.integers(10, 5000), min_size=5, max_size=30)


@given(tokens=lengths, mean=st.integers(10, 5000), fixed=st.floats(0.001, 1), per_token=st.floats(1e-6, 1e-2))
def test_time_that_follows_length_is_told_exactly_however_unlucky_the_draw(tokens, mean, fixed, per_token):
    found = step_time([fixed + per_token * n for n in tokens], tokens, mean)
    slope = per_token if len(set(tokens)) > 1 else 0
    expected = fixed + per_token * np.mean(tokens) + slope * (mean - np.mean(tokens))
    least = (fixed + per_token * min(tokens)) / 2
    assert found.seconds == pytest.approx(max(expected, least), rel=1e-6)
    assert found.error == pytest.approx(0, abs=1e-6 * expected)


@given(seconds=st.lists(st.floats(0.001, 10), min_size=1, max_size=4), mean=st.integers(1, 1000))
def test_of_few_steps_the_mean_is_taken(seconds, mean):
    found = step_time(seconds, [100 + n for n in range(len(seconds))], mean)
    assert found.seconds == pytest.approx(max(np.mean(seconds), min(seconds) / 2))


def test_the_error_is_that_of_a_mean():
    draw = np.random.default_rng(0)
    found = [step_time(draw.normal(1, 0.2, 20).tolist(), [64] * 20, 64) for _ in range(400)]
    inside = [abs(one.seconds - 1) < 2 * one.error for one in found]
    assert 0.9 < np.mean(inside) < 0.98


def test_a_slower_short_step_does_not_make_long_ones_quick():
    assert step_time([2, 2, 1, 1, 1], [10, 10, 50, 50, 50], 1000).seconds == pytest.approx(1.4)


@given(
    step=st.floats(1e-4, 100),
    error=st.floats(0, 1),
    steps=st.integers(1, 10_000),
    per=st.integers(1, 500),
    validation=st.floats(0, 100),
    test=st.floats(0, 100),
)
def test_a_run_is_its_steps_and_its_evaluations(step, error, steps, per, validation, test):
    found = run_time(StepTime(step, error), {"validation": validation, "test": test}, steps=steps, budget=None, per_evaluation=per)
    evaluations = len({*range(per, steps + 1, per), steps})
    assert found["evaluations"] == evaluations
    assert found["training"] == pytest.approx(steps * step)
    assert found["total"] == pytest.approx(steps * step + (evaluations + 1) * validation + test)
    assert 0 <= found["low"] <= (1 - LEAST_SPREAD) * found["total"] * (1 + 1e-9)
    assert found["high"] >= (1 + LEAST_SPREAD) * found["total"] * (1 - 1e-9)


def test_a_budget_ends_a_run_whatever_a_step_takes():
    slow, quick = (run_time(StepTime(s, 0.1), {"validation": 5.0}, steps=None, budget=600, per_evaluation=10) for s in (2.0, 0.5))
    assert slow["total"] == quick["total"] == 605
    assert slow["steps"] == 240 and quick["steps"] == 600
    assert run_time(StepTime(99, 0), {}, steps=None, budget=1, per_evaluation=1)["steps"] == 1


def test_what_comes_before_a_run_is_counted():
    alone = run_time(StepTime(0.5, 0.01), {"validation": 2.0}, steps=100, budget=None, per_evaluation=50)
    found = with_time_before(alone, {"adapting": 300.0})
    assert [found[name] - alone[name] for name in ("total", "low", "high")] == pytest.approx([300, 300, 300])
    assert found["before"] == {"adapting": 300.0} and found["training"] == alone["training"]
