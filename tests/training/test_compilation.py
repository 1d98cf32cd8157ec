"""Compilation: on request, or if it makes the run faster, with a line that reports it; the outputs stay the same."""

from contextlib import nullcontext
from functools import wraps

import pytest
import torch
from torch import nn

from encoderlab.system.device import Compute
from encoderlab.training.compilation import compile_encoder
from encoderlab.training.config import Compile

CPU, CUDA = (Compute(torch.device(name), torch.float32, 1, "as set") for name in ("cpu", "cuda"))


class Doubling(nn.Module):
    """An encoder small enough to be compiled in a test."""

    def __init__(self, width=4):
        super().__init__()
        self.embedding, self.linear = nn.Embedding(2, width), nn.Linear(width, width)

    def encode(self, ids, types, mask):
        return self.linear(self.embedding(ids)) * 2


@pytest.fixture
def compiler(monkeypatch):
    """Return a compiler that works or fails with the given error, and its recorded calls."""
    calls = []

    def compiler(fails=None):
        @wraps(torch.compile)
        def compile_encode(encode, **options):
            calls.append(options)
            return broken if fails else encode

        def broken(*arguments):
            raise RuntimeError(fails)

        zeros = torch.zeros
        monkeypatch.setattr(torch, "zeros", lambda *shape, dtype, device: zeros(*shape, dtype=dtype))
        monkeypatch.setattr(torch.random, "fork_rng", lambda cards: nullcontext())
        monkeypatch.setattr(torch, "compile", compile_encode)
        return calls

    return compiler


def test_without_a_working_compiler_the_encoder_is_kept_and_the_reason_given(compiler):
    compiler(fails="No C++\n compiler found")
    encoder = Doubling()
    assert compile_encoder(encoder, Compile.always, CPU) == "not compiled (no working compiler: No C++ compiler found)"
    ids = torch.tensor([[0, 1]])
    assert encoder.encode(ids, ids, None).shape == (1, 2, 4)
    assert all(weight.grad is None for weight in encoder.parameters())


def test_trying_the_compiler_leaves_random_state_and_gradients_untouched(monkeypatch):
    monkeypatch.setattr(torch, "compile", wraps(torch.compile)(lambda encode, **options: encode))
    encoder = nn.Sequential()
    encoder.encode = lambda ids, types, mask: torch.rand(3, requires_grad=True)
    before = torch.get_rng_state()
    assert compile_encoder(encoder, Compile.always, CPU) == "compiled"
    assert torch.equal(torch.get_rng_state(), before)


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
