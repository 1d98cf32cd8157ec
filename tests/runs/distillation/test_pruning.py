"""A teacher pruned to a student: closer to it than fresh weights, and identical if nothing is removed."""

import pytest
import torch
from torch.nn import functional as F

from encoderlab.batch import Batch, HeadSizes
from encoderlab.model.config import ModelConfig
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.runs.distillation.pruning import Texts, least_squares, prune, source_layers

PIECES, D_TEACHER = 60, 32


def built(**changes):
    settings = {"n_layers": 4, "d_model": D_TEACHER, "n_heads": 4, "d_head": 8, "d_ff": 64, "max_length": 12} | changes
    return EncoderWithHeads(ModelConfig(**settings), PIECES, 0, HeadSizes()).eval().encoder


def texts_of(n, seed):
    """Return padded batches whose tokens have different frequencies."""
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for _ in range(n):
        ids = 1 + (torch.rand(8, 12, generator=generator) ** 2 * (PIECES - 1)).long()
        mask = torch.arange(12) < torch.randint(3, 13, (8, 1), generator=generator)
        mask[0] = True
        nothing = torch.zeros(0, dtype=torch.long)
        batches.append(
            Batch(
                input_ids=ids * mask,
                token_type_ids=torch.zeros_like(ids),
                attention_mask=mask,
                rows=torch.arange(8),
                target_positions=nothing,
                labels=None,
                token_labels=None,
                n_tokens=int(mask.sum()),
            )
        )
    return Texts(batches)


def vectors(encoder, texts):
    with torch.inference_mode():
        found = [encoder(batch.input_ids, batch.token_type_ids, batch.attention_mask) for batch in texts.batches]
    return torch.cat([part[batch.attention_mask] for part, batch in zip(found, texts.batches, strict=True)])


@pytest.fixture
def teacher():
    torch.manual_seed(0)
    encoder = built(initializer_range=0.3)  # as far from linear as a trained one
    encoder.embeddings.token.weight.data[:, : D_TEACHER // 2] *= 3  # some directions matter more
    return encoder


def nearness(student, fitted, teacher, texts):
    weight, bias = fitted
    return F.cosine_similarity(vectors(student, texts) @ weight.T + bias, vectors(teacher, texts), dim=-1).mean().item()


def test_a_student_of_the_same_size_gives_the_teachers_vectors(teacher):
    student, texts = built(), texts_of(40, seed=1)
    mine, its = prune(teacher, student, texts)
    assert torch.allclose(its, vectors(teacher, texts), atol=1e-4)
    assert torch.allclose(mine, vectors(student, texts), atol=1e-4)
    assert nearness(student, least_squares(mine, its), teacher, texts_of(10, seed=2)) > 0.99


@pytest.mark.slow
def test_a_smaller_student_starts_closer_to_the_teacher_than_fresh_weights(teacher):
    smaller = {"n_layers": 2, "d_model": 24, "n_heads": 2, "d_ff": 32}
    texts, unseen = texts_of(200, seed=1), texts_of(10, seed=2)
    torch.manual_seed(1)
    fresh, student = built(**smaller), built(**smaller)
    its = vectors(teacher, texts)
    of_fresh = nearness(fresh, least_squares(vectors(fresh, texts), its), teacher, unseen)
    of_pruned = nearness(student, least_squares(*prune(teacher, student, texts)), teacher, unseen)
    assert of_pruned > of_fresh + 0.02


def test_padding_keeps_its_zero_vector_and_pruning_is_reproducible(teacher):
    first, second = built(d_model=16, n_heads=2), built(d_model=16, n_heads=2)
    for student in (first, second):
        prune(teacher, student, texts_of(10, seed=1))
    assert not first.embeddings.token.weight[0].any()
    assert all(torch.equal(mine, other) for mine, other in zip(first.parameters(), second.parameters(), strict=True))


@pytest.mark.parametrize(
    ("n_student", "n_teacher", "sources"), [(4, 6, [0, 2, 3, 5]), (3, 6, [1, 3, 5]), (2, 2, [0, 1]), (1, 5, [4])]
)
def test_layers_are_spread_evenly_and_the_last_is_the_last(n_student, n_teacher, sources):
    assert source_layers(n_student, n_teacher) == sources


def test_least_squares_recovers_a_linear_map():
    torch.manual_seed(0)
    x, weight, bias = torch.randn(500, 5), torch.randn(3, 5), torch.randn(3)
    found, shift = least_squares(x, x @ weight.T + bias)
    assert torch.allclose(found, weight, atol=0.01) and torch.allclose(shift, bias, atol=0.01)
