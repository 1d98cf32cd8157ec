"""The weights of labels in the loss, and what a fresh head knows of their frequencies."""

from types import SimpleNamespace

import pytest
import torch

from encoderlab.data.tokenizer_config import SymbolsConfig
from encoderlab.errors import SettingError
from encoderlab.network.config import ModelConfig
from encoderlab.network.heads import EncoderWithHeads
from encoderlab.tasks.classification import ClassificationConfig
from encoderlab.tasks.multilabel import MultilabelConfig
from encoderlab.tasks.tagging import TaggingConfig

TOKENIZER = SymbolsConfig().build(list, None)


def weights_of(config, **counts):
    """Return the weights of labels with these frequencies in training."""
    train = SimpleNamespace(labels=counts, rows=sum(counts.values()))
    return config.build(TOKENIZER, list(counts), 8).label_weights(train)


@pytest.mark.parametrize("config", [ClassificationConfig, TaggingConfig])
def test_balanced_classes_have_equal_total_weight_and_rows_weight_one_on_average(config):
    weights = weights_of(config(name="t", class_weights="balanced"), a=80, b=15, c=5)
    assert torch.allclose(weights * torch.tensor([80.0, 15, 5]), torch.full((3,), 100 / 3))
    assert weights_of(config(name="t"), a=80, b=20) is None


def test_weights_that_were_set_keep_their_ratios_and_must_name_known_labels():
    weights = weights_of(ClassificationConfig(name="t", class_weights={1: 5}), **{"0": 90, "1": 10})
    assert (weights[1] / weights[0]).item() == pytest.approx(5)
    assert (weights * torch.tensor([90.0, 10])).sum().item() == pytest.approx(100)
    with pytest.raises(SettingError, match=r"task.class_weights names 'frud'.*Did you mean fraud"):
        weights_of(ClassificationConfig(name="t", class_weights={"frud": 5}), fraud=1, ok=2)


def test_a_balanced_label_of_a_set_starts_at_probability_one_half():
    train = SimpleNamespace(labels={"rare": 4, "frequent": 60, "never": 0}, rows=100)
    task = MultilabelConfig(name="t", class_weights="balanced").build(TOKENIZER, list(train.labels), 8)
    network = EncoderWithHeads(ModelConfig(n_layers=1, d_model=8, n_heads=2, max_length=8), 10, 0, task.heads)
    balanced = task.label_weights(train)
    assert balanced.tolist() == pytest.approx([97 / 5, 41 / 61, 101])
    task.start_head(network, train, balanced)
    assert torch.allclose(network.sequence_head.bias, torch.zeros(3), atol=1e-5)
    task.start_head(network, train, None)
    assert torch.allclose(network.sequence_head.bias.sigmoid(), torch.tensor([5.0, 61, 1]) / 102)
