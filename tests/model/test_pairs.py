"""Pairs whose texts are read separately."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from encoderlab.model.config import Pairs, Pooling
from encoderlab.model.pooling import compared, separate_texts

CLS, SEP, PAD = 1, 2, 0
PAIRS = [([5, 6, 7], [8]), ([9], [10, 11, 12, 3]), ([4, 4], [])]


def ids_of(pairs):
    rows = [([CLS, *a, SEP], [*b, SEP]) for a, b in pairs]
    length = max(len(a) + len(b) for a, b in rows)
    padding = [length - len(a) - len(b) for a, b in rows]
    ids = torch.tensor([a + b + [PAD] * n for (a, b), n in zip(rows, padding, strict=True)])
    types = torch.tensor([[0] * len(a) + [1] * len(b) + [0] * n for (a, b), n in zip(rows, padding, strict=True)])
    return ids, types, torch.arange(length) < (length - torch.tensor(padding))[:, None]


def pair_batch(pairs, make_batch):
    ids, types, mask = ids_of(pairs)
    batch = make_batch([ids.shape[1]] * len(pairs))
    none = torch.zeros(0, dtype=torch.long)
    return replace(
        batch, input_ids=ids, token_type_ids=types, attention_mask=mask, n_tokens=int(mask.sum()), target_positions=none
    )


def test_each_text_of_a_pair_becomes_a_sequence_with_its_own_special_tokens():
    ids, mask = separate_texts(*ids_of(PAIRS))
    found = [row[real].tolist() for row, real in zip(ids, mask, strict=True)]
    assert found == [[CLS, *text, SEP] for text in (*(a for a, _ in PAIRS), *(b for _, b in PAIRS))]


def test_without_padding_no_mask_is_needed():
    ids, types, _ = ids_of([([5, 6], [7]), ([8], [9, 10])])
    for masked, unmasked in zip(
        separate_texts(ids, types, torch.ones_like(ids).bool()), separate_texts(ids, types, None), strict=True
    ):
        assert_close(masked, unmasked)


def test_features_of_equal_vectors_have_no_difference_and_cosine_one():
    text = torch.randn(3, 8)
    first, second, difference, product = compared(torch.cat([text, 2 * text])).chunk(4, dim=-1)
    assert_close(first, second)
    assert_close(difference, torch.zeros(3, 8), atol=1e-6, rtol=0)
    assert_close(product.mean(dim=-1), torch.ones(3))


@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize("pooling", [Pooling.mean, Pooling.cls, Pooling.max])
def test_logits_of_a_pair_do_not_depend_on_the_rest_of_the_batch(packs, pooling, make_model, make_batch):
    model = make_model(token_classes=None, pairs=Pairs.separate, pooling=pooling)
    model.packs = packs
    torch.nn.init.normal_(model.sequence_head.weight)
    together = model(pair_batch(PAIRS, make_batch)).sequence_logits
    alone = torch.cat([model(pair_batch([pair], make_batch)).sequence_logits for pair in PAIRS])
    assert_close(together, alone, rtol=1e-5, atol=1e-5)


def test_the_vector_of_a_text_does_not_depend_on_the_other(make_model, make_batch):
    """The first text has the vector it has alone, whatever the second is."""
    model = make_model(token_classes=None, pairs=Pairs.separate, pooling=Pooling.mean)
    seen = []
    model.pool.register_forward_hook(lambda _, __, pooled: seen.append(pooled))
    for second in ([8], [9, 10, 11]):
        model(pair_batch([([5, 6, 7], second)], make_batch))
    assert_close(seen[0][0], seen[1][0])
    assert (seen[0][1] - seen[1][1]).abs().max() > 0.01


def test_pairs_read_jointly_have_other_logits_and_a_narrower_head(make_model, make_batch):
    joint, separate = (make_model(token_classes=None, pairs=pairs, pooling=Pooling.mean) for pairs in Pairs)
    assert joint.sequence_head.in_features == 16
    assert separate.sequence_head.in_features == 64
    assert not separate.sequence_head.weight.any()  # or random gradients would spoil a pretrained encoder
