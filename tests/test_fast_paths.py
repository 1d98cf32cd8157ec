"""Optimizations do not change training: in fp32 each fast path has the loss curve of the plain one, within rounding."""

import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from encoderlab.batch import Batch
from encoderlab.network.config import HeadSizes, ModelConfig, NormPosition, Positions
from encoderlab.network.heads import EncoderWithHeads
from encoderlab.system.device import Compute
from encoderlab.training.compilation import compile_encoder
from encoderlab.training.config import Compile, TrainingConfig
from encoderlab.training.loop import Horizon, Learner, optimize
from encoderlab.training.optimizer import build_optimizer

STEPS, ROWS, LENGTH, VOCABULARY = 12, 6, 10, 50
CPU = Compute(torch.device("cpu"), torch.float32, 1, "test")
SHAPES = [
    {"positions": Positions.learned, "norm_position": NormPosition.post},
    {"positions": Positions.rotary, "norm_position": NormPosition.pre},
]


def batches():
    """Return the same few batches each time: rows of different lengths, some target tokens, every row labelled."""
    draw = torch.Generator().manual_seed(0)
    for step in range(STEPS):
        lengths = torch.randint(3, LENGTH + 1, (ROWS,), generator=draw)
        real = torch.arange(LENGTH) < lengths[:, None]
        ids = torch.where(real, torch.randint(1, VOCABULARY, (ROWS, LENGTH), generator=draw), 0)
        positions = (real & (torch.rand(ROWS, LENGTH, generator=draw) < 0.3)).flatten().nonzero().flatten()
        yield Batch(
            input_ids=ids,
            token_type_ids=torch.zeros_like(ids),
            attention_mask=real,
            rows=torch.arange(ROWS) + step * ROWS,
            target_positions=positions,
            labels=torch.randint(2, (ROWS,), generator=draw),
            token_labels=ids.flatten()[positions],
            n_tokens=int(lengths.sum()),
        )


def built(shape):
    torch.manual_seed(0)
    config = ModelConfig(n_layers=2, d_model=16, n_heads=2, max_length=LENGTH, dropout=0.0, **shape)
    return EncoderWithHeads(config, VOCABULARY, 0, HeadSizes(sequence_classes=2, vocabulary=True))


def curve(model, given=None, *, fused=True):
    """Train on the given batches and return the loss of each step."""
    training = TrainingConfig(steps=STEPS, learning_rate=1e-2)
    optimizer = build_optimizer(model, training)
    for group in optimizer.param_groups:
        group["fused"] = fused
    steps = optimize(Learner(model, optimizer, training, CPU), [[one] for one in given or batches()], Horizon(STEPS))
    return torch.stack([torch.stack(list(step.losses.values())) for step in steps])


def plain(shape):
    """Train without packing, with every vector of the last layer and PyTorch's plain optimizer."""
    model = built(shape)
    model.packs, model.first_token_suffices = False, False
    return curve(model, fused=False)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("packs", [False, True])
def test_a_last_layer_restricted_to_targets_packed_or_padded_trains_like_the_whole_one(shape, packs):
    model = built(shape)
    model.packs = packs
    torch.testing.assert_close(curve(model), plain(shape), rtol=2e-4, atol=2e-5)


def compiled_as_plain():
    """Return whether the curve with a compiled encoder equals the plain one and its weights keep their names, or why it
    could not be compiled.
    """
    model = built(SHAPES[0])
    names = list(model.state_dict())
    outcome = compile_encoder(model, Compile.always, CPU)
    if outcome != "compiled":
        return outcome
    is_alike = torch.allclose(curve(model), plain(SHAPES[0]), rtol=2e-4, atol=2e-5)
    return is_alike and list(model.state_dict()) == names


@pytest.mark.slow
def test_a_compiled_encoder_trains_like_the_plain_one():
    # in a process of its own: the compiler cannot look through the checks of shapes that tests put around every
    # function
    command = [sys.executable, "-c", "import test_fast_paths; print(test_fast_paths.compiled_as_plain())"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    if "not compiled" in done.stdout:
        pytest.skip(done.stdout.strip())
    assert done.stdout.strip() == "True"


def compilations(shape):
    """Return how often an encoder is compiled to train on batches of many lengths, padded and not."""
    from torch._dynamo.utils import counters

    torch.compile = partial(torch.compile, backend="aot_eager")
    model = built(SHAPES[shape])
    model.packs = True  # as with a GPU's kernel
    outcome = compile_encoder(model, Compile.always, CPU)
    first = next(batches())
    targets = torch.arange(ROWS - 1)
    for width in range(4, LENGTH + 1):
        mask = first.attention_mask[:, :width].contiguous()
        ids = first.input_ids[:, :width].contiguous()
        padded = replace(first, input_ids=ids, token_type_ids=torch.zeros_like(ids), attention_mask=mask)
        padded = replace(padded, n_tokens=int(mask.sum()), target_positions=targets)
        for batch in (padded, replace(padded, attention_mask=None, n_tokens=ids.numel())):
            model(batch).token_logits.sum().backward()
    return outcome, counters["stats"]["unique_graphs"]


@pytest.mark.slow
@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_one_compilation_serves_batches_of_all_lengths(shape):
    command = [sys.executable, "-c", f"import test_fast_paths; print(test_fast_paths.compilations({shape}))"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "('compiled', 2)", "with padding and without"


@pytest.mark.parametrize("shape", SHAPES)
def test_the_curve_distinguishes_a_different_training(shape):
    without_mask = [replace(batch, attention_mask=None) for batch in batches()]
    assert not torch.allclose(curve(built(shape), without_mask), plain(shape), rtol=2e-4, atol=2e-5)
