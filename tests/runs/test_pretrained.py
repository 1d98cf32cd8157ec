"""What a run starts from: every weight that fits is copied, heads are fresh, and conflicts are refused with both
values.
"""

import json
import os
from dataclasses import replace

import pytest
import torch

from encoderlab.config.commands import FinetuneConfig, RunConfig
from encoderlab.data.built_in import BracketsDataset
from encoderlab.data.tokenizer_config import AsPretrainedTokenizer, SymbolsConfig
from encoderlab.errors import DataError, SettingError
from encoderlab.models.folder import model_folder, read_model, save_model
from encoderlab.models.model import Model, Provenance
from encoderlab.models.pretrained import load_into, load_pretrained, shape_for, tokenizer_for
from encoderlab.network.config import AsPretrained, HeadSizes, ModelConfig, Pooling, Positions
from encoderlab.network.heads import EncoderWithHeads
from encoderlab.runs.build_model import build_model
from encoderlab.system.device import Compute
from encoderlab.system.processes import SINGLE_PROCESS
from encoderlab.tasks.classification import ClassificationConfig
from encoderlab.tasks.pretraining import PAIR_LABELS, PretrainingConfig, SecondSentence
from encoderlab.tasks.tagging import TaggingConfig
from encoderlab.tasks.vectors import EncodingConfig
from encoderlab.training.config import TrainingConfig

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = Compute(torch.device("cpu"), torch.float32, 1, "test")
TOKENIZER = SymbolsConfig(symbols="0123456789").build(list, None)
SIZES = {"n_layers": 2, "d_model": 8, "n_heads": 2, "max_length": 16, "dropout": 0.0}
PRETRAINING = HeadSizes(sequence_classes=2, vocabulary=True)
FINETUNING = FinetuneConfig(
    cache_dir="cache",
    task=ClassificationConfig(name="brackets"),
    dataset=BracketsDataset(),
    tokenizer=AsPretrainedTokenizer(),
    model=AsPretrained(),
    training=TrainingConfig(),
    init_from="runs/old",
)


def drawn(heads, seed=0, rows=TOKENIZER.vocabulary_size, **settings):
    """Return a model with all weights random, so that nothing is equal just by being zero."""
    torch.manual_seed(seed)
    model = EncoderWithHeads(ModelConfig(**SIZES | settings), rows, TOKENIZER.pad_id, heads)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    return model


def pretrained_from(network, task=None, labels=(), **settings):
    """Return a finished model with the weights of a network, by default one of pretraining."""
    config = replace(FINETUNING, task=task or PretrainingConfig(name="old"), model=ModelConfig(**SIZES | settings))
    built = config.task.build(TOKENIZER, labels, config.model.max_length)
    return Model(config, built, network, CPU, Provenance({}, None, {}))


def saved(folder, *, tagging=False, **settings):
    """Return a finished run's model/ folder."""
    config = RunConfig(
        cache_dir=str(folder),
        task=(TaggingConfig if tagging else ClassificationConfig)(name="digits"),
        dataset=BracketsDataset(limit=5),
        tokenizer=SymbolsConfig(symbols="0123456789"),
        model=ModelConfig(**SIZES | settings),
        training=TrainingConfig(),
    )
    task = config.task.build(TOKENIZER, ["a", "b", "c"], config.model.max_length)
    model = Model(config, task, drawn(task.heads, **settings), CPU, Provenance({"step": 1}, False, {}))
    save_model(model, folder / "model", "# card\n")


@pytest.mark.parametrize("changed", ["model.safetensors", "tokenizer.json", "config.json", "manifest.json"])
@pytest.mark.parametrize("open_folder", [load_pretrained, lambda run: read_model(model_folder(run))])
def test_a_model_folder_that_differs_from_its_manifest_is_refused_until_that_is_removed(tmp_path, open_folder, changed):
    saved(tmp_path)
    file = tmp_path / "model" / changed
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]) if changed == "model.safetensors" else content + b" }")
    with pytest.raises(DataError, match=rf"model is damaged: {changed}"):
        open_folder(str(tmp_path))
    if changed in ("model.safetensors", "manifest.json"):
        (tmp_path / "model" / "manifest.json").unlink()
        assert open_folder(str(tmp_path)).labels == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["../model/config.json", "/etc/hostname", "pipe", "."])
