"""The shapes of a model's matrices, and the share of the roof that a speed reaches."""

import pytest

from benchmarks.shapes import SHAPES, Product, Shape
from encoderlab.batch import HeadSizes
from encoderlab.model.config import ModelConfig
from encoderlab.model.heads import EncoderWithHeads


def test_utilisation_matches_a_calculation_by_hand():
    shape = Shape(n_layers=2, d_model=4, width=4, d_ff=16, vocabulary=100, mlm_rate=0.15)
    weights = 2 * (4 * 4 * 4 + 2 * 4 * 16)
    assert shape.non_embedding == weights == 384
    attention, head = 12 * 2 * 4 * 10, 6 * 0.15 * (100 * 4 + 4**2)
    assert shape.flops_per_token(length=10) == pytest.approx(6 * weights + attention + head)
    assert shape.share_of(roof=1e6, tokens_per_second=50, length=10) == pytest.approx(50 * (2304 + 960 + 374.4) / 1e6)


def test_without_masked_tokens_the_vocabulary_costs_nothing():
    assert Shape(2, 4, 4, 16, vocabulary=100).flops_per_token(10) == Shape(2, 4, 4, 16).flops_per_token(10)


@pytest.mark.parametrize(("name", "heads"), [("notebook", 4), ("notebook_bert", 3), ("tiny", 2), ("mini", 4)])
def test_the_matrices_are_those_of_the_model_itself(name, heads):
    shape = SHAPES[name]
    config = ModelConfig(
        n_layers=shape.n_layers, d_model=shape.d_model, n_heads=heads, d_head=shape.width // heads, d_ff=shape.d_ff
    )
    model = EncoderWithHeads(config, 50, 0, HeadSizes(sequence_classes=2, token_classes=None))
    matrices = [weight for name, weight in model.encoder.layers.named_parameters() if weight.ndim == 2]
    assert shape.non_embedding == sum(matrix.numel() for matrix in matrices)
    found = sorted((product.inputs, product.outputs) for product in shape.products(64) for _ in range(product.count))
    assert found == sorted((matrix.shape[1], matrix.shape[0]) for matrix in matrices)


def test_products_of_one_shape_are_counted_together():
    assert Shape(2, 8, 8, 32).products(tokens=10) == [
        Product(10, 8, 8, 8),
        Product(10, 8, 32, 2),
        Product(10, 32, 8, 2),
    ]


def test_the_mlm_head_is_computed_at_target_positions_only():
    assert Shape(1, 8, 4, 32, vocabulary=500, mlm_rate=0.15).products(tokens=100)[-2:] == [
        Product(15, 8, 8, 1),
        Product(15, 8, 500, 1),
    ]


def test_the_products_of_a_step_add_up_to_the_counted_flops_without_attention():
    shape = Shape(3, 8, 4, 32, vocabulary=500, mlm_rate=0.15)
    step = sum(3 * product.flops * product.count for product in shape.products(tokens=100))
    assert step == pytest.approx(100 * shape.flops_per_token(length=0))
