"""Prepare articles for pretraining as the usual example script does: datasets.map, twice.

First the tokenizer with its mask of special tokens, a thousand articles at a time; then all tokens of a thousand
articles are concatenated and cut every 128, as examples/pytorch/language-modeling/run_mlm.py of Transformers does by
default.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from datasets import load_dataset
from transformers import AutoTokenizer
from transformers.utils import logging

LENGTH = 128


def grouped(some: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
    """Return the rows concatenated and cut into rows of 128; the remainder is dropped."""
    strung = {name: list(chain.from_iterable(rows)) for name, rows in some.items()}
    total = len(next(iter(strung.values()))) // LENGTH * LENGTH
    return {name: [ids[start : start + LENGTH] for start in range(0, total, LENGTH)] for name, ids in strung.items()}


def main() -> None:
    """Prepare the articles, and print seconds and speed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True, help="folder for the rows")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--limit", type=int, help="at most this many articles")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    logging.set_verbosity_error()
    tokenizer = AutoTokenizer.from_pretrained("google-bert/bert-base-uncased")
    split = "train" if options.limit is None else f"train[:{options.limit}]"
    started = time.perf_counter()
    articles = load_dataset("wikimedia/wikipedia", "20231101.en", split=split)

    def tokenised(some: dict[str, list[Any]]) -> Any:
        return tokenizer(some["text"], return_special_tokens_mask=True)

    kept = {name: str(options.cache / f"{name}.arrow") for name in ("tokenised", "grouped")}
    rows = articles.map(
        tokenised,
        batched=True,
        remove_columns=articles.column_names,
        cache_file_name=kept["tokenised"],
        load_from_cache_file=False,
    )
    rows = rows.map(grouped, batched=True, cache_file_name=kept["grouped"], load_from_cache_file=False)
    seconds = time.perf_counter() - started
    figures = {
        "seconds": round(seconds, 3),
        "examples_per_second": round(len(articles) / seconds, 1),
        "articles": len(articles),
    }
    print(json.dumps(figures | {"rows": len(rows)}))


if __name__ == "__main__":
    main()
