"""Whether PyTorch's compiler is worth it for a run, and what to do where it does not work."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from encoderlab.batch import Batch
from encoderlab.network.heads import EncoderWithHeads
from encoderlab.system.device import Compute
from encoderlab.training.config import Compile

RECOMPILATIONS = 256  # of all models, for different kinds of layouts and shapes; PyTorch's own limit of 8 is too low
SMALLEST_LENGTH = 4  # of a batch to try the compiler with
# Estimates, because nothing is timed to decide: compiling takes about ten seconds a layer and saves at most a third of
# the time after it. A layer and its gradients take some 100 kernel launches of 10 microseconds or more, and a GPU
# rarely exceeds these FLOP/s.
LONG_RUN_SECONDS = 30  # for each layer
LAYER_SECONDS = 1.5e-3
FLOPS_PER_SECOND = 1e14


def seconds_uncompiled(steps: int, tokens: int, n_layers: int, layer_parameters: int) -> float:
    """Return a rough estimate of a GPU's time for `steps` on `tokens` tokens in all, without the heads."""
    return max(steps * n_layers * LAYER_SECONDS, 6 * layer_parameters * tokens / FLOPS_PER_SECOND)


def compile_encoder(network: EncoderWithHeads, choice: Compile, compute: Compute, seconds: float = math.inf) -> str:
    """Compile `network.encoder.encode`, whose weights keep their names, if requested or faster; say what was done.

    `auto` compiles only on CUDA, and only runs that would take enough `seconds` without it to gain: on a CPU, where
    every batch has another length, compiled code was not faster than PyTorch's own kernels
    (benchmarks/results/cpu_batches.md). Without a working compiler the encoder stays as it is, and the words say why.
    Lengths differ from batch to batch, so the code is compiled for any length (`dynamic`). On a CPU only training is
    compiled: the compiler writes the number of threads into its code, and scoring changes it (see
    `training.evaluation`).
    """
    device = compute.device
    if choice is Compile.never:
        return "not compiled (as set)"
    if choice is Compile.auto and device.type != "cuda":
        return "not compiled (faster only on CUDA)"
    if network.encoder.max_length < SMALLEST_LENGTH:
        return f"not compiled (texts have at most {network.encoder.max_length} tokens)"
    if choice is Compile.auto and seconds < LONG_RUN_SECONDS * len(network.encoder.layers):
        return "not compiled (faster only in long runs)"
    torch._dynamo.config.recompile_limit = RECOMPILATIONS
    if compute.deterministic:  # sum in an order that does not depend on the first batch: a resumed run has another
        from torch._inductor import config

        config.split_reductions = False

    encoder = network.encoder
    # What is compiled is the method: the module and the names of its weights stay as they are, and copies of it have
    # the class's own again (`Compilable`).
    plain = encoder.encode
    compiled = torch.compile(plain, dynamic=True)

    def encode_in_training(*arguments: Any, **named: Any) -> Tensor:
        return (compiled if encoder.training else plain)(*arguments, **named)

    encoder.encode = encode_in_training if device.type == "cpu" else compiled

    # It is compiled when it is first called, here: without a working compiler the run goes on uncompiled. Batches
    # without padding are compiled later, when there is one.
    problem = _what_is_wrong_with_the_compiler(network, compute)
    if problem is not None:
        del encoder.encode  # removes the compiled one, leaving the class's own
        return f"not compiled (no working compiler: {problem})"
    return "compiled"


def _what_is_wrong_with_the_compiler(network: EncoderWithHeads, compute: Compute) -> str | None:
    """Compute a batch as in training, forward and, unless everything is frozen, backward: nothing else reveals a broken
    compiler or toolchain. Training reuses what is compiled here.
    """
    gpus = [compute.device] if compute.device.type == "cuda" else []
    was_training = network.training
    network.train()
    try:
        with torch.random.fork_rng(gpus), compute.autocast():
            prediction = network(_smallest_batch(network).to(compute.device))
            total = sum(output.float().sum() for output in prediction if output is not None)
            if isinstance(total, Tensor) and total.requires_grad:
                total.backward()
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # a broken toolchain can raise errors of any kind
        return " ".join(str(error).split())[:120] or type(error).__name__
    finally:
        network.zero_grad(set_to_none=True)
        network.train(was_training)
    return None


def _smallest_batch(network: EncoderWithHeads) -> Batch:
    """Return a batch with padding and targets. Its sizes differ, and none is 1: the compiler would write code for only
    equal ones, or for only 1.
    """
    ids = torch.zeros(3, SMALLEST_LENGTH, dtype=torch.int64)
    types = torch.zeros_like(ids)
    if network.separates_pairs:
        types[:, 2:] = 1
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[-1, -2:] = False
    targets = torch.tensor([1, 2, 4, 6, 9])
    rows = torch.arange(len(ids))
    return Batch(ids, types, mask, rows, targets, labels=None, token_labels=None, n_tokens=int(mask.sum()))
