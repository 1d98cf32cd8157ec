"""A run to track, and what is logged of it."""

from encoderlab.config.commands import RunConfig
from encoderlab.data.sources.generated import BracketsDataset
from encoderlab.data.tokenizers.config import SymbolsConfig
from encoderlab.model.config import ModelConfig
from encoderlab.tasks.config import ClassificationConfig
from encoderlab.training.config import TrainingConfig

STEP = {"kind": "step", "step": 3, "epoch": 0.5, "loss": 0.25, "gradient_norm": None, "tokens": 12}


REPORT = {
    "checkpoint": {"step": 4},
    "splits": {"test": {"n": 9, "accuracy": 0.5, "accuracy_ci95": [0.4, 0.6], "per_class": {}}},
    "baselines": {"majority": {"accuracy": 0.25}, "tfidf_logreg": {"accuracy": None, "skipped": "why"}},
}


def config(*names):
    return RunConfig(
        cache_dir="cache",
        task=ClassificationConfig(name="brackets"),
        dataset=BracketsDataset(),
        tokenizer=SymbolsConfig(symbols=["("]),
        model=ModelConfig(),
        training=TrainingConfig(),
        trackers=list(names),
    )
