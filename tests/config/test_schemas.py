"""Settings of a run: kept as plain values, read back the same, and refused with the name that was meant."""

import pytest

from encoderlab.config.commands import RunConfig
from encoderlab.config.composing import settings_from_dict
from encoderlab.config.schemas import settings_to_dict
from encoderlab.data.files import FilesDataset
from encoderlab.data.tokenizers import WordPieceConfig
from encoderlab.errors import SettingError
from encoderlab.model.config import ModelConfig
from encoderlab.tasks.config import ClassificationConfig
from encoderlab.training.config import TrainingConfig

CONFIG = RunConfig(
    task=ClassificationConfig(name="stars"),
    dataset=FilesDataset(path="${HOME}/reviews.csv"),
    tokenizer=WordPieceConfig(),
    model=ModelConfig(),
    training=TrainingConfig(steps=3),
)


def test_settings_are_read_back_unchanged_and_never_interpolated():
    plain = settings_to_dict(CONFIG)
    assert plain["dataset"]["schema"] == "files"
    assert plain["training"]["compile"] == "auto"
    assert settings_from_dict(plain, RunConfig) == CONFIG


@pytest.mark.parametrize(
    ("changed", "refusal"),
    [
        ({"sed": 1}, "There is no setting sed. Did you mean seed?"),
        ({"dataset": {"schema": "folders"}}, "dataset has no schema folders"),
    ],
)
def test_a_record_with_an_unknown_name_is_refused(changed, refusal):
    with pytest.raises(SettingError) as refused:
        settings_from_dict({**settings_to_dict(CONFIG), **changed}, RunConfig)
    assert str(refused.value).startswith(refusal)
