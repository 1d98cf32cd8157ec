"""Where a run ends: after a number of steps, or when its time is up."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.errors import SettingError
from encoderlab.training.config import Schedule, TrainingConfig, seconds_of
from encoderlab.training.horizon import TimeBudget, fixed_by_rows, horizon_of, length_in_words, passes_for, total_steps
from encoderlab.training.optimizer import learning_rate_at
from tests.stand_ins import Clock


def run(seconds, durations, *, compiled=False):
    """Return when each step within the budget ends, if steps take these `durations`, and its learning rate."""
    clock = Clock(1000.0)
    budget = TimeBudget(seconds, clock=clock, compiled=compiled)
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


def test_a_pace_that_changes_is_followed_and_the_end_is_still_in_time():
    slow_start = run(60.0, [5.0] + [0.1] * 2000)
    slow_end = run(60.0, [0.1] * 300 + [0.5] * 2000)
    for ends, rates in (slow_start, slow_end):
        assert 58 < ends[-1] <= 60.0 + 1e-6
        assert rates[-1] < 0.05


def test_the_first_step_has_a_positive_rate_before_its_time_is_known():
    _, rates = run(100.0, [1.0] * 200)
    assert rates[0] >= 0.005


def test_there_is_always_one_step():
    ends, _ = run(0.001, [5.0] * 3)
    assert len(ends) == 1


@pytest.mark.parametrize(("budget", "seconds"), [("90s", 90), ("30m", 1800), ("1.5h", 5400)])
def test_a_budget_is_read_as_it_is_written(budget, seconds):
    assert seconds_of(budget) == seconds


@pytest.mark.parametrize("budget", ["30", "0m", "m", "-3m", "3 min", "", "1e9h", "nanh"])
def test_an_invalid_duration_is_refused_with_an_example(budget):
    with pytest.raises(SettingError, match=r"training\.budget=.* is not a time.*Set training\.budget=30m"):
        TrainingConfig(budget=budget)


def test_a_budget_resumes_with_what_was_left_of_it():
    clock = Clock(1000.0)
    budget = TimeBudget(100.0, clock=clock)
    budget.resume(40.0)
    assert budget.steps(20) == 20 + 30  # 60 seconds are left, and a step took two
    clock.now += 60
    assert (budget.steps(50), budget.spent()) == (50, 100.0)


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
    fixed = fixed_by_rows(FINETUNING, rows)
    assert (fixed.epochs, total_steps(fixed, rows), fixed.evaluate_every) == (epochs, steps, every)


@given(rows=st.integers(1, 10**7), batch_size=st.integers(1, 512))
def test_every_run_has_at_least_one_epoch_and_no_more_evaluations_than_requested(rows, batch_size):
    fixed = fixed_by_rows(replace(FINETUNING, batch_size=batch_size), rows)
    steps = total_steps(fixed, rows)
    assert 1 <= fixed.epochs <= 20
    assert steps * batch_size >= rows
    assert -(-steps // fixed.evaluate_every) <= 10


def test_decided_settings_are_not_decided_again():
    fixed = fixed_by_rows(FINETUNING, 3_000)
    assert fixed_by_rows(fixed, 3_000) == fixed
    assert fixed_by_rows(fixed, 100) == fixed


@pytest.mark.parametrize(
    ("given", "epochs", "steps", "every"),
    [
        ({"epochs": 3.0}, 3, 282, 29),
        ({"steps": 50}, None, 50, 5),
        ({"epochs": 0.5, "evaluate_every": 7}, 0.5, 47, 7),
    ],
)
def test_explicit_settings_override_the_number_of_rows(given, epochs, steps, every):
    fixed = fixed_by_rows(replace(FINETUNING, **given), 3_000)
    assert (fixed.epochs, total_steps(fixed, 3_000), fixed.evaluate_every) == (epochs, steps, every)


def test_a_budget_leaves_open_how_often_rows_are_read_and_is_evaluated_once_an_epoch():
    fixed = fixed_by_rows(replace(FINETUNING, budget="5m"), 3_000)
    assert (fixed.epochs, fixed.evaluate_every) == (None, None)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {},
            "11 epochs, 1,034 steps of 32 rows; evaluated every 104 steps, and stopped after 4 evaluations without a better score",
        ),
        ({"patience": None}, "11 epochs, 1,034 steps of 32 rows; evaluated every 104 steps"),
        (
            {"steps": 1, "patience": 1},
            "0.01 epochs, 1 step of 32 rows; evaluated every step, and stopped after 1 evaluation without",
        ),
        (
            {"epochs": 1.0, "evaluations": None, "patience": None},
            "1 epoch, 94 steps of 32 rows; evaluated every 94 steps",
        ),
        ({"budget": "5m", "patience": None}, "5m of steps of 32 rows (94 per epoch); evaluated every 94 steps"),
    ],
)
def test_the_length_of_a_run_is_printed_in_words(given, words):
    config = fixed_by_rows(replace(FINETUNING, **given), 3_000)
    described = length_in_words(config, 3_000, evaluated=True)
    assert described.startswith(words)
    assert described == words or "patience" in given
    assert length_in_words(config, 3_000, evaluated=False) == words.partition(";")[0]


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
    assert fixed_by_rows(replace(FINETUNING, max_tokens=2_000_000), rows, tokens).epochs == epochs


def test_a_first_step_in_which_code_is_compiled_keeps_the_warmup_and_the_rest_of_the_budget():
    ends, rates = run(90.0, [50.0] + [0.1] * 1000, compiled=True)
    assert 88 < ends[-1] <= 90.0 + 1e-6
    peak = rates.index(max(rates))
    assert 20 <= peak <= 60, "a tenth of the 400 steps that there is time for"
    assert rates[-1] < 0.05


def test_recompiling_for_a_second_layout_does_not_count_towards_the_pace():
    ends, rates = run(100.0, [20.0, 0.1, 0.1, 30.0] + [0.1] * 1000, compiled=True)
    assert 98 < ends[-1] <= 100.0 + 1e-6
    assert max(abs(after - before) for before, after in zip(rates[4:], rates[5:], strict=False)) < 0.05


def test_compiling_may_use_up_the_whole_budget():
    ends, _ = run(90.0, [95.0] + [0.1] * 10, compiled=True)
    assert len(ends) == 1


def test_a_resumed_run_recompiles_and_keeps_its_old_pace():
    clock = Clock(1000.0)
    budget = TimeBudget(100.0, clock=clock, compiled=True)
    budget.resume(20.0)
    assert budget.steps(200) == 200 + 800
    clock.now += 30.0
    assert budget.steps(201) == pytest.approx(201 + 500, rel=0.02)


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
    horizon, per_epoch = horizon_of(TrainingConfig(batch_size=32, **settings), rows=100)
    assert (horizon.steps(0), per_epoch) == (steps, 4)


def test_a_budget_decides_instead_of_steps_and_epochs():
    horizon, per_epoch = horizon_of(TrainingConfig(batch_size=32, budget="1.5h"), rows=100)
    assert (type(horizon).__name__, horizon.seconds, per_epoch) == ("TimeBudget", 5400, 4)


def test_many_labels_need_more_passes_but_not_in_addition_to_the_tasks_own():
    config = replace(FINETUNING, many_labels_passes=2)
    assert [passes_for(config, 1, labels) for labels in (0, 2, 49, 50, 150)] == [1, 1, 1, 2, 2]
    assert passes_for(config, 4, 150) == 4
    assert passes_for(FINETUNING, 1, 150) == 1
