"""Sequences are pooled without padding, windows to their rows, and the texts of a pair are read one by one."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from encoderlab.model.config import ModelConfig, Pairs, Pooling
from encoderlab.model.heads import ClsPool, MeanPool, build_pooling, compared, pool_windows, separate_texts


def test_poolings_take_the_first_or_the_mean_of_the_real_tokens():
    hidden = torch.tensor([[[1.0, 5.0], [3.0, 1.0], [-8.0, 9.0]]])
    mask = torch.tensor([[True, True, False]])
    assert ClsPool()(hidden, mask).tolist() == [[1, 5]]
    assert MeanPool()(hidden, mask).tolist() == [[2, 3]]
    assert MeanPool()(hidden[:, :2], None).tolist() == [[2, 3]]


@pytest.mark.parametrize("pooling", Pooling)
def test_padding_changes_no_pooled_vector(pooling):
    torch.manual_seed(0)
    pool, hidden = build_pooling(ModelConfig(d_model=4, n_heads=1, pooling=pooling)), torch.randn(2, 5, 4)
    mask = torch.tensor([[True, True, True, False, False], [True] * 5])
    other = hidden.masked_fill(~mask[:, :, None], 7.0)
    assert torch.equal(pool(hidden, mask), pool(other, mask))


def test_the_windows_of_a_row_pool_logits_by_mean_or_maximum_with_gradients():
    logits = torch.tensor([[1.0, 4.0], [3.0, 0.0], [5.0, 7.0]], requires_grad=True)
    row_of_sequence = torch.tensor([0, 0, 1])
    assert pool_windows(logits, row_of_sequence, 2, "max").tolist() == [[3, 4], [5, 7]]
    pooled = pool_windows(logits, row_of_sequence, 2, "mean")
    assert pooled.tolist() == [[2, 2], [5, 7]]
    pooled.sum().backward()
    assert logits.grad.tolist() == [[0.5, 0.5], [0.5, 0.5], [1, 1]]


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


def test_features_of_equal_vectors_have_no_difference_and_cosine_one():
    text = torch.randn(3, 8)
    first, second, difference, product = compared(torch.cat([text, 2 * text])).chunk(4, dim=-1)
    assert_close(first, second)
    assert_close(difference, torch.zeros(3, 8), atol=1e-6, rtol=0)
    assert_close(product.mean(dim=-1), torch.ones(3))


@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize("pooling", [Pooling.mean, Pooling.cls])
def test_logits_of_a_pair_do_not_depend_on_the_rest_of_the_batch(packs, pooling, make_model, make_batch):
    model = make_model(token_classes=None, pairs=Pairs.separate, pooling=pooling)
    model.packs = packs
    torch.nn.init.normal_(model.sequence_head.weight)
    together = model(pair_batch(PAIRS, make_batch)).sequence_logits
    alone = torch.cat([model(pair_batch([pair], make_batch)).sequence_logits for pair in PAIRS])
    assert_close(together, alone, rtol=1e-5, atol=1e-5)
