"""Prepare articles for pretraining as the usual example script does: datasets.map, twice.

First the tokenizer with its mask of special tokens, a thousand articles at a time; then all tokens of a thousand
articles are concatenated and cut every 128, as examples/pytorch/language-modeling/run_mlm.py of Transformers does by
default.
"""

from __future__ import annotations

import argparse
import json
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from datasets import load_dataset
from transformers import AutoTokenizer
from transformers.utils import logging

from benchmarks.peers.watched import since_started

LENGTH = 128


def grouped(batch: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
    """Return the rows concatenated and cut into rows of 128; the remainder is dropped."""
    joined = {name: list(chain.from_iterable(rows)) for name, rows in batch.items()}
    total = len(next(iter(joined.values()))) // LENGTH * LENGTH
    return {name: [ids[start : start + LENGTH] for start in range(0, total, LENGTH)] for name, ids in joined.items()}


def main() -> None:
    """Prepare the articles, and print the seconds since the process started."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True, help="folder for the rows")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--limit", type=int, help="at most this many articles")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    logging.set_verbosity_error()
    tokenizer = AutoTokenizer.from_pretrained("google-bert/bert-base-uncased")
    split = "train" if options.limit is None else f"train[:{options.limit}]"
    articles = load_dataset("wikimedia/wikipedia", "20231101.en", split=split)

    def tokenised(batch: dict[str, list[Any]]) -> Any:
        return tokenizer(batch["text"], return_special_tokens_mask=True)

    kept = {name: str(options.cache / f"{name}.arrow") for name in ("tokenised", "grouped")}
    anew = {"batched": True, "load_from_cache_file": False}
    rows = articles.map(tokenised, remove_columns=articles.column_names, cache_file_name=kept["tokenised"], **anew)
    rows = rows.map(grouped, cache_file_name=kept["grouped"], **anew)
    print(json.dumps({"first_step_seconds": since_started(), "articles": len(articles), "rows": len(rows)}))


if __name__ == "__main__":
    main()
