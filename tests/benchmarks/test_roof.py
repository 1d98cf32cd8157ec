"""The roof: the matrix products of a training step at this machine's best speed."""

import pytest
import torch

from benchmarks import roof as roof_module
from benchmarks.roof import best_seconds, probe, roof
from benchmarks.shapes import Product, Shape


def test_a_product_is_weighted_by_its_flops():
    fast, slow = Product(10, 100, 100, 3), Product(10, 10, 10, 1)
    speeds = {fast: 1e9, slow: 1e6}
    found = roof([fast, slow], lambda product: 3 * product.flops / speeds[product])
    work = {product: 3 * product.flops * product.count for product in speeds}
    assert found == sum(work.values()) / sum(work[product] / speeds[product] for product in speeds)
    assert roof([fast], lambda product: 3 * product.flops / speeds[product]) == 1e9


def test_all_three_products_of_a_training_step_are_timed(monkeypatch):
    shapes = []
    monkeypatch.setattr(
        roof_module, "_best", lambda multiply, device, seconds: shapes.append(tuple(multiply().shape)) or 1.0
    )
    assert best_seconds(Product(rows=5, inputs=3, outputs=2, count=4), torch.bfloat16, "cpu") == 3.0
    assert shapes == [(5, 2), (5, 3), (2, 3)]  # the answers, the gradient of the inputs, that of the weights


@pytest.mark.slow
def test_a_probe_reports_the_speed_of_both_precisions():
    found = probe(Shape(1, 16, 16, 32), tokens=32, threads=1)
    assert found.keys() == {"float32", "bfloat16"}
    assert all(speed > 0 for speed in found.values())
