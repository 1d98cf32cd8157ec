"""The model folder: a model is read back as it was saved, and weights of another one are refused."""

import json
from dataclasses import replace

import pytest
import torch

from encoderlab.batch import HeadSizes
from encoderlab.config.commands import OpenRunConfig, RunConfig
from encoderlab.data.built_in import ReverseDataset
from encoderlab.data.tokenizers import SymbolsConfig
from encoderlab.errors import DataError
from encoderlab.model.config import Activation, ModelConfig, Positions
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.runs.assembly import Assembly, reopen
from encoderlab.runs.saved_model import Origin, read_model, save_model
from encoderlab.runs.task import build_task
from encoderlab.system.device import Compute
from encoderlab.tasks.config import TaggingConfig, TaggingScore
from encoderlab.training.config import Precision, TrainingConfig

pytestmark = pytest.mark.usefixtures("same_threads")

LABELS = [f"lábel {number}" for number in range(12)]  # more than ten: 10 comes after 9, and not after 1
ORIGIN = Origin({"step": 7, "chosen_by": "accuracy", "chosen_on": "validation"}, False, {"train": "abc", "test": "def"})
CPU = Compute(torch.device("cpu"), torch.float32, 1, "test")


@pytest.fixture
def assembly(tmp_path):
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
    task = build_task(config.task, tokenizer, LABELS, config.model.max_length)
    torch.manual_seed(0)
    model = EncoderWithHeads(
        config.model, tokenizer.vocabulary_size, tokenizer.pad_id, HeadSizes(token_classes=len(LABELS))
    ).eval()
    return Assembly(config, CPU, tokenizer, task, model)


@pytest.fixture
def folder(assembly, tmp_path):
    save_model(assembly.saved(ORIGIN), tmp_path / "model", "# a cärd\n")
    return tmp_path / "model"


def opened(folder, tmp_path):
    run = OpenRunConfig(cache_dir=str(tmp_path), run=str(folder), device="cpu", precision=Precision.fp32, threads=1)
    return reopen(run)


def test_a_saved_model_is_read_back_unchanged(assembly, folder):
    saved = read_model(folder)
    assert replace(saved.config, cache_dir=assembly.config.cache_dir) == assembly.config
    assert saved.labels == LABELS
    assert saved.origin == ORIGIN
    assert saved.tokenizer.fingerprint == assembly.tokenizer.fingerprint
    assert saved.weights.keys() == assembly.model.state_dict().keys()
    assert all(torch.equal(saved.weights[name], weight) for name, weight in assembly.model.state_dict().items())


def test_weights_of_another_model_are_refused(folder, tmp_path):
    (folder / "manifest.json").unlink()
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["encoderlab"]["model"]["d_ff"] = 24
    path.write_text(json.dumps(config))
    with pytest.raises(DataError, match=r"config.json requires .*, the weights have ") as refused:
        opened(folder, tmp_path)
    assert "\n" not in str(refused.value)
