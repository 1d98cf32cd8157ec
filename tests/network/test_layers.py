"""Positions, dropout, norms and the feed-forward network: the formulas of their papers."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.testing import assert_close

from encoderlab.network.config import Activation, Norm
from encoderlab.network.layers import Dropout, FeedForward, RotaryPositions, SinusoidalPositions, build_norm


@pytest.mark.parametrize("p", [0.3, 0.7, 0.9])
def test_the_fraction_kept_and_the_sum_are_right_up_to_the_largest_probability(p):
    torch.manual_seed(0)
    answer = Dropout(p)(torch.ones(1_000_000))
    assert_close((answer != 0).double().mean().item(), 1 - p, rtol=0, atol=0.0025)  # five standard errors
    assert_close(answer.double().mean().item(), 1.0, rtol=0, atol=5 * (p / (1 - p) / 1e6) ** 0.5)


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


def test_rms_norm_does_not_subtract_the_mean_and_scales_the_mean_square_to_one(make_config):
    x = 3 + torch.randn(4, 3, 16)
    normed = build_norm(make_config(norm=Norm.rms))(x)
    assert_close(normed.square().mean(-1), torch.ones(4, 3), rtol=1e-4, atol=1e-4)
    assert normed.mean() > 0.5


@pytest.mark.parametrize("norm", Norm)
def test_a_vector_of_equal_features_has_finite_gradients(norm, make_config):
    x = torch.zeros(2, 3, 16, requires_grad=True)
    build_norm(make_config(norm=norm))(x).sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize(("activation", "function"), [(Activation.relu, F.relu), (Activation.gelu, F.gelu)])
def test_it_is_two_linear_maps_with_the_activation_between_them(activation, function, make_config):
    network, x = FeedForward(make_config(activation=activation)), torch.randn(2, 3, 16)
    inner = function(x @ network.inner.weight.T + network.inner.bias)
    assert_close(network(x), inner @ network.outer.weight.T + network.outer.bias)


def test_geglu_gates_one_half_with_the_other(make_config):
    network, x = FeedForward(make_config(activation=Activation.geglu, bias=False)), torch.randn(2, 3, 16)
    gate, value = network.inner.weight.split(24)
    assert_close(network(x), (F.gelu(x @ gate.T) * (x @ value.T)) @ network.outer.weight.T)


def test_with_a_range_all_weights_have_that_standard_deviation(make_model):
    encoder = make_model(d_model=64, d_ff=64, max_length=100, initializer_range=0.02).encoder
    layer = encoder.layers[0]
    for weight in (
        encoder.embeddings.position.embedding.weight,
        layer.attention.query.weight,
        layer.feed_forward.outer.weight,
    ):
        assert weight.std().item() == pytest.approx(0.02, rel=0.1)


def test_without_a_range_the_embedding_of_a_token_has_length_one(make_model):
    token = make_model(d_model=512).encoder.embeddings.token
    assert token.weight[1:].norm(dim=1).mean().item() == pytest.approx(1, rel=0.1)


def test_without_a_range_linear_maps_preserve_the_scale_of_their_input(make_model):
    query = make_model(d_model=256).encoder.layers[0].attention.query
    assert query(torch.randn(50, 256)).std().item() == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("initializer_range", [None, 0.02])
def test_biases_and_padding_start_at_zero(initializer_range, make_model):
    model = make_model(initializer_range=initializer_range)
    assert not any(parameter.any() for name, parameter in model.named_parameters() if name.endswith("bias"))
    assert not model.encoder.embeddings.token.weight[0].any()


@given(position=st.integers(0, 99), feature=st.integers(0, 14), width=st.sampled_from([15, 16]))
@settings(deadline=None, max_examples=50)
def test_sinusoidal_positions_follow_the_papers_formula(position, feature, width):
    angle = position / 10000 ** (2 * (feature // 2) / width)
    expected = math.cos(angle) if feature % 2 else math.sin(angle)
    assert SinusoidalPositions(100, width)(100)[position, feature].item() == pytest.approx(expected, abs=1e-5)


def test_sinusoidal_positions_are_not_trained_and_not_saved_with_the_weights():
    positions = SinusoidalPositions(10, 8)
    assert not list(positions.parameters()) and not positions.state_dict()


@given(first=st.integers(0, 20), second=st.integers(0, 20), shift=st.integers(0, 20))
@settings(deadline=None, max_examples=50)
def test_rotary_products_depend_only_on_the_distance(first, second, shift):
    rotate = RotaryPositions(64, 8)
    generator = torch.Generator().manual_seed(first)
    q, k = torch.randn(2, 8, generator=generator)
    turned_q, turned_k = (rotate(x.expand(64, 1, 8), 64)[:, 0] for x in (q, k))
    assert_close(
        turned_q[first] @ turned_k[second], turned_q[first + shift] @ turned_k[second + shift], rtol=1e-4, atol=1e-4
    )


def test_rotary_positions_rotate_by_the_papers_angles():
    turned = RotaryPositions(4, 4)(torch.tensor([1.0, 1.0, 0.0, 0.0]).expand(1, 4, 1, 4), 4)[0, 3, 0]
    assert_close(turned, torch.tensor([math.cos(3), math.cos(0.03), math.sin(3), math.sin(0.03)]))
