"""A small model with random weights, for tests of finished models, and rows for it."""

import torch

from encoderlab.config.commands import RunConfig
from encoderlab.data.examples import TextExample
from encoderlab.data.token_store import tokenize_examples
from encoderlab.data.tokenizer_config import SymbolsConfig
from encoderlab.models.model import Model
from encoderlab.network.config import ModelConfig
from encoderlab.network.heads import EncoderWithHeads
from encoderlab.system.device import Compute
from encoderlab.tasks.classification import ClassificationConfig
from encoderlab.training.config import TrainingConfig

TOKENIZER = SymbolsConfig(symbols="0123456789ab").build(list, None)
LABELS = ["up", "down", "level"]
CPU = Compute(torch.device("cpu"), torch.float32, 1, "test")


def model_of(task=None, labels=LABELS, seed=0, training=None, **shape):
    """Return a model of this task and shape whose weights are drawn from a normal distribution."""
    task = task or ClassificationConfig(name="digits")
    model = ModelConfig(**{"n_layers": 2, "d_model": 8, "n_heads": 2, "max_length": 12} | shape)
    config = RunConfig("cache", task, None, SymbolsConfig(), model, training or TrainingConfig())
    built = task.build(TOKENIZER, labels, model.max_length)
    torch.manual_seed(seed)
    network = EncoderWithHeads(model, TOKENIZER.vocabulary_size, TOKENIZER.pad_id, built.heads)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_()
    return Model(config, built, network, CPU)


def labelled_rows(n, max_length=12):
    """Return texts of a digit and up to three symbols, whose digit is their label."""
    task = ClassificationConfig(name="digits").build(TOKENIZER, LABELS, max_length)
    texts = [f"{row % 3}ab9"[: 2 + row % 3] for row in range(n)]
    store = tokenize_examples([TextExample(text) for text in texts], TOKENIZER)
    return task.rows(store, [row % 3 for row in range(n)])
