"""The norms against their formulas."""

import pytest
import torch
from torch.testing import assert_close

from encoderlab.model.config import Norm
from encoderlab.model.layers import ScalarNorm, build_norm


def test_scalar_norm_divides_by_the_unbiased_standard_deviation_and_has_one_scale_and_shift():
    norm = ScalarNorm(1e-9, bias=True)
    x = torch.randn(4, 3, 6)
    with torch.no_grad():
        norm.weight.fill_(2.0)
        norm.bias.fill_(0.5)
    assert_close(norm(x), 2 * (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True) + 0.5, rtol=1e-5, atol=1e-5)
    assert sum(parameter.numel() for parameter in norm.parameters()) == 2


def test_rms_norm_does_not_subtract_the_mean_and_scales_the_mean_square_to_one(make_config):
    x = 3 + torch.randn(4, 3, 16)
    normed = build_norm(make_config(norm=Norm.rms))(x)
    assert_close(normed.square().mean(-1), torch.ones(4, 3), rtol=1e-4, atol=1e-4)
    assert normed.mean() > 0.5


@pytest.mark.parametrize("norm", Norm)
def test_a_vector_of_equal_features_has_finite_gradients(norm, make_config):
    x = torch.zeros(2, 3, 16, requires_grad=True)
    build_norm(make_config(norm=norm))(x).sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize(
    ("norm", "names"), [(Norm.layer, {"weight"}), (Norm.rms, {"weight"}), (Norm.scalar, {"weight"})]
)
def test_without_biases_a_norm_has_no_shift(norm, names, make_config):
    assert {name for name, _ in build_norm(make_config(norm=norm, bias=False)).named_parameters()} == names
