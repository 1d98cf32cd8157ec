"""Settings of a run: kept as plain values, read back the same, and refused with the name that was meant."""

from encoderlab.config.commands import RunConfig, settings_to_dict
from encoderlab.config.composing import settings_from_dict
from encoderlab.data.files import FilesDataset
from encoderlab.data.tokenizers import WordPieceConfig
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
