"""Our side of preparing articles: from the hub's articles to rows ready for batching."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

from encoderlab.data.sources.wikipedia import WikipediaDataset
from encoderlab.data.tokenizers.config import PretrainedConfig
from encoderlab.runs.corpora.document_corpus import DocumentCorpus
from encoderlab.runs.models.task import build_task
from encoderlab.tasks.config import PretrainingConfig

LENGTH = 128


def main() -> None:
    """Prepare the training split, and print seconds and speed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, help="folder of the token store")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--limit", type=int, help="at most this many articles")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    tokenizer = PretrainedConfig(name="google-bert/bert-base-uncased").build(lambda: [], options.cache)
    config = PretrainingConfig(name="wikipedia")
    task = build_task(config, tokenizer, [], LENGTH)
    dataset = WikipediaDataset(limit=options.limit, validation_fraction=0.0)
    started = time.perf_counter()
    corpus = DocumentCorpus.load(dataset, config, options.cache)
    rows = corpus.rows("train", task)
    lengths = rows.epoch(0, 0).lengths
    seconds = time.perf_counter() - started
    articles = corpus.documents.by_name["train"].total
    figures = {"seconds": round(seconds, 3), "examples_per_second": round(articles / seconds, 1), "articles": articles}
    print(json.dumps(figures | {"rows": len(rows), "mean_length": round(float(lengths.mean()), 1)}))


if __name__ == "__main__":
    main()
