"""The weights a model starts from."""

import pytest
import torch


def test_with_a_range_all_weights_have_that_standard_deviation(make_model):
    encoder = make_model(d_model=64, d_ff=64, max_length=100, initializer_range=0.02).encoder
    layer = encoder.layers[0]
    for weight in (
        encoder.embeddings.position.embedding.weight,
        layer.attention.query.weight,
        layer.feed_forward.outer.weight,
    ):
        assert weight.std().item() == pytest.approx(0.02, rel=0.1)


def test_without_a_range_the_embedding_of_a_token_has_length_one(make_model):
    token = make_model(d_model=512).encoder.embeddings.token
    assert token.weight[1:].norm(dim=1).mean().item() == pytest.approx(1, rel=0.1)


def test_without_a_range_linear_maps_preserve_the_scale_of_their_input(make_model):
    query = make_model(d_model=256).encoder.layers[0].attention.query
    assert query(torch.randn(50, 256)).std().item() == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("initializer_range", [None, 0.02])
def test_biases_and_padding_start_at_zero(initializer_range, make_model):
    model = make_model(initializer_range=initializer_range)
    assert not any(parameter.any() for name, parameter in model.named_parameters() if name.endswith("bias"))
    assert not model.encoder.embeddings.token.weight[0].any()


def test_the_global_seed_decides_the_weights(make_model):
    first, same, other = (make_model(seed=seed).sequence_head.weight for seed in (1, 1, 2))
    assert torch.equal(first, same) and not torch.equal(first, other)