def test_a_manifest_that_names_anything_but_files_of_the_folder_is_refused(tmp_path, name):
    saved(tmp_path)
    os.mkfifo(tmp_path / "model" / "pipe")
    (tmp_path / "model" / "manifest.json").write_text(json.dumps({"sha256": {name: "0"}}))
    with pytest.raises(DataError, match="model is damaged"):
        load_pretrained(str(tmp_path))


@pytest.mark.parametrize("positions", Positions)
@pytest.mark.parametrize("heads", [HeadSizes(sequence_classes=3), HeadSizes(token_classes=3)])
def test_a_task_gets_the_encoder_and_pooler_and_a_fresh_head(heads, positions):
    settings = {"pooling": Pooling.pooler, "positions": positions}
    old = drawn(heads, **settings)
    model, before = drawn(heads, seed=1, **settings), drawn(heads, seed=1, **settings)
    fresh = load_into(model, pretrained_from(old, **settings))
    assert fresh == [name for name in ("sequence_head", "token_head") if getattr(model, name) is not None]
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, (before if name.startswith(tuple(fresh)) else old).state_dict()[name]), name


def test_continued_pretraining_keeps_every_head():
    old, model = drawn(PRETRAINING), drawn(PRETRAINING, seed=1)
    assert load_into(model, pretrained_from(old), PAIR_LABELS) == []
    assert all(
        torch.equal(mine, theirs)
        for mine, theirs in zip(model.state_dict().values(), old.state_dict().values(), strict=True)
    )


def test_the_first_rows_of_longer_position_and_embedding_tables_are_used():
    heads, padded = HeadSizes(vocabulary=True), TOKENIZER.vocabulary_size + 9
    settings = {"tie_decoder": False}
    old = drawn(heads, rows=padded, **settings)
    model = drawn(heads, seed=1, max_length=5, **settings)
    task = PretrainingConfig(name="old", second_sentence=SecondSentence.none)
    assert load_into(model, pretrained_from(old, task, **settings)) == []
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, old.state_dict()[name][: len(weight)]), name


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    dataset = BracketsDataset(train_rows=20, validation_rows=2, test_rows=2, pairs=8)
    return dataset.load(tmp_path_factory.mktemp("cache"))


def built(config, data, start):
    """Return the model of a run that starts from `start`, of the length that this reads."""
    tokenizer = tokenizer_for(config, data, start, None)
    shape = config.model.resolve(shape_for(config.task, start))
    config = replace(config, model=replace(shape, max_length=start.shape.max_length))
    return build_model(config, data, tokenizer, start, CPU, SINGLE_PROCESS)[0]


@pytest.mark.parametrize(("symbols", "difference"), [("01", "7 tokens"), ("012345678x", "15 tokens")])
def test_another_vocabulary_is_refused_with_what_differs(data, symbols, difference):
    config = replace(FINETUNING, tokenizer=SymbolsConfig(symbols=symbols))
    with pytest.raises(SettingError, match=f"init_from=runs/old: {difference}"):
        built(config, data, pretrained_from(drawn(PRETRAINING)))


