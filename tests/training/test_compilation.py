"""Compilation: on request, or if it makes the run faster, with a line that reports it; the outputs stay the same."""

from contextlib import nullcontext
from dataclasses import replace
from functools import wraps

import pytest
import torch
from torch import nn

from encoderlab.system.device import Compute
from encoderlab.training import compilation
from encoderlab.training.compilation import compile_encoder, seconds_uncompiled
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


@pytest.mark.parametrize(
    ("choice", "device", "words"),
    [
        (Compile.auto, CPU, "not compiled (faster only on CUDA)"),
        (Compile.never, CUDA, "not compiled (as set)"),
        (Compile.cuda_graphs, CPU, "not compiled (CUDA graphs need a CUDA GPU)"),
    ],
)
def test_the_encoder_is_not_compiled_if_that_does_not_pay_or_is_not_wanted(compiler, choice, device, words):
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
    assert [(call["dynamic"], call["mode"]) for call in calls] == [(True, mode)]


@pytest.mark.parametrize(
    ("device", "training", "evaluation"), [(CPU, "compiled", "plain"), (CUDA, "compiled", "compiled")]
)
def test_on_a_cpu_only_training_is_compiled(monkeypatch, device, training, evaluation):
    monkeypatch.setattr(torch, "compile", lambda encode, **options: lambda *inputs: "compiled")
    monkeypatch.setattr(compilation, "_what_is_wrong_with_the_compiler", lambda encoder, compute: None)
    encoder = Doubling()
    encoder.encode = lambda *inputs: "plain"
    compile_encoder(encoder, Compile.always, device)
    assert (encoder.train().encode(), encoder.eval().encode()) == (training, evaluation)


def test_a_short_run_is_not_compiled_unless_requested(compiler):
    calls = compiler()
    assert compile_encoder(Doubling(), Compile.auto, CUDA, seconds=170) == "not compiled (faster only in long runs)"
    assert calls == []
    assert compile_encoder(Doubling(), Compile.auto, CUDA, seconds=190) == "compiled"
    assert compile_encoder(Doubling(), Compile.always, CUDA, seconds=1) == "compiled"


def test_small_models_are_bound_by_kernel_calls_and_large_ones_by_matrix_products():
    assert seconds_uncompiled(1000, 10**6, n_layers=4, layer_parameters=10**6) == pytest.approx(6)
    assert seconds_uncompiled(1000, 10**9, n_layers=12, layer_parameters=85 * 10**6) == pytest.approx(5100)


def test_cuda_graphs_are_used_only_for_the_few_shapes_of_training(monkeypatch):
    monkeypatch.setattr(torch.random, "fork_rng", lambda cards: nullcontext())
    zeros, ids, taken = torch.zeros, torch.zeros(1, 5, dtype=torch.int64), []
    monkeypatch.setattr(torch, "zeros", lambda *shape, dtype, device: zeros(*shape, dtype=dtype))
    recorded = wraps(torch.compile)(
        lambda encode, **options: lambda *given: taken.append(given[0].shape) or encode(*given)
    )
    monkeypatch.setattr(torch, "compile", recorded)
    encoder = Doubling()
    assert compile_encoder(encoder, Compile.cuda_graphs, CUDA) == "compiled with CUDA graphs"
    taken.clear()
    in_training = encoder.encode(ids, ids, None)
    assert len(taken) == 1
    assert torch.equal(encoder.eval().encode(ids, ids, None), in_training)
    assert len(taken) == 1


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
def test_a_sweep_over_widths_compiles_each_of_its_models(monkeypatch):
    compile_function = torch.compile
    without_code = wraps(torch.compile)(
        lambda encode, mode, **options: compile_function(encode, backend="eager", **options)
    )
    monkeypatch.setattr(torch, "compile", without_code)
    monkeypatch.setattr(torch._dynamo.config, "fail_on_recompile_limit_hit", True)
    monkeypatch.setattr(torch._dynamo.config, "recompile_limit", 3)
    torch._dynamo.reset()
    ids = torch.zeros(1, 5, dtype=torch.int64)
    for width in range(2, 12):
        encoder = Doubling(width)
        assert compile_encoder(encoder, Compile.always, CPU) == "compiled"
        assert encoder.encode(ids, ids, None).shape == (1, 5, width)


@pytest.mark.slow
def test_deterministic_code_sums_in_an_order_independent_of_the_first_batch(compiler, monkeypatch):
    from torch._inductor import config

    monkeypatch.setattr(config, "split_reductions", True)
    compiler()
    compile_encoder(Doubling(), Compile.always, replace(CPU, deterministic=True))
    assert not config.split_reductions


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
