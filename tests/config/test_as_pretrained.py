"""A run's model settings next to those of a pretrained encoder: kept, changed in a few places, or refused with both
values.
"""

from dataclasses import fields, replace

import pytest

from encoderlab.errors import SettingError
from encoderlab.network.config import (
    AGREEING,
    Activation,
    AsPretrained,
    Family,
    Head,
    ModelConfig,
    Norm,
    NormPosition,
    Pairs,
    Pooling,
    Positions,
)

PRETRAINED = ModelConfig(
    name="pretrained", n_layers=3, d_model=24, n_heads=2, max_length=40, pooling=Pooling.pooler, dropout=0.2
)
OTHERWISE = {
    "n_layers": 2,
    "d_model": 32,
    "n_heads": 4,
    "d_head": 6,
    "d_ff": 100,
    "d_embedding": 20,
    "positions": Positions.rotary,
    "segments": 0,
    "rotary_base": 500.0,
    "window": 4,
    "window_rotary_base": 500.0,
    "global_every": 2,
    "first_norm": False,
    "relative_buckets": 8,
    "embedding_norm": False,
    "norm": Norm.rms,
    "norm_position": NormPosition.pre,
    "norm_epsilon": 1e-12,
    "activation": Activation.geglu,
    "bias": False,
}
FREE = {
    "name": "mine",
    "max_length": 10,
    "pooling": Pooling.mean,
    "pairs": Pairs.separate,
    "tie_decoder": False,
    "head": Head.prediction,
    "family": Family.roberta,
    "dropout": 0.5,
    "attention_dropout": 0.3,
    "initializer_range": 0.5,
}


def test_without_changes_the_pretrained_encoder_is_used_and_its_length_follows_the_rows():
    assert AsPretrained().resolve(PRETRAINED) == replace(PRETRAINED, max_length=None)


@pytest.mark.parametrize("name", [declared.name for declared in fields(AsPretrained)])
def test_only_the_given_settings_change(name):
    change = {name: FREE[name]}
    assert AsPretrained(**change).resolve(PRETRAINED) == replace(PRETRAINED, **{"max_length": None} | change)


def test_every_setting_must_agree_or_may_differ_and_none_is_forgotten():
    assert set(AGREEING) == set(OTHERWISE)
    assert {declared.name for declared in fields(ModelConfig)} == set(OTHERWISE) | set(FREE)


@pytest.mark.parametrize(("name", "value"), FREE.items())
def test_full_settings_may_differ_if_weights_do_not_depend_on_them(name, value):
    wanted = replace(PRETRAINED, **{name: value})
    assert wanted.resolve(PRETRAINED) is wanted


@pytest.mark.parametrize(("name", "value"), OTHERWISE.items())
def test_full_settings_that_do_not_match_are_refused_with_both_values(name, value):
    theirs = {"d_head": 12, "d_ff": 96, "d_embedding": 24}.get(name, getattr(PRETRAINED, name))
    shown = [getattr(one, "value", one) for one in (value, theirs)]
    with pytest.raises(SettingError) as refused:
        replace(PRETRAINED, **{"d_head": 12, "d_ff": 96, name: value}).resolve(PRETRAINED)
    assert f"model.{name} is {shown[0]}, but {shown[1]}" in str(refused.value)


@pytest.mark.parametrize("choice", [AsPretrained(max_length=41), replace(PRETRAINED, max_length=41)])
def test_more_positions_than_were_learned_are_refused_with_both_values(choice):
    with pytest.raises(SettingError, match=r"^model\.max_length is 41, .*40"):
        choice.resolve(PRETRAINED)


@pytest.mark.parametrize("positions", [Positions.sinusoidal, Positions.rotary])
def test_computed_positions_extend_further(positions):
    initial = replace(PRETRAINED, positions=positions)
    assert AsPretrained(max_length=500).resolve(initial).max_length == 500


@pytest.mark.parametrize(("name", "value"), [("dropout", 1.0), ("max_length", 0)])
def test_numbers_out_of_range_are_refused(name, value):
    with pytest.raises(SettingError, match=rf"^model\.{name} is {value}"):
        AsPretrained(**{name: value})