def transformers_folder(folder, kind, **changes):
    """Return a small checkpoint written by Transformers, with its tokenizer."""
    import transformers

    torch.manual_seed(0)
    sizes = {"vocab_size": TOKENIZER.vocabulary_size, "max_position_embeddings": 16}
    bert = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
    distilbert = {"dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 12}
    config = transformers.DistilBertConfig if kind.startswith("Distil") else transformers.BertConfig
    given = sizes | (distilbert if kind.startswith("Distil") else bert) | changes
    model = getattr(transformers, kind)(config(**given)).eval()
    model.save_pretrained(folder)
    TOKENIZER.save(folder / "tokenizer.json")
    return model


@pytest.mark.parametrize(
    ("kind", "fresh"),
    [
        ("BertModel", ["sequence_head"]),
        ("BertForPreTraining", ["sequence_head"]),
        ("BertForSequenceClassification", ["sequence_head"]),
        ("BertForMaskedLM", ["sequence_head"]),
        ("DistilBertModel", ["sequence_head"]),
        ("DistilBertForSequenceClassification", ["sequence_head"]),
    ],
)
def test_a_transformers_folder_starts_a_task_with_its_encoder_and_any_pooler(tmp_path, data, kind, fresh):
    original = transformers_folder(tmp_path, kind)
    start = load_pretrained(str(tmp_path))
    model = built(FINETUNING, data, start)
    assert load_into(model.network, start, model.labels) == fresh
    ids = torch.randint(5, 15, (3, 6), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        theirs = original.base_model(ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        mine = model.network.eval().encoder(ids, torch.zeros_like(ids), None)
    assert torch.allclose(mine, theirs, atol=1e-5)


@pytest.mark.parametrize(
    ("heads", "old", "new", "pooled", "pooling"),
    [
        (PRETRAINING, PretrainingConfig, ClassificationConfig, Pooling.cls, Pooling.mean),
        (HeadSizes(vocabulary=True), PretrainingConfig, TaggingConfig, Pooling.cls, Pooling.mean),
        (HeadSizes(), EncodingConfig, ClassificationConfig, Pooling.cls, Pooling.mean),
        (PRETRAINING, PretrainingConfig, ClassificationConfig, Pooling.pooler, Pooling.pooler),
        (HeadSizes(sequence_classes=2), ClassificationConfig, ClassificationConfig, Pooling.cls, Pooling.cls),
        (PRETRAINING, PretrainingConfig, PretrainingConfig, Pooling.cls, Pooling.cls),
    ],
)
def test_a_task_uses_mean_pooling_unless_a_head_or_pooler_was_trained_otherwise(heads, old, new, pooled, pooling):
    labels = ["a", "b"]
    start = pretrained_from(drawn(heads, pooling=pooled), old(name="t"), labels, pooling=pooled)
    assert shape_for(new(name="t"), start).pooling is pooling


@pytest.mark.parametrize(
    ("by_mean", "pooling"),
    [(True, Pooling.mean), (False, Pooling.pooler), (None, Pooling.pooler), ("endless", Pooling.pooler)],
)
def test_a_sentence_transformers_encoder_is_pooled_as_it_was_trained(tmp_path, data, by_mean, pooling):
    transformers_folder(tmp_path, "BertModel")
    if by_mean is not None:
        (tmp_path / "1_Pooling").mkdir()
        config = tmp_path / "1_Pooling" / "config.json"
        config.write_text(json.dumps({"pooling_mode_mean_tokens": by_mean}))
        if by_mean == "endless":  # what a stranger's folder may link to
            config.unlink()
            config.symlink_to("/dev/zero")
    start = load_pretrained(str(tmp_path))
    model = built(FINETUNING, data, start)
    assert model.shape.pooling is pooling
    assert load_into(model.network, start, model.labels) == ["sequence_head"]


@pytest.mark.parametrize("init_from", ["", "file", "run/checkpoints/step-5"])
def test_paths_that_are_not_models_are_refused_for_what_they_are(init_from, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("no model")
    (tmp_path / "run" / "checkpoints" / "step-5").mkdir(parents=True)
    expected = {
        "": "is neither a shipped encoder nor a folder",
        "file": "is neither a shipped encoder nor a folder",
        "run/checkpoints/step-5": r"is a checkpoint\. Set init_from=run, the run",
    }
    with pytest.raises((DataError, SettingError), match=expected[init_from]):
        load_pretrained(init_from)
