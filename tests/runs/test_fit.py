"""Which evaluation is the best, and how many steps a run has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.runs.assembly import horizon_of
from encoderlab.runs.progress import Best
from encoderlab.training.config import TrainingConfig


@given(scores=st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=30))
def test_the_best_is_the_first_of_the_highest_and_counts_what_came_since(scores):
    best = Best()
    for step, score in enumerate(scores, start=1):
        best.offer(step, score)
    first = scores.index(max(scores))
    assert (best.score, best.step, best.since) == (max(scores), first + 1, len(scores) - 1 - first)


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
def test_steps_follow_from_epochs_unless_they_are_given(settings, steps):
    horizon, per_epoch = horizon_of(TrainingConfig(batch_size=32, **settings), rows=100)
    assert (horizon.steps(0), per_epoch) == (steps, 4)


def test_a_budget_decides_instead_of_steps_and_epochs():
    horizon, per_epoch = horizon_of(TrainingConfig(batch_size=32, budget="1.5h"), rows=100)
    assert (type(horizon).__name__, horizon.seconds, per_epoch) == ("TimeBudget", 5400, 4)
