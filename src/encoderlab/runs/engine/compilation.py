"""Compiling the encoder: where PyTorch's compiler works and pays, and a line on what was decided."""

from __future__ import annotations

import torch

from encoderlab.model.encoder import Encoder
from encoderlab.training.config import Compile

MODES = {Compile.cuda_graphs: "reduce-overhead"}  # PyTorch's name for CUDA graphs around compiled code


def compile_encoder(encoder: Encoder, choice: Compile, device: torch.device) -> str:
    """Compile `encoder.encode` (weights keep their names) if that is asked for or pays; says in a few words what was done.

    `auto` compiles on CUDA alone: on a CPU, with a length of its own in each batch, compiled code was not faster than PyTorch's own
    kernels (benchmarks/RESULTS.md). Where there is no working compiler the encoder stays as it is, and the words say why. Lengths
    differ from batch to batch, so that the code is compiled for any (`dynamic`); CUDA graphs are recorded for each length anew.
    """
    if choice is Compile.never:
        return "not compiled (as set)"
    if choice is Compile.auto and device.type != "cuda":
        return "not compiled (pays on CUDA only)"
    if choice is Compile.cuda_graphs and device.type != "cuda":
        return "not compiled (CUDA graphs need a CUDA card)"
    wrong = _what_is_wrong_with_the_compiler(device)
    if wrong is not None:
        return f"not compiled (no working compiler: {wrong})"
    encoder.encode = torch.compile(encoder.encode, dynamic=True, mode=MODES.get(choice))
    return "compiled with CUDA graphs" if choice is Compile.cuda_graphs else "compiled"


def _what_is_wrong_with_the_compiler(device: torch.device) -> str | None:
    """Compile something small: whether there is a compiler, and one that works, shows in no other way."""
    try:
        torch.compile(_double)(torch.ones(8, device=device))
    except Exception as error:  # of as many kinds as there are ways for a toolchain to be broken
        return " ".join(str(error).split())[:120] or type(error).__name__
    return None


def _double(x: torch.Tensor) -> torch.Tensor:
    return x * 2
