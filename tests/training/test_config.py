"""The settings of training: values that cannot work are refused before anything is read."""

import math
from dataclasses import fields

import pytest

from encoderlab.errors import SettingError
from encoderlab.training.config import Compile, TrainingConfig

RANGED = [
    declared for declared in fields(TrainingConfig) if {"least", "above", "most", "below"} & set(declared.metadata)
]
NUMBERS = [
    declared.name for declared in RANGED if any(declared.metadata[key] is not None for key in ("least", "above"))
]


def outside(name):
    """Return numbers just outside the range of the setting, one for each end."""
    declared = next(declared for declared in RANGED if declared.name == name)
    kind = float if declared.type.startswith("float") else int
    metadata = declared.metadata
    ends = {"least": -1, "above": 0, "below": 0, "most": 1}
    return [kind(metadata[end] + further) for end, further in ends.items() if metadata[end] is not None]


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in NUMBERS for value in outside(name)])
def test_every_number_out_of_its_range_is_refused_by_its_name(name, value):
    with pytest.raises(SettingError, match=rf"^training\.{name} is {value}\. Allowed: .*training\.{name}"):
        TrainingConfig(**{name: value})


def test_no_number_is_without_a_range():
    numbers = {declared.name for declared in fields(TrainingConfig) if type(declared.default) in (int, float)}
    assert numbers - set(NUMBERS) == set()


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["learning_rate", "epochs", "warmup", "weight_decay", "clip_norm"])
def test_non_numbers_are_refused(name, value):
    with pytest.raises(SettingError, match=rf"^training\.{name} is {value}"):
        TrainingConfig(**{name: value})


def test_more_micro_batches_than_rows_are_refused():
    with pytest.raises(SettingError) as refused:
        TrainingConfig(batch_size=4, accumulate=5)
    assert str(refused.value) == (
        "training.accumulate=5 is more than training.batch_size=4. "
        "Allowed: at most one micro-batch per row. Set training.accumulate=4."
    )
    assert TrainingConfig(batch_size=4, accumulate=4).accumulate == 4


def test_micro_batches_are_refused_with_cuda_graphs_which_would_overwrite_their_gradients():
    with pytest.raises(
        SettingError, match=r"^training\.accumulate=2 with .*cuda_graphs .*Set training\.accumulate=1 or "
    ):
        TrainingConfig(accumulate=2, compile=Compile.cuda_graphs)
    assert TrainingConfig(accumulate=1, compile=Compile.cuda_graphs).accumulate == 1


def test_the_defaults_are_a_recipe_that_can_be_run():
    config = TrainingConfig()
    assert config.steps is None
    assert config.epochs > 0
    assert config.device == "auto"
