"""The settings of commands that inspect: ranges, and the tokenizer that a task brings without need."""

import pytest

from encoderlab.config.preparation_settings import (
    BaselineConfig,
    CheckConfig,
    CompareConfig,
    DataConfig,
    TokenizerCommandConfig,
)
from encoderlab.errors import SettingError
from encoderlab.settings import brought_along


@pytest.mark.parametrize(
    ("schema", "settings", "refusal"),
    [
        (DataConfig, {"examples": -1}, "examples is -1. Allowed: at least 0"),
        (BaselineConfig, {"words": 101}, "words is 101. Allowed: .*at most 100"),
        (BaselineConfig, {"seed": 2**32}, "seed is 4294967296"),
        (CheckConfig, {"threads": 0}, "threads is 0. Allowed: at least 1"),
        (CompareConfig, {"cache_dir": ""}, "cache_dir is empty"),
    ],
)
def test_settings_out_of_range_are_refused(schema, settings, refusal):
    with pytest.raises(SettingError, match=refusal):
        schema(**settings)


def test_only_baselines_accept_a_tokenizer_they_do_not_use():
    assert brought_along(BaselineConfig) == ["tokenizer"]
    assert brought_along(DataConfig) == brought_along(TokenizerCommandConfig) == []
