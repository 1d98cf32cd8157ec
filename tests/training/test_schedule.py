"""The learning rate as a function of the step."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.training.config import Schedule, TrainingConfig
from encoderlab.training.optimizer import learning_rate_at, peak_for_width


def rates(steps, **settings):
    return [learning_rate_at(step, steps, TrainingConfig(**settings)) for step in range(steps + 1)]


@pytest.mark.slow
@given(
    schedule=st.sampled_from(Schedule),
    steps=st.integers(1, 300),
    warmup=st.floats(0, 0.99, allow_subnormal=False),
    peak=st.floats(1e-6, 1),
)
def test_every_schedule_stays_between_zero_and_its_peak_and_trains_in_every_step(schedule, steps, warmup, peak):
    found = rates(steps, schedule=schedule, warmup=warmup, learning_rate=peak)
    assert all(0 < rate <= peak * (1 + 1e-9) for rate in found[:-1])


@pytest.mark.parametrize("schedule", [Schedule.linear, Schedule.cosine, Schedule.one_cycle])
@pytest.mark.parametrize("steps", [1, 7, 100])
def test_falling_schedules_end_at_exactly_zero_after_the_last_step(schedule, steps):
    assert rates(steps, schedule=schedule)[-1] == 0


def test_warm_up_rises_in_a_straight_line_to_the_peak():
    found = rates(100, schedule=Schedule.linear, warmup=0.1, learning_rate=1.0)
    assert found[:10] == pytest.approx([0.1 * n for n in range(1, 11)])
    assert found[10:] == pytest.approx([1 - n / 90 for n in range(91)])


def test_constant_stays_at_its_peak_after_the_warm_up():
    assert set(rates(20, schedule=Schedule.constant, warmup=0.0, learning_rate=0.5)) == {0.5}


def test_one_cycle_moves_as_pytorchs_own_but_for_half_a_step():
    config = TrainingConfig(schedule=Schedule.one_cycle, warmup=0.3, learning_rate=1e-3)
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    theirs = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-3, total_steps=400, pct_start=0.3)
    for step in range(399):
        assert learning_rate_at(step, 400, config) == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-5)
        optimizer.step()
        theirs.step()


@given(width=st.integers(1, 4096), wider=st.integers(1, 4096))
def test_a_wider_encoder_is_never_finetuned_in_larger_steps(width, wider):
    assert 0 < peak_for_width(width + wider) <= peak_for_width(width) <= 1e-3
