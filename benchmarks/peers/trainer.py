"""A classifier trained by Transformers' Trainer, from scratch or from a pretrained encoder: random batches, each
padded.
"""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

from datasets import Dataset
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from benchmarks.peers.data import LENGTH, SIZES, TrainingData, arguments, training_data
from benchmarks.peers.watched import Meter

MORE = {
    "--model": {"help": "folder of a pretrained encoder to finetune (default: train a model of --size from scratch)"},
    "--bf16": {"action": "store_true", "help": "matrix products in bf16"},
}
FROM_SCRATCH = {"learning_rate": 1e-3}
FINETUNING = {
    "learning_rate": 2.2e-4,
    "warmup_steps": 0.1,
    "weight_decay": 0.01,
}  # our training=finetuning, at a width of 384


class Count(TrainerCallback):
    """Report each step to the meter, with the mean number of tokens, because the Trainer does not expose its batches."""

    def __init__(self, batch: int, mean_length: float) -> None:
        self.meter, self.batch, self.mean_length = Meter(), batch, mean_length

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.meter.step(self.batch, self.batch * self.mean_length)


def main() -> None:
    """Train, and print the speed."""
    options = arguments(__doc__, MORE)
    data = training_data(options)
    rows = Dataset.from_dict({"text": data.texts, "labels": data.labels})
    rows = rows.map(
        lambda some: data.tokenizer(some["text"], truncation=True, max_length=LENGTH),
        batched=True,
        remove_columns=["text"],
    )
    count = Count(options.batch, sum(map(len, rows["input_ids"])) / len(rows))
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder,
            max_steps=options.steps,
            per_device_train_batch_size=options.batch,
            seed=options.seed,
            use_cpu=True,
            bf16=options.bf16,
            logging_steps=500,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            **(FINETUNING if options.model else FROM_SCRATCH),
        )
        Trainer(
            model=_model(options, data),
            args=settings,
            train_dataset=rows,
            data_collator=DataCollatorWithPadding(data.tokenizer),
            callbacks=[count],
        ).train()
    count.meter.result(peer="trainer")


def _model(options: argparse.Namespace, data: TrainingData) -> PreTrainedModel:
    if options.model:
        return AutoModelForSequenceClassification.from_pretrained(options.model, num_labels=data.n_labels)
    n_layers, d_model, n_heads, d_ff = SIZES[options.size]
    config = BertConfig(
        vocab_size=len(data.tokenizer),
        num_hidden_layers=n_layers,
        hidden_size=d_model,
        num_attention_heads=n_heads,
        intermediate_size=d_ff,
        num_labels=data.n_labels,
    )
    return BertForSequenceClassification(config)


if __name__ == "__main__":
    main()
