"""Adapting an encoder to the training texts first: what it reads, how it is trained, and when it is resumed or skipped."""

import pyarrow as pa
import pytest
import torch

from encoderlab.config.commands import FinetuneConfig
from encoderlab.data.examples import Split, Splits
from encoderlab.data.files.files import FilesDataset
from encoderlab.data.survey import survey
from encoderlab.data.tokenizers.config import AsPretrainedTokenizer, SymbolsConfig
from encoderlab.model.config import ModelConfig
from encoderlab.runs.corpora.corpus import Corpus
from encoderlab.runs.fitting import adaptation
from encoderlab.runs.fitting.adaptation import SHARED, Adaptation
from encoderlab.runs.folders.folder import RunFolder
from encoderlab.tasks.config import ClassificationConfig, SecondSentence
from encoderlab.training.config import Keep, TrainingConfig
from tests.runs.small_assembly import assembly_of

TEXTS = [f"text {number}" for number in range(60)]


class Pretrained:
    """A stand-in for the command pretrain that records its arguments and finishes its run."""

    def __init__(self):
        self.configs, self.documents = [], []

    def __call__(self, config, documents):
        self.configs.append(config)
        self.documents.append(documents)


@pytest.fixture
def adapting(tmp_path, monkeypatch):
    """Return an adaptation, the stand-in that pretrains for it, and the encoders loaded afterwards."""
    pretrain, loaded = Pretrained(), []
    monkeypatch.setattr(adaptation, "load_pretrained", lambda name: name)
    monkeypatch.setattr(adaptation, "load_into", lambda model, pretrained: loaded.append(pretrained))
    training = TrainingConfig(threads=1, device="cpu", learning_rate=0.3, steps=7)
    config = FinetuneConfig(
        "cache", ClassificationConfig(name="films"), FilesDataset(path="rows.csv", limit=60), SymbolsConfig(), ModelConfig(), training,
        seed=3, init_from="an encoder", adapt="90s",
    )  # fmt: skip
    columns = {"text": TEXTS, "label": [row % 2 for row in range(60)]}
    held_out = {"text": ["never read"], "label": [0]}
    splits = Splits(
        {"train": Split(pa.table(columns)), "validation": Split(pa.table(held_out))}, ["no", "yes"], {"source": "files"}
    )
    found = Adaptation(config, Corpus(splits, survey(splits), tmp_path), pretrain)
    rows = object()
    assert found.prepare(assembly_of(), None, rows) is rows
    return found, pretrain, loaded


def test_only_the_training_texts_are_read_each_once(adapting, tmp_path):
    found, pretrain, _ = adapting
    found.train_before(RunFolder(tmp_path))
    (documents,) = pretrain.documents
    assert documents.by_name.keys() == {"train", "validation"}
    read = {
        name: [text for document in split.documents() for text in document] for name, split in documents.by_name.items()
    }
    assert sorted(read["train"] + read["validation"]) == sorted(TEXTS)
    assert len(read["validation"]) == 3, "a twentieth is held out"


def test_the_encoder_is_trained_on_masked_tokens_for_the_given_time_with_the_runs_machine_settings(adapting, tmp_path):
    found, pretrain, loaded = adapting
    found.train_before(RunFolder(tmp_path))
    (config,) = pretrain.configs
    assert (config.training.budget, config.training.steps, config.training.keep) == ("90s", None, Keep.last)
    assert all(getattr(config.training, name) == getattr(found.config.training, name) for name in SHARED)
    assert config.training.learning_rate != found.config.training.learning_rate
    assert (config.task.name, config.task.second_sentence, config.init_from) == (
        "films",
        SecondSentence.none,
        "an encoder",
    )
    assert isinstance(config.tokenizer, AsPretrainedTokenizer) and config.model.max_length == 12
    assert (config.seed, config.run_dir, config.resume) == (3, str(tmp_path / "adapted"), None)
    assert loaded == [str(tmp_path / "adapted")]


def test_an_interrupted_adaptation_is_resumed_and_a_finished_one_only_loaded(adapting, tmp_path, capsys):
    found, pretrain, loaded = adapting
    folder = RunFolder(tmp_path)
    adapted = RunFolder(folder.adapted)
    adapted.root.mkdir()
    adapted.config.write_text("")
    found.train_before(folder)
    assert (pretrain.configs[0].run_dir, pretrain.configs[0].resume) == (None, str(adapted.root))
    assert "Adapting the encoder to the training texts for 90s first (adapt=null skips this)" in capsys.readouterr().err
    adapted.report.write_text("{}")
    found.train_before(folder)
    assert len(pretrain.configs) == 1 and len(loaded) == 2
    assert capsys.readouterr().err == ""


def test_the_tasks_random_draws_do_not_depend_on_the_adaptation(adapting, tmp_path):
    found, _, _ = adapting
    drawn = []
    for already in (1, 5):
        torch.rand(already)
        found.train_before(RunFolder(tmp_path))
        drawn.append(torch.rand(3).tolist())
    assert drawn[0] == drawn[1]


def test_its_time_is_counted_and_reported(adapting, tmp_path):
    found, _, _ = adapting
    assert found.seconds_before(10.0) == {"adapting": 90.0}
    assert found.compared(None, None, RunFolder(tmp_path), "test", None) == {"adapted_for": "90s"}
