"""What a run records before it starts is enough to repeat it, and says what it ran on."""

import json

import pytest
import torch
import yaml

from encoderlab.config.commands import RunConfig
from encoderlab.config.composing import settings_from_dict
from encoderlab.data.built_in import BracketsDataset
from encoderlab.data.tokenizers import SymbolsConfig
from encoderlab.model.config import ModelConfig, Norm
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.records import record_start, run_facts
from encoderlab.system.device import Compute
from encoderlab.tasks.config import ClassificationConfig
from encoderlab.training.config import Keep, TrainingConfig

CPU = Compute(torch.device("cpu"), torch.bfloat16, 3, "test")


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path)


@pytest.fixture
def config(tmp_path):
    return RunConfig(
        cache_dir=str(tmp_path / "cäche"),
        task=ClassificationConfig(name="brackets"),
        dataset=BracketsDataset(train_rows=20, validation_rows=6, test_rows=4, pairs=5),
        tokenizer=SymbolsConfig(symbols="()[]{}<>#: -'\"\\"),
        model=ModelConfig(norm=Norm.rms, norm_epsilon=1e-12),
        training=TrainingConfig(epochs=0.25, keep=Keep.last, clip_norm=None),
        seed=4,
        run_dir=str(tmp_path),
    )


def test_the_recorded_settings_are_those_of_the_run(folder, config):
    record_start(folder, "train", config, CPU, Corpus.load(config.dataset, folder.root, config.task.target))
    plain = yaml.safe_load(folder.config.read_text(encoding="utf-8"))
    assert settings_from_dict(plain, RunConfig) == config
    assert plain["training"]["epochs"] == 0.25
    assert plain["model"]["norm"] == "rms"
    assert "cäche" in folder.config.read_text(encoding="utf-8")


def test_the_data_are_recorded_with_origin_counts_and_fingerprints(folder, config):
    corpus = Corpus.load(config.dataset, folder.root, config.task.target)
    record_start(folder, "train", config, CPU, corpus)
    found = json.loads(folder.environment.read_text(encoding="utf-8"))["dataset"]
    assert found["labels"] == ["unbalanced", "balanced"]
    assert found["origin"]["source"] == "generated"
    assert found["origin"]["pairs"] == 5
    assert found["splits"]["train"]["rows"] == 20
    assert {name: split["fingerprint"] for name, split in found["splits"].items()} == corpus.fingerprints()


def test_a_report_lists_the_settings_that_were_typed_or_differ_from_the_commands_own(folder, config, monkeypatch):
    monkeypatch.setattr("sys.argv", ["python"])  # a run that was started from Python
    record_start(folder, "train", config, CPU, Corpus.load(config.dataset, folder.root, config.task.target))
    from_python = run_facts(folder, "train")["settings"]
    assert from_python["dataset.train_rows"] == 20 and from_python["training.keep"] == "last"
    assert not {"run_dir", "dropout", "model.n_layers", "dataset.schema"} & set(from_python)
    record = json.loads(folder.environment.read_text(encoding="utf-8"))
    record |= {"overrides": ["experiment=a", "seed=4", "run_dir=/home/jo/run"]}
    record["resumed"] = [{"overrides": ["resume=/home/jo/run", "training.epochs=0.25"]}]
    folder.environment.write_text(json.dumps(record), encoding="utf-8")
    assert run_facts(folder, "train")["settings"] == {"experiment": "a", "seed": 4, "training.epochs": 0.25}
