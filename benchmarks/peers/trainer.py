"""A classifier trained by Transformers' Trainer, from scratch or pretrained: random batches, each padded."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from benchmarks.peers.watched import Meter

LENGTH = 128
TINY = {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 512}
FROM_SCRATCH = {"learning_rate": 1e-3}
FINETUNING = {"learning_rate": 2.2e-4, "warmup_steps": 0.1, "weight_decay": 0.01}  # ours at a width of 384


class Count(TrainerCallback):
    """Report each step to the meter, with the mean number of tokens: the Trainer does not expose its batches."""

    def __init__(self, batch: int, mean_length: float) -> None:
        self.meter = Meter()
        self.batch = batch
        self.mean_length = mean_length

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Count a step."""
        self.meter.step(self.batch, self.batch * self.mean_length)


def main() -> None:
    """Train, and print the speed."""
    options = _options()
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads or torch.get_num_threads())
    texts, labels, tokenizer = {"intents": _intents, "sst2": _sst2}[options.data](options.limit)
    encoded = tokenizer(texts, truncation=True, max_length=LENGTH)
    rows = Dataset.from_dict({**encoded, "labels": labels})
    count = Count(options.batch, sum(map(len, encoded["input_ids"])) / len(rows))
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
        model = _model(options.model, len(tokenizer), max(labels) + 1)
        collate = DataCollatorWithPadding(tokenizer)
        Trainer(model=model, args=settings, train_dataset=rows, data_collator=collate, callbacks=[count]).train()
    count.meter.result(peer="trainer")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", choices=("intents", "sst2"), default="intents", help="the built-in task, or the hub's"
    )
    parser.add_argument("--model", help="folder of a pretrained encoder to finetune (default: BERT-tiny from scratch)")
    parser.add_argument("--batch", type=int, default=32, help="rows of a step")
    parser.add_argument("--steps", type=int, default=100, help="stop after this many steps")
    parser.add_argument("--limit", type=int, help="at most this many rows")
    parser.add_argument("--threads", type=int, help="CPU threads (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and batches")
    parser.add_argument("--bf16", action="store_true", help="matrix products in bf16")
    return parser.parse_args()


def _intents(limit: int | None) -> tuple[list[str], list[int], PreTrainedTokenizerBase]:
    """Return the built-in task, with the tokenizer that ours trains on it."""
    from encoderlab.data.built_in import IntentsDataset
    from encoderlab.data.tokenizer_config import WordPieceConfig

    cache = Path(os.environ.get("ENCODERLAB_CACHE", "~/.cache/encoderlab")).expanduser()
    train = IntentsDataset(limit=limit).load(cache).by_name["train"]
    with tempfile.TemporaryDirectory() as folder:
        WordPieceConfig().build(train.texts, cache).save(Path(folder) / "tokenizer.json")
        tokenizer = AutoTokenizer.from_pretrained(folder)
    return [row.text for row in train], [row.label for row in train], tokenizer


def _sst2(limit: int | None) -> tuple[list[str], list[int], PreTrainedTokenizerBase]:
    """Return SST-2 from the hub, with the tokenizer of bert-base-uncased."""
    rows = load_dataset("nyu-mll/glue", "sst2", split="train" if limit is None else f"train[:{limit}]")
    tokenizer = AutoTokenizer.from_pretrained("google-bert/bert-base-uncased")
    return list(rows["sentence"]), list(rows["label"]), tokenizer


def _model(pretrained: str | None, vocabulary: int, n_labels: int) -> PreTrainedModel:
    if pretrained:
        return AutoModelForSequenceClassification.from_pretrained(pretrained, num_labels=n_labels)
    return BertForSequenceClassification(BertConfig(vocab_size=vocabulary, num_labels=n_labels, **TINY))


if __name__ == "__main__":
    main()
