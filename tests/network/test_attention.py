"""Attention: the explicit formula, the fast path, and the mask."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from encoderlab.network.attention import MultiHeadAttention, attend, attention_weights
from encoderlab.network.config import Positions
from encoderlab.network.layers import Dropout
from encoderlab.network.packing import Layout, SelectedTokens, Selection

NO_DROPOUT = Dropout(0.0)


def random_heads(*, batch=2, heads=3, length=5, d_head=4, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return tuple(
        torch.randn(batch, heads, length, d_head, generator=generator).to(dtype).requires_grad_() for _ in range(3)
    )


def test_attention_weights_equal_equation_1_computed_by_hand():
    q = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(1, 1, 1, 4)
    k = torch.tensor([[2 * math.log(3), 0, 0, 0], [0, 1.0, 0, 0], [5.0, 0, 0, 0]]).expand(1, 1, 3, 4)
    weights = attention_weights(q, k, torch.tensor([[True, True, False]]))
    assert_close(weights.flatten(), torch.tensor([0.75, 0.25, 0.0]))


@given(
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4), d_head=st.sampled_from([1, 3, 8]), masked=st.booleans()
)
@settings(deadline=None, max_examples=30)
def test_explicit_attention_equals_the_fast_path(lengths, d_head, masked):
    q, k, v = random_heads(batch=len(lengths), length=max(lengths), d_head=d_head)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None] if masked else None
    assert_close(attention_weights(q, k, mask) @ v, attend(q, k, v, mask, NO_DROPOUT), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "settings", [{}, {"positions": Positions.rotary}, {"d_head": 6, "n_heads": 4}, {"n_heads": 1}, {"bias": False}]
)
@pytest.mark.parametrize("first", [None, 1, 2])
def test_the_weights_returned_are_the_weights_used(settings, first, make_config):
    torch.manual_seed(0)
    attention = MultiHeadAttention(make_config(**settings))
    x, tokens = torch.randn(2, 5, 16), Layout.padded(2, 5, torch.tensor([[True] * 5, [True] * 3 + [False] * 2]))
    mixed = attention.weights(x, tokens) @ attention.by_head(attention.value(x)).transpose(1, 2)
    explicit = attention.output(mixed.transpose(1, 2).flatten(2))
    selected = None if first is None else SelectedTokens(Selection(None, first), tokens)
    assert_close(attention(x, tokens, selected), explicit[:, :first], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mask", [None, torch.tensor([[True] * 5, [True, True, False, False, False]])])
def test_bfloat16_outputs_and_gradients_agree_with_float32(mask):
    answers, gradients = [], []
    for dtype in (torch.bfloat16, torch.float32):
        q, k, v = random_heads(dtype=dtype)
        answers.append(attend(q, k, v, mask, NO_DROPOUT).float())
        answers[-1].square().sum().backward()
        gradients.append(torch.cat([x.grad.float() for x in (q, k, v)]))
    assert_close(*answers, rtol=0.05, atol=0.05)
    assert_close(*gradients, rtol=0.1, atol=0.1)


def test_attention_dropout_drops_whole_weights_only_in_training():
    torch.manual_seed(0)
    q, k, _ = random_heads(length=6, d_head=6)
    v = torch.eye(6).expand(2, 3, 6, 6)  # the answer is then the weights themselves
    weights = attention_weights(q, k, None)
    dropped = attend(q, k, v, None, Dropout(0.5))
    assert 0.2 < (dropped == 0).double().mean() < 0.8
    assert_close(dropped[dropped != 0], 2 * weights[dropped != 0])
    assert_close(attend(q, k, v, None, Dropout(0.5).eval()), weights, rtol=1e-5, atol=1e-5)
