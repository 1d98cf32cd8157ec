"""The three kinds of positions against their formulas."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from encoderlab.model.layers import RotaryPositions, SinusoidalPositions


@given(position=st.integers(0, 99), feature=st.integers(0, 14), width=st.sampled_from([15, 16]))
@settings(deadline=None, max_examples=50)
def test_sinusoidal_positions_follow_the_papers_formula(position, feature, width):
    angle = position / 10000 ** (2 * (feature // 2) / width)
    expected = math.cos(angle) if feature % 2 else math.sin(angle)
    assert SinusoidalPositions(100, width)(slice(100))[position, feature].item() == pytest.approx(expected, abs=1e-5)


def test_sinusoidal_positions_are_not_trained_and_not_saved_with_the_weights():
    positions = SinusoidalPositions(10, 8)
    assert not list(positions.parameters()) and not positions.state_dict()


@given(first=st.integers(0, 20), second=st.integers(0, 20), shift=st.integers(0, 20))
@settings(deadline=None, max_examples=50)
def test_rotary_products_depend_only_on_the_distance(first, second, shift):
    rotate = RotaryPositions(64, 8)
    generator = torch.Generator().manual_seed(first)
    q, k = torch.randn(2, 8, generator=generator)
    turned_q, turned_k = (rotate(x.expand(64, 1, 8), slice(64))[:, 0] for x in (q, k))
    assert_close(
        turned_q[first] @ turned_k[second], turned_q[first + shift] @ turned_k[second + shift], rtol=1e-4, atol=1e-4
    )


def test_rotary_positions_rotate_by_the_papers_angles():
    turned = RotaryPositions(4, 4)(torch.tensor([1.0, 1.0, 0.0, 0.0]).expand(1, 4, 1, 4), slice(4))[0, 3, 0]
    assert_close(turned, torch.tensor([math.cos(3), math.cos(0.03), math.sin(3), math.sin(0.03)]))
