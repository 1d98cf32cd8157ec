"""Where a run ends: after so many steps, or when its time is up."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.errors import SettingError
from encoderlab.training.config import Schedule, TrainingConfig, seconds_of
from encoderlab.training.horizon import TimeBudget
from encoderlab.training.schedule import learning_rate_at


class Clock:
    """A clock that each step moves on."""

    now = 1000.0

    def __call__(self):
        return self.now


def run(seconds, durations):
    """The steps a budget allows where they take these `durations`: when each ends, and its learning rate."""
    clock = Clock()
    budget = TimeBudget(seconds, clock=clock)
    config = TrainingConfig(schedule=Schedule.linear, warmup=0.1, learning_rate=1.0)
    ends, rates = [], []
    for done, duration in enumerate(durations):
        steps = budget.steps(done)
        if steps == done:
            break
        rates.append(learning_rate_at(done, steps, config))
        clock.now += duration
        ends.append(clock.now - 1000.0)
    return ends, rates


@given(seconds=st.floats(1, 300), pace=st.floats(0.05, 2))
@settings(deadline=None)
def test_steps_of_one_length_use_the_time_up_and_never_exceed_it(seconds, pace):
    ends, rates = run(seconds, [pace] * 10_000)
    assert len(ends) == 1 or ends[-1] <= seconds + 1e-6
    assert ends[-1] + 2 * pace > seconds or len(ends) == 1
    assert all(0 < rate <= 1 for rate in rates)


def test_the_schedule_comes_down_to_zero_with_the_last_step():
    _, rates = run(100.0, [0.1] * 2000)
    assert 900 <= len(rates) <= 1000
    assert rates[-1] == pytest.approx(1 / (0.9 * len(rates)), rel=0.05)
    peak = rates.index(max(rates))
    assert 0.08 <= peak / len(rates) <= 0.12
    assert all(a >= b for a, b in zip(rates[peak:], rates[peak + 1 :], strict=False))


def test_a_pace_that_changes_is_followed_and_the_end_is_still_in_time():
    slow_start = run(60.0, [5.0] + [0.1] * 2000)
    slow_end = run(60.0, [0.1] * 300 + [0.5] * 2000)
    for ends, rates in (slow_start, slow_end):
        assert 58 < ends[-1] <= 60.0 + 1e-6
        assert rates[-1] < 0.05


def test_the_first_step_learns_something_though_nothing_is_known_of_the_time_yet():
    _, rates = run(100.0, [1.0] * 200)
    assert rates[0] >= 0.005


def test_there_is_always_one_step():
    ends, _ = run(0.001, [5.0] * 3)
    assert len(ends) == 1


@pytest.mark.parametrize(("budget", "seconds"), [("90s", 90), ("30m", 1800), ("1.5h", 5400)])
def test_a_budget_is_read_as_it_is_written(budget, seconds):
    assert seconds_of(budget) == seconds


@pytest.mark.parametrize("budget", ["30", "0m", "m", "-3m", "3 min", "", "1e9h", "nanh"])
def test_what_is_no_time_is_refused_with_an_example(budget):
    with pytest.raises(SettingError, match=r"training\.budget=.* is no time.*Type training\.budget=30m"):
        TrainingConfig(budget=budget)


def test_a_budget_goes_on_with_what_was_left_of_it():
    clock = Clock()
    budget = TimeBudget(100.0, spent=40.0, clock=clock)
    assert budget.steps(20) == 20 + 30  # 60 seconds are left, and a step took two
    clock.now += 60
    assert (budget.steps(50), budget.spent()) == (50, 100.0)
