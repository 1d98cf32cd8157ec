"""The data of the project's own peers: texts, labels and a tokenizer of Transformers, the same as for ours."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

LENGTH = 128
SIZES = {"notebook": (2, 64, 4, 256), "tiny": (2, 128, 2, 512)}  # n_layers, d_model, n_heads, d_ff


@dataclass(frozen=True, slots=True)
class TrainingData:
    """What a classifier learns from: texts, and the number of each text's label."""

    texts: list[str]
    labels: list[int]
    n_labels: int
    tokenizer: PreTrainedTokenizerBase


def arguments(description: str, more: Mapping[str, dict[str, Any]] | None = None) -> argparse.Namespace:
    """Parse the options that the peers share, and `more`; set seed and threads."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--data", choices=SOURCES, default="intents", help="intents (encoderlab's built-in task) or sst2 (from the hub)"
    )
    parser.add_argument("--size", choices=SIZES, default="tiny", help="the model's size")
    parser.add_argument("--batch", type=int, default=32, help="rows of a step")
    parser.add_argument("--steps", type=int, default=100, help="stop after this many steps")
    parser.add_argument("--limit", type=int, help="at most this many rows")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0: all")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and batches")
    for name, settings in (more or {}).items():
        parser.add_argument(name, **settings)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    if options.threads:
        torch.set_num_threads(options.threads)
    return options


def training_data(options: argparse.Namespace) -> TrainingData:
    """Return the rows that the options select."""
    return SOURCES[options.data](options.limit)


def _intents(limit: int | None) -> TrainingData:
    """Return the built-in task, with the tokenizer that ours trains on it."""
    from encoderlab.data.built_in import IntentsDataset
    from encoderlab.data.tokenizers import WordPieceConfig

    cache = Path(os.environ.get("ENCODERLAB_CACHE", "~/.cache/encoderlab")).expanduser()
    splits = IntentsDataset(limit=limit).load(cache)
    train = splits.by_name["train"]
    with tempfile.TemporaryDirectory() as folder:
        WordPieceConfig().build(train.texts, cache).save(Path(folder) / "tokenizer.json")
        tokenizer = AutoTokenizer.from_pretrained(folder)
    return TrainingData([e.text for e in train], [e.label for e in train], len(splits.labels), tokenizer)


def _sst2(limit: int | None) -> TrainingData:
    """Return SST-2 from the hub, with the tokenizer of bert-base-uncased."""
    from datasets import load_dataset

    rows = load_dataset("nyu-mll/glue", "sst2", split="train" if limit is None else f"train[:{limit}]")
    return TrainingData(
        list(rows["sentence"]), list(rows["label"]), 2, AutoTokenizer.from_pretrained("google-bert/bert-base-uncased")
    )


SOURCES = {"intents": _intents, "sst2": _sst2}
