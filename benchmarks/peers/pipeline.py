"""Prediction by transformers.pipeline, at the batch size that suits it best."""

from __future__ import annotations

import csv
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch
import transformers

from benchmarks.peers.texts import TRIED, best_batch_size, first_lines, options_parser, read_lines, speed

BATCH_SIZES = (1, 8, 32, 128, 512)
LENGTH = 128  # the model's own


def main() -> None:
    """Predict every input line, as many times as requested, and print the median speed."""
    parser = options_parser(__doc__)
    parser.add_argument("--model", required=True, help="folder that Transformers opens")
    parser.add_argument("--sampled", type=int, required=True, help="at most this many texts")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    limit = min(options.limit or options.sampled, options.sampled)
    path, count = first_lines(options.input, limit, options.output / "texts.txt")
    few, _ = first_lines(path, TRIED, options.output / "few.txt")
    classify = transformers.pipeline("text-classification", options.model, device="cpu")
    output = options.output / "predictions.csv"
    best = best_batch_size(lambda size: _seconds(classify, few, output, size), BATCH_SIZES)
    seconds = statistics.median(_seconds(classify, path, output, best) for _ in range(options.repeats))
    print(json.dumps(speed(seconds, count) | {"batch_size": best}))


def _seconds(classify: Any, path: Path, output: Path, batch_size: int) -> float:
    """Return the seconds from reading the file to writing the last prediction."""
    started = time.perf_counter()
    texts = read_lines(path)
    predictions = classify(texts, batch_size=batch_size, truncation=True, max_length=LENGTH)
    with output.open("w", encoding="utf-8", newline="") as file:
        pairs = zip(texts, predictions, strict=True)
        csv.writer(file).writerows((text, prediction["label"], prediction["score"]) for text, prediction in pairs)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
