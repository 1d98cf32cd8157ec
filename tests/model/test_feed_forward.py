"""The feed-forward network against its formulas."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from encoderlab.model.config import Activation
from encoderlab.model.layers import FeedForward


@pytest.mark.parametrize(("activation", "function"), [(Activation.relu, F.relu), (Activation.gelu, F.gelu)])
def test_it_is_two_linear_maps_with_the_activation_between_them(activation, function, make_config):
    network, x = FeedForward(make_config(activation=activation)), torch.randn(2, 3, 16)
    inner = function(x @ network.inner.weight.T + network.inner.bias)
    assert_close(network(x), inner @ network.outer.weight.T + network.outer.bias)


def test_geglu_gates_one_half_with_the_other(make_config):
    network, x = FeedForward(make_config(activation=Activation.geglu, bias=False)), torch.randn(2, 3, 16)
    gate, value = network.inner.weight.split(24)
    assert_close(network(x), (F.gelu(x @ gate.T) * (x @ value.T)) @ network.outer.weight.T)


def test_each_token_is_computed_independently(make_config):
    network, x = FeedForward(make_config()), torch.randn(2, 3, 16)
    assert_close(network(x)[:, 1:2], network(x[:, 1:2]))
