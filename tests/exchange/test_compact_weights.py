"""Compact storage: small, read back as float32 within its rounding error, and refused if its parts do not match."""

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.errors import DataError
from encoderlab.exchange.compact_weights import COMPACT, SCALE, TABLE, compacted, expanded
from encoderlab.exchange.huggingface_files import read_weights


def weights(seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return {
        TABLE: torch.randn(50, 8, generator=generator) * scale,
        "encoder.norm.weight": torch.randn(8, generator=generator),
    }


@given(seed=st.integers(0, 99), scale=st.floats(1e-6, 1e4))
def test_no_weight_is_off_by_more_than_half_a_step(seed, scale):
    before = weights(seed, scale)
    after = expanded(compacted(before))
    step = before[TABLE].abs().amax(dim=1, keepdim=True) / 127
    assert ((after[TABLE] - before[TABLE]).abs() <= step * 0.501).all()
    torch.testing.assert_close(after["encoder.norm.weight"], before["encoder.norm.weight"], rtol=1e-3, atol=1e-6)


def test_a_row_of_zeros_stays_zero():
    before = weights()
    before[TABLE][3] = 0
    assert not expanded(compacted(before))[TABLE][3].any()


def test_a_weight_beyond_the_range_of_half_precision_is_kept_as_is():
    before = weights()
    before["encoder.norm.weight"][2] = -70_000.0
    stored = compacted(before)
    assert stored["encoder.norm.weight"].dtype == torch.float32
    torch.testing.assert_close(expanded(stored)["encoder.norm.weight"], before["encoder.norm.weight"], rtol=0, atol=0)


def test_a_file_is_read_as_float32_and_storing_it_again_changes_nothing(tmp_path):
    stored = compacted(weights())
    assert (stored[TABLE].dtype, stored["encoder.norm.weight"].dtype) == (torch.int8, torch.float16)
    safetensors.torch.save_file(stored, tmp_path / "a.safetensors", metadata=COMPACT)
    found = read_weights(tmp_path / "a.safetensors")
    assert found.keys() == weights().keys()
    assert {weight.dtype for weight in found.values()} == {torch.float32}
    again = expanded(compacted(found))
    torch.testing.assert_close(again, found)


def test_integers_are_refused_in_a_file_that_is_not_compact(tmp_path):
    safetensors.torch.save_file(compacted(weights()), tmp_path / "a.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match="token.weight is of type int8"):
        read_weights(tmp_path / "a.safetensors")


@pytest.mark.parametrize("scale", [None, torch.ones(7), torch.ones(50, dtype=torch.int64)])
def test_a_missing_or_mismatched_scale_is_reported_as_damage(tmp_path, scale):
    stored = compacted(weights())
    del stored[TABLE + SCALE]
    stored |= {} if scale is None else {TABLE + SCALE: scale}
    safetensors.torch.save_file(stored, tmp_path / "a.safetensors", metadata=COMPACT)
    with pytest.raises(DataError, match=r"a\.safetensors is damaged: .*token\.weight"):
        read_weights(tmp_path / "a.safetensors")
