"""The model folder: a model is read back as it was saved, and weights of another one are refused."""

import json
from dataclasses import replace

import pytest
import torch

from encoderlab.config.commands import OpenRunConfig, RunConfig
from encoderlab.data.built_in import ReverseDataset
from encoderlab.data.tokenizer_config import SymbolsConfig
from encoderlab.errors import DataError
from encoderlab.models.folder import open_model, read_model, save_model
from encoderlab.models.model import Model, Provenance
from encoderlab.network.config import Activation, HeadSizes, ModelConfig, Positions
from encoderlab.network.heads import EncoderWithHeads
from encoderlab.system.device import Compute
from encoderlab.tasks.tagging import TaggingConfig, TaggingScore
from encoderlab.training.config import Precision, TrainingConfig

pytestmark = pytest.mark.usefixtures("same_threads")

LABELS = [f"lábel {number}" for number in range(12)]  # more than ten: 10 comes after 9, and not after 1
PROVENANCE = Provenance(
    {"step": 7, "chosen_by": "accuracy", "chosen_on": "validation"}, False, {"train": "abc", "test": "def"}
)
CPU = Compute(torch.device("cpu"), torch.float32, 1, "test")


@pytest.fixture
def model(tmp_path):
    """Return a small tagging model with settings other than the defaults."""
    config = RunConfig(
        cache_dir=str(tmp_path / "cache"),
        task=TaggingConfig(name="reverse", score=TaggingScore.f1_macro),
        dataset=ReverseDataset(limit=5),
        tokenizer=SymbolsConfig(symbols="0123456789ä"),
        model=ModelConfig(
            n_layers=1, d_model=8, n_heads=2, max_length=16, positions=Positions.rotary, activation=Activation.relu
        ),
        training=TrainingConfig(epochs=0.5, clip_norm=None),
        seed=3,
    )
    tokenizer = config.tokenizer.build(lambda: [], tmp_path)
    task = config.task.build(tokenizer, LABELS, config.model.max_length)
    torch.manual_seed(0)
    network = EncoderWithHeads(
        config.model, tokenizer.vocabulary_size, tokenizer.pad_id, HeadSizes(token_classes=len(LABELS))
    ).eval()
    return Model(config, task, network, CPU, PROVENANCE)


@pytest.fixture
def folder(model, tmp_path):
    save_model(model, tmp_path / "model", "# a cärd\n")
    return tmp_path / "model"


def opened(folder, tmp_path):
    run = OpenRunConfig(cache_dir=str(tmp_path), run=str(folder), device="cpu", precision=Precision.fp32, threads=1)
    return open_model(run)


def test_a_saved_model_is_read_back_unchanged(model, folder):
    saved = read_model(folder)
    assert replace(saved.config, cache_dir=model.config.cache_dir) == model.config
    assert saved.labels == LABELS
    assert saved.origin == PROVENANCE
    assert saved.tokenizer.fingerprint == model.tokenizer.fingerprint
    assert saved.weights.keys() == model.network.state_dict().keys()
    assert all(torch.equal(saved.weights[name], weight) for name, weight in model.network.state_dict().items())


def test_weights_of_another_model_are_refused(folder, tmp_path):
    (folder / "manifest.json").unlink()
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["encoderlab"]["model"]["d_ff"] = 24
    path.write_text(json.dumps(config))
    with pytest.raises(DataError, match=r"config.json requires .*, the weights have ") as refused:
        opened(folder, tmp_path)
    assert "\n" not in str(refused.value)
