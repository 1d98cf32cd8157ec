"""A diverging loss and a flat loss are each warned about once; runs that learn get no warning."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.runs.fitting.loss_watch import LossWatch


def warnings(losses):
    watch = LossWatch()
    for number, loss in enumerate(losses, start=1):
        watch.see(number, len(losses), loss)
    return [note.split(":")[0] for note in watch.notes]


def curve(n, of, noise, seed=0):
    """Return `of` the position in the run (0 to 1) at each step, with the noise of single batches."""
    # fmt: skip
    return [
        float(of(place) + noise * draw)
        for place, draw in zip(np.linspace(0, 1, n), np.random.default_rng(seed).normal(size=n), strict=True)
    ]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "of",
    [
        lambda place: 0.7 * np.exp(-5 * place),
        lambda place: 0.7 if place == 0 else 0.01,  # learnt between the first line and the second
        lambda place: 0.7 if place < 0.3 else 0.2,  # flat at first
        lambda place: 0.7 - 0.1 * place,  # slowly but surely
        lambda place: 11 - 4 * place**0.3,
    ],
    ids=["at once falling", "learnt at once", "flat at first", "slow", "of a vocabulary"],
)
def test_runs_that_learn_get_no_warning(of, seed):
    assert warnings(curve(100, of, 0.02, seed)) == []


@pytest.mark.parametrize("seed", range(5))
def test_a_run_that_never_learns_has_a_flat_loss(seed):
    assert warnings(curve(60, lambda place: 0.7, 0.02, seed)) == ["The loss is flat"]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "of",
    [lambda place: 0.7 if place < 0.2 else 5.0, lambda place: 0.7 * abs(1 - 2 * place), lambda place: 0.7 + 2 * place],
    ids=["jumps up", "learns and loses it again", "rises"],
)
def test_a_run_whose_loss_rises_diverges_and_gets_no_other_warning(of, seed):
    assert warnings(curve(80, of, 0.02, seed)) == ["The loss diverges"]


def test_a_single_bad_batch_is_not_a_divergence():
    losses = curve(60, lambda place: 0.7 * np.exp(-5 * place), 0.01)
    losses[40] = 9.0
    assert warnings(losses) == []


def test_warnings_name_the_figures_the_step_and_what_to_try():
    watch = LossWatch()
    warnings = [watch.see(10 * number, 300, 2.5) for number in range(1, 31)]
    assert [line for line in warnings if line] == [
        "The loss is flat: 2.5 over the logged steps up to 150, 2.5 at the first. Try another training.learning_rate, "
        "and check the labels"
    ]


@given(losses=st.lists(st.floats(0, 100, allow_subnormal=False) | st.none(), max_size=60), cut=st.integers(0, 60))
def test_a_watch_resumes_from_its_state_as_if_never_stopped(losses, cut):
    whole, first = LossWatch(), LossWatch()
    for number, loss in enumerate(losses):
        whole.see(number, 60, loss)
    for number, loss in enumerate(losses[:cut]):
        first.see(number, 60, loss)
    second = LossWatch(**json.loads(json.dumps(first.state())))
    for number, loss in enumerate(losses[cut:], start=min(cut, len(losses))):
        second.see(number, 60, loss)
    assert second == whole


@given(losses=st.lists(st.floats(0, 1e30, allow_subnormal=False), max_size=80))
def test_each_warning_comes_at_most_once_and_none_after_a_divergence(losses):
    assert warnings(losses) in (
        [],
        ["The loss is flat"],
        ["The loss diverges"],
        ["The loss is flat", "The loss diverges"],
    )
