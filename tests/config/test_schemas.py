"""Settings of a run: kept as plain values, read back the same, and refused with the name that was meant."""

from dataclasses import replace

import pytest
from omegaconf import OmegaConf

from encoderlab.config.commands import RunConfig
from encoderlab.config.composing import settings_from_dict, typed
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


@pytest.mark.parametrize(
    ("key", "refusal"),
    [
        ("model.n_layer", "There is no setting model.n_layer. Did you mean model.n_layers?"),
        ("training.lr", "There is no setting training.lr. Did you mean training.learning_rate?"),
        ("trainig.steps", "There is no setting trainig.steps. Did you mean training.steps?"),
        ("task.window", "There is no setting task.window. Did you mean task.windows?"),
        ("model.steps", "There is no setting model.steps. Did you mean training.steps?"),
    ],
)
def test_an_unknown_setting_is_refused_with_a_suggestion(key, refusal):
    config = OmegaConf.structured(replace(CONFIG))
    OmegaConf.set_struct(config, False)
    OmegaConf.update(config, key, 3, force_add=True)
    with pytest.raises(SettingError) as refused:
        typed(config, RunConfig)
    assert str(refused.value).startswith(refusal)
