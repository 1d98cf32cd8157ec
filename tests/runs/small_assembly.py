"""A small model with its task and random weights, for tests of finished models."""

import torch

from encoderlab.batch import Encoded, HeadSizes
from encoderlab.config.commands import RunConfig
from encoderlab.data.tokenizers import SymbolsConfig
from encoderlab.model.config import ModelConfig
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.runs.assembly import Assembly
from encoderlab.runs.task import build_task
from encoderlab.system.device import Compute
from encoderlab.tasks.config import ClassificationConfig
from encoderlab.tasks.rows import hold_encoded
from encoderlab.training.config import TrainingConfig

TOKENIZER = SymbolsConfig(symbols="0123456789ab").build(list, None)
LABELS = ["up", "down", "level"]
CPU = Compute(torch.device("cpu"), torch.float32, 1, "test")


def assembly_of(task=None, labels=LABELS, seed=0, training=None, **shape):
    task = task or ClassificationConfig(name="digits")
    model = ModelConfig(**{"n_layers": 2, "d_model": 8, "n_heads": 2, "max_length": 12} | shape)
    config = RunConfig("cache", task, None, SymbolsConfig(), model, training or TrainingConfig())
    built = build_task(task, TOKENIZER, labels, model.max_length)
    torch.manual_seed(seed)
    encoder = EncoderWithHeads(model, TOKENIZER.vocabulary_size, TOKENIZER.pad_id, built.heads)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.normal_()
    return Assembly(config, CPU, TOKENIZER, built, encoder)


def labelled_rows(n):
    """Return encoded texts whose first symbol is their label."""
    first = TOKENIZER.vocabulary_size - 3
    encoded = [Encoded([first + n % 3, 5, 6, 7][: 2 + n % 3], [0] * min(2 + n % 3, 4), label=n % 3) for n in range(n)]
    return hold_encoded(encoded, TOKENIZER.vocabulary_size, HeadSizes(sequence_classes=3))
