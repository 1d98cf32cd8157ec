"""The folder for sentence-transformers: pooling, head, and unsupported models."""

import json

import pytest
import safetensors.torch
import torch

from encoderlab.batch import HeadSizes
from encoderlab.errors import SettingError
from encoderlab.exchange.sentence_transformers import DENSE, MODES, POOLING, answers_texts, pooling_of, write_modules
from encoderlab.model.config import ModelConfig, Pooling

CONFIG = ModelConfig(d_model=8, n_heads=2, max_length=20)


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("pooling", MODES.values())
def test_modules_are_listed_in_their_order_with_one_kind_of_pooling(tmp_path, pooling):
    head = {"weight": torch.randn(3, 8), "bias": torch.randn(3, dtype=torch.float64)}
    write_modules(tmp_path, CONFIG, pooling, head)
    modules = read(tmp_path / "modules.json")
    assert [(module["idx"], module["path"]) for module in modules] == [(0, ""), (1, POOLING), (2, DENSE)]
    fields = read(tmp_path / POOLING / "config.json")
    assert [name for name, chosen in fields.items() if chosen is True] == [
        f"pooling_mode_{name}" for name in MODES if MODES[name] is pooling
    ]
    assert read(tmp_path / "sentence_bert_config.json")["max_seq_length"] == 20
    stored = safetensors.torch.load_file(tmp_path / DENSE / "model.safetensors")
    assert torch.equal(stored["linear.weight"], head["weight"]) and stored["linear.bias"].dtype is torch.float32
    assert read(tmp_path / DENSE / "config.json")["out_features"] == 3


def test_without_a_head_there_is_no_dense_module(tmp_path):
    write_modules(tmp_path, CONFIG, Pooling.mean, {})
    assert len(read(tmp_path / "modules.json")) == 2 and not (tmp_path / DENSE).exists()


@pytest.mark.parametrize("pooling", Pooling)
def test_a_trained_head_keeps_its_pooling_or_is_refused(pooling):
    config, heads = ModelConfig(pooling=pooling), HeadSizes(sequence_classes=2)
    if pooling in MODES.values():
        assert pooling_of(config, heads) is pooling
    else:
        with pytest.raises(SettingError, match=f"no equivalent of model.pooling={pooling.value}"):
            pooling_of(config, heads)
        assert pooling_of(config, HeadSizes()) is Pooling.mean, "without a head any pooling will do"


def test_a_tagging_model_is_refused_and_a_pretraining_head_is_not_exported():
    with pytest.raises(SettingError, match="this model labels words. Use format=huggingface"):
        pooling_of(ModelConfig(), HeadSizes(token_classes=2))
    assert not answers_texts(HeadSizes(sequence_classes=2, vocabulary=True)) and answers_texts(
        HeadSizes(sequence_classes=2)
    )
