"""Compilation: asked for, or where it pays, with a line that says what was done; the answers stay the same."""

import pytest
import torch
from torch import nn

from encoderlab.runs.engine.compilation import compile_encoder
from encoderlab.training.config import Compile

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


class Doubling(nn.Module):
    """Something small enough to be compiled in a test."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x) * 2


@pytest.fixture
def compiler(monkeypatch):
    """A compiler that works, or fails with the given error; and how it was called."""
    calls = []

    def compiler(fails=None):
        def compile_function(function):
            def compiled(*arguments):
                if fails:
                    raise RuntimeError(fails)
                return function(*arguments)

            return compiled

        monkeypatch.setattr(torch, "compile", compile_function)
        monkeypatch.setattr(torch, "ones", lambda *shape, device: torch.zeros(*shape))
        monkeypatch.setattr(nn.Module, "compile", lambda module, **options: calls.append(options))
        return calls

    return compiler


@pytest.mark.parametrize(
    ("choice", "device", "words"),
    [
        (Compile.auto, CPU, "not compiled (pays on CUDA only)"),
        (Compile.never, CUDA, "not compiled (as set)"),
        (Compile.cuda_graphs, CPU, "not compiled (CUDA graphs need a CUDA card)"),
    ],
)
def test_the_encoder_stays_as_it_is_where_compiling_does_not_pay_or_is_not_wanted(compiler, choice, device, words):
    calls = compiler()
    assert compile_encoder(Doubling(), choice, device) == words
    assert calls == []


@pytest.mark.parametrize(
    ("choice", "device", "words", "mode"),
    [
        (Compile.auto, CUDA, "compiled", None),
        (Compile.always, CPU, "compiled", None),
        (Compile.cuda_graphs, CUDA, "compiled with CUDA graphs", "reduce-overhead"),
    ],
)
def test_the_encoder_is_compiled_for_any_length(compiler, choice, device, words, mode):
    calls = compiler()
    assert compile_encoder(Doubling(), choice, device) == words
    assert calls == [{"dynamic": True, "mode": mode}]


def test_without_a_working_compiler_the_encoder_stays_as_it_is_and_the_reason_is_said(compiler):
    calls = compiler(fails="No C++\n compiler found")
    assert compile_encoder(Doubling(), Compile.always, CPU) == "not compiled (no working compiler: No C++ compiler found)"
    assert calls == []


@pytest.mark.slow
def test_a_compiled_encoder_answers_the_same_and_keeps_the_names_of_its_weights():
    torch.manual_seed(0)
    encoder = Doubling()
    names, x = list(encoder.state_dict()), torch.randn(3, 4)
    expected = encoder(x)
    said = compile_encoder(encoder, Compile.always, CPU)
    if said != "compiled":
        pytest.skip(said)
    torch.testing.assert_close(encoder(x), expected)
    assert list(encoder.state_dict()) == names
