"""Where a run ends: after a number of steps, or when its time is up."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.training.config import Schedule, TrainingConfig, resolve_by_rows, steps_per_epoch, total_steps
from encoderlab.training.loop import TimeBudget, horizon_of
from encoderlab.training.optimizer import learning_rate_at
from tests.stand_ins import Clock


def run(seconds, durations, *, compiled=False):
    """Return when each step within the budget ends, if steps take these `durations`, and its learning rate."""
    clock = Clock(1000.0)
    budget = TimeBudget(seconds, clock=clock, compiled=compiled)
    config = TrainingConfig(schedule=Schedule.linear, warmup=0.1, learning_rate=1.0)
    ends, rates = [], []
    for done, duration in enumerate(durations):
        steps = budget.expected_total(done)
        if steps == done:
            break
        rates.append(learning_rate_at(done, steps, config))
        clock.now += duration
        ends.append(clock.now - 1000.0)
    return ends, rates


@given(seconds=st.floats(1, 300), pace=st.floats(0.05, 2))
@settings(deadline=None)
def test_steps_of_equal_length_use_the_budget_and_never_exceed_it(seconds, pace):
    ends, rates = run(seconds, [pace] * 10_000)
    assert len(ends) == 1 or ends[-1] <= seconds + 1e-6
    assert ends[-1] + 2 * pace > seconds or len(ends) == 1
    assert all(0 < rate <= 1 for rate in rates)


def test_the_schedule_reaches_zero_at_the_last_step():
    _, rates = run(100.0, [0.1] * 2000)
    assert 900 <= len(rates) <= 1000
    assert rates[-1] == pytest.approx(1 / (0.9 * len(rates)), rel=0.05)
    peak = rates.index(max(rates))
    assert 0.08 <= peak / len(rates) <= 0.12
    assert all(a >= b for a, b in zip(rates[peak:], rates[peak + 1 :], strict=False))


def test_a_budget_resumes_with_what_was_left_of_it():
    clock = Clock(1000.0)
    budget = TimeBudget(100.0, clock=clock)
    budget.resume(40.0)
    assert budget.expected_total(20) == 20 + 30  # 60 seconds are left, and a step took two
    clock.now += 60
    assert (budget.expected_total(50), budget.spent()) == (50, 100.0)


FINETUNING = TrainingConfig(epochs=None, min_steps=1000, max_epochs=20, evaluations=10, patience=4, batch_size=32)


@pytest.mark.parametrize(
    ("rows", "epochs", "steps", "every"),
    [
        (1, 20, 20, 2),
        (270, 20, 180, 18),  # few rows are read often
        (3_000, 11, 1_034, 104),  # in between, the run has about min_steps steps
        (14_000, 2, 876, 88),
        (300_000, 1, 9_375, 938),  # many are read once
    ],
)
def test_the_number_of_rows_decides_how_often_they_are_read(rows, epochs, steps, every):
    fixed = resolve_by_rows(FINETUNING, rows)
    assert (fixed.epochs, total_steps(fixed, rows), fixed.evaluate_every) == (epochs, steps, every)


@given(rows=st.integers(1, 10**7), batch_size=st.integers(1, 512))
def test_every_run_has_at_least_one_epoch_and_no_more_evaluations_than_requested(rows, batch_size):
    fixed = resolve_by_rows(replace(FINETUNING, batch_size=batch_size), rows)
    steps = total_steps(fixed, rows)
    assert 1 <= fixed.epochs <= 20
    assert steps * batch_size >= rows
    assert -(-steps // fixed.evaluate_every) <= 10


@pytest.mark.parametrize(
    ("given", "epochs", "steps", "every"),
    [({"epochs": 3.0}, 3, 282, 29), ({"steps": 50}, None, 50, 5), ({"epochs": 0.5, "evaluate_every": 7}, 0.5, 47, 7)],
)
def test_explicit_settings_override_the_number_of_rows(given, epochs, steps, every):
    fixed = resolve_by_rows(replace(FINETUNING, **given), 3_000)
    assert (fixed.epochs, total_steps(fixed, 3_000), fixed.evaluate_every) == (epochs, steps, every)


@pytest.mark.parametrize(
    ("rows", "tokens", "epochs"),
    [
        (1_500, 45_000, 20),  # short rows: as ever
        (1_500, 200_000, 10),  # 2 million tokens
        (1_500, 1_000_000, 3),  # long ones: three times, whatever they take
        (20_000, 9_000_000, 2),  # what the steps ask for, if that is less
    ],
)
def test_long_rows_are_read_fewer_times(rows, tokens, epochs):
    assert resolve_by_rows(replace(FINETUNING, max_tokens=2_000_000), rows, tokens).epochs == epochs


def test_a_first_step_in_which_code_is_compiled_keeps_the_warmup_and_the_rest_of_the_budget():
    ends, rates = run(90.0, [50.0] + [0.1] * 1000, compiled=True)
    assert 88 < ends[-1] <= 90.0 + 1e-6
    peak = rates.index(max(rates))
    assert 20 <= peak <= 60, "a tenth of the 400 steps that there is time for"
    assert rates[-1] < 0.05


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({"epochs": 2.0}, 8),
        ({"epochs": 0.5}, 2),
        ({"epochs": 0.001}, 1),
        ({"epochs": 9.0, "steps": 3}, 3),
        ({"epochs": 1.0, "accumulate": 4}, 4),
    ],
)
def test_steps_follow_from_epochs_unless_set(settings, steps):
    config = TrainingConfig(batch_size=32, **settings)
    assert (horizon_of(config, n_rows=100).expected_total(0), steps_per_epoch(config, n_rows=100)) == (steps, 4)
