"""Unknown settings: the error names the one that was probably meant, among those of the chosen options."""

import pytest

from encoderlab.cli import main as cli
from encoderlab.errors import SettingError


@pytest.mark.parametrize(("typed", "meant"), [("training.lr=1", "learning_rate"), ("training.wd=1", "weight_decay")])
def test_a_setting_known_by_its_initials_is_named(typed, meant):
    with pytest.raises(SettingError, match=f"Did you mean training.{meant}"):
        cli.run(["train", typed])


def test_only_the_settings_of_the_chosen_option_are_listed():
    with pytest.raises(SettingError) as refused:
        cli.run(["train", "task=classification", "dataset=files", "dataset.path=x.csv", "task.qqq=1"])
    assert "task.score" in str(refused.value)
    assert "task.mlm_probability" not in str(refused.value) and "task.special_tokens" not in str(refused.value)
