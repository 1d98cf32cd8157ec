"""Poolings reduce a sequence's vectors to one and ignore padding."""

import pytest
import torch

from encoderlab.model.config import ModelConfig, Pooling
from encoderlab.model.pooling import ClsPool, MaxPool, MeanPool, build_pooling, pool_windows


def test_poolings_take_the_first_the_mean_and_the_maximum_of_the_real_tokens():
    hidden = torch.tensor([[[1.0, 5.0], [3.0, 1.0], [-8.0, 9.0]]])
    mask = torch.tensor([[True, True, False]])
    assert ClsPool()(hidden, mask).tolist() == [[1, 5]]
    assert MeanPool()(hidden, mask).tolist() == [[2, 3]]
    assert MaxPool()(hidden, mask).tolist() == [[3, 5]]
    assert MeanPool()(hidden[:, :2], None).tolist() == [[2, 3]]
    assert MaxPool()(hidden[:, :2], None).tolist() == [[3, 5]]


@pytest.mark.parametrize("pooling", Pooling)
def test_padding_changes_no_pooled_vector(pooling):
    torch.manual_seed(0)
    pool, hidden = build_pooling(ModelConfig(d_model=4, n_heads=1, pooling=pooling)), torch.randn(2, 5, 4)
    mask = torch.tensor([[True, True, True, False, False], [True] * 5])
    other = hidden.masked_fill(~mask[:, :, None], 7.0)
    assert torch.equal(pool(hidden, mask), pool(other, mask))


def test_berts_pooler_is_bounded_by_one_and_distilberts_is_never_negative():
    hidden = torch.randn(3, 2, 4, generator=torch.Generator().manual_seed(0)) * 100
    bert, distilbert = (
        build_pooling(ModelConfig(d_model=4, n_heads=1, pooling=name)) for name in (Pooling.pooler, Pooling.relu_pooler)
    )
    assert bert(hidden, None).abs().max() <= 1
    assert distilbert(hidden, None).min() >= 0


def test_the_windows_of_a_row_pool_logits_by_mean_or_maximum_with_gradients():
    logits = torch.tensor([[1.0, 4.0], [3.0, 0.0], [5.0, 7.0]], requires_grad=True)
    row_of_sequence = torch.tensor([0, 0, 1])
    assert pool_windows(logits, row_of_sequence, 2, "max").tolist() == [[3, 4], [5, 7]]
    pooled = pool_windows(logits, row_of_sequence, 2, "mean")
    assert pooled.tolist() == [[2, 2], [5, 7]]
    pooled.sum().backward()
    assert logits.grad.tolist() == [[0.5, 0.5], [0.5, 0.5], [1, 1]]
