"""Compilation: on request, or if it makes the run faster, with a line that reports it; the outputs stay the same."""

from functools import wraps

import pytest
import torch
from torch import nn

from encoderlab.system.device import Compute
from encoderlab.training.config import Compile
from encoderlab.training.distribution import compile_encoder

CPU = Compute(torch.device("cpu"), torch.float32, 1, "as set")


class Doubling(nn.Module):
    """An encoder small enough to be compiled in a test."""

    def __init__(self, width=4):
        super().__init__()
        self.embedding, self.linear = nn.Embedding(2, width), nn.Linear(width, width)

    def encode(self, ids, types, mask):
        return self.linear(self.embedding(ids)) * 2


def test_without_a_working_compiler_the_encoder_is_kept_and_the_reason_given(monkeypatch):
    def broken(*arguments):
        raise RuntimeError("No C++\n compiler found")

    monkeypatch.setattr(torch, "compile", wraps(torch.compile)(lambda encode, **options: broken))
    encoder, before = Doubling(), torch.get_rng_state()
    assert compile_encoder(encoder, Compile.always, CPU) == "not compiled (no working compiler: No C++ compiler found)"
    ids = torch.tensor([[0, 1]])
    assert encoder.encode(ids, ids, None).shape == (1, 2, 4)
    assert all(weight.grad is None for weight in encoder.parameters()) and torch.equal(torch.get_rng_state(), before)


def test_trying_the_compiler_leaves_random_state_and_gradients_as_they_were(monkeypatch):
    monkeypatch.setattr(torch, "compile", wraps(torch.compile)(lambda encode, **options: encode))
    encoder = nn.Linear(4, 1)  # an encoder that draws numbers, as dropout does
    encoder.encode = lambda ids, types, mask: encoder(torch.rand(2, 4))
    before = torch.get_rng_state()
    assert compile_encoder(encoder, Compile.always, CPU) == "compiled"
    assert all(weight.grad is None for weight in encoder.parameters()) and torch.equal(torch.get_rng_state(), before)


@pytest.mark.slow
def test_a_compiled_encoder_gives_the_same_outputs_and_keeps_its_weight_names():
    torch.manual_seed(0)
    encoder = Doubling()
    names, ids = list(encoder.state_dict()), torch.tensor([[0, 1, 1]])
    expected = encoder.encode(ids, ids, None)
    outcome = compile_encoder(encoder, Compile.always, CPU)
    if outcome != "compiled":
        pytest.skip(outcome)
    torch.testing.assert_close(encoder.encode(ids, ids, None), expected)
    assert list(encoder.state_dict()) == names
