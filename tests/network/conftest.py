"""A small model and a batch for it, with any setting changed."""

from collections.abc import Callable

import pytest
import torch

from encoderlab.batch import Batch
from encoderlab.network.config import HeadSizes, ModelConfig
from encoderlab.network.heads import EncoderWithHeads

VOCABULARY, PAD = 13, 0


def small_config(**settings) -> ModelConfig:
    return ModelConfig(**{"d_model": 16, "n_heads": 2, "d_ff": 24, "max_length": 12, "dropout": 0.0, **settings})


def small_model(
    *,
    seed: int = 0,
    sequence_classes: int | None = 3,
    token_classes: int | None = 5,
    vocabulary: bool = False,
    **settings,
) -> EncoderWithHeads:
    torch.manual_seed(seed)
    return EncoderWithHeads(
        small_config(**settings), VOCABULARY, PAD, HeadSizes(sequence_classes, token_classes, vocabulary)
    )


def batch_of(lengths: list[int], *, width: int | None = None, seed: int = 0, mask: bool = True) -> Batch:
    """Return random tokens; all real ones are targets. Padding is random too, as nothing may depend on it."""
    width = width or max(lengths)
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), width)
    real = torch.arange(width) < torch.tensor(lengths)[:, None]
    positions = real.flatten().nonzero().flatten()
    return Batch(
        input_ids=torch.randint(1, VOCABULARY, shape, generator=generator),
        token_type_ids=torch.randint(0, 2, shape, generator=generator),
        attention_mask=real if mask else None,
        rows=torch.arange(len(lengths)),
        target_positions=positions,
        labels=torch.randint(0, 3, (len(lengths),), generator=generator),
        token_labels=torch.randint(0, 5, positions.shape, generator=generator),
        n_tokens=int(real.sum()),
    )


@pytest.fixture(autouse=True, scope="module")
def _one_thread(one_thread) -> None:
    pass


@pytest.fixture(scope="session")
def make_config() -> Callable[..., ModelConfig]:
    return small_config


@pytest.fixture(scope="session")
def make_model() -> Callable[..., EncoderWithHeads]:
    return small_model


@pytest.fixture(scope="session")
def make_batch() -> Callable[..., Batch]:
    return batch_of
