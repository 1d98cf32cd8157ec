"""Which evaluation is the best, and how many steps a run has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.runs.fitting.progress import Best
from encoderlab.training.config import TrainingConfig
from encoderlab.training.horizon import horizon_of


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from([-0.5, 0.1, 0.7])), min_size=1, max_size=30))
def test_the_best_is_the_first_of_the_highest_with_the_lowest_loss_and_counts_what_came_since(evaluations):
    best = Best()
    for step, (score, loss) in enumerate(evaluations, start=1):
        best.offer(step, score, loss)
    ranks = [(score, -loss) for score, loss in evaluations]
    first = ranks.index(max(ranks))
    assert ((best.score, -best.loss), best.step, best.since) == (max(ranks), first + 1, len(ranks) - 1 - first)


def test_a_tie_with_a_lower_loss_does_not_count_against_patience():
    best = Best()
    for step, loss in enumerate([0.5, 0.4, 0.45, 0.4], start=1):
        best.offer(step, 0.9, loss)
    assert (best.step, best.since) == (2, 2)


def test_a_best_that_was_recorded_without_its_loss_gives_way_to_an_equal_score():
    best = Best(score=0.9, step=3, since=1)
    best.offer(4, 0.9, 0.3)
    assert (best.step, best.since) == (4, 0)


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
