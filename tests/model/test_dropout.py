"""Dropout: how often, how much, and when."""

import pytest
import torch
from torch.testing import assert_close

from encoderlab.model.layers import Dropout


def test_each_number_is_dropped_with_probability_p_at_every_position():
    torch.manual_seed(0)
    dropped = (Dropout(0.1)(torch.ones(40_000, 8)) == 0).double().mean(dim=0)
    assert_close(dropped, torch.full((8,), 0.1, dtype=torch.float64), rtol=0, atol=0.006)


@pytest.mark.parametrize("p", [0.3, 0.7, 0.9])
def test_the_fraction_kept_and_the_sum_are_right_up_to_the_largest_probability(p):
    torch.manual_seed(0)
    answer = Dropout(p)(torch.ones(1_000_000))
    assert_close((answer != 0).double().mean().item(), 1 - p, rtol=0, atol=0.0025)  # five standard errors
    assert_close(answer.double().mean().item(), 1.0, rtol=0, atol=5 * (p / (1 - p) / 1e6) ** 0.5)


def test_a_probability_that_sixteen_bits_round_to_one_is_an_assertion():
    with pytest.raises(AssertionError):
        Dropout(0.999999)


def test_numbers_are_dropped_independently_of_each_other():
    torch.manual_seed(0)
    dropped = (Dropout(0.5)(torch.ones(40_000, 8)) == 0).double()
    assert_close(dropped.T.corrcoef(), torch.eye(8, dtype=torch.float64), rtol=0, atol=0.02)


def test_kept_numbers_and_gradients_are_divided_by_the_fraction_kept():
    torch.manual_seed(0)
    x = torch.full((3, 5, 7), 2.0, requires_grad=True)
    answer = Dropout(0.2)(x)
    answer.sum().backward()
    assert set(answer.flatten().tolist()) == {0.0, 2.5}
    assert_close(answer, x.detach() * x.grad)


def test_nothing_is_dropped_outside_training_or_with_probability_zero():
    x = torch.ones(50)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_the_same_seed_drops_the_same_numbers():
    answers = []
    for _ in range(2):
        torch.manual_seed(3)
        answers.append(Dropout(0.5)(torch.ones(101)))
    assert_close(*answers)


def test_other_devices_than_the_cpu_use_their_own_dropout():
    assert Dropout(0.5)(torch.ones(3, 4, device="meta")).shape == (3, 4)


def test_it_keeps_the_dtype():
    assert Dropout(0.5)(torch.ones(9, dtype=torch.bfloat16)).dtype == torch.bfloat16
