"""Poolings make one vector of a sequence's many, and look at no padding."""

import pytest
import torch

from encoderlab.model.config import ModelConfig, Pooling
from encoderlab.model.pooling import ClsPool, MaxPool, MeanPool, build_pooling


def test_poolings_take_the_first_the_mean_and_the_largest_of_the_real_tokens():
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


def test_berts_pooler_stays_within_one_and_distilberts_has_nothing_below_zero():
    hidden = torch.randn(3, 2, 4, generator=torch.Generator().manual_seed(0)) * 100
    bert, distilbert = (
        build_pooling(ModelConfig(d_model=4, n_heads=1, pooling=name)) for name in (Pooling.pooler, Pooling.relu_pooler)
    )
    assert bert(hidden, None).abs().max() <= 1
    assert distilbert(hidden, None).min() >= 0
