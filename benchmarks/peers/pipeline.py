"""Prediction by transformers.pipeline, at the batch size that suits it best."""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch
import transformers

from benchmarks.texts import first_lines

BATCH_SIZES = (1, 8, 32, 128, 512)
TRIED = 2_000  # texts, to find the best batch size
LENGTH = 128  # the model's own


def main() -> None:
    """Answer for every line of the input, as often as asked, and print the median speed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="folder that transformers opens")
    parser.add_argument("--input", type=Path, required=True, help="a text in each line")
    parser.add_argument("--output", type=Path, required=True, help="folder for the answers")
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--repeats", type=int, default=1, help="how often it is measured")
    parser.add_argument("--sampled", type=int, required=True, help="this many texts at most")
    parser.add_argument("--limit", type=int, help="this many texts only")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    path, count = first_lines(options.input, min(options.limit or options.sampled, options.sampled), options.output / "texts.txt")
    few, n_few = first_lines(path, TRIED, options.output / "few.txt")
    classify = transformers.pipeline("text-classification", options.model, device="cpu")
    answers = options.output / "answers.csv"
    tried = {size: n_few / _seconds(classify, few, answers, size) for size in BATCH_SIZES}
    best = max(tried, key=tried.get)
    seconds = statistics.median(_seconds(classify, path, answers, best) for _ in range(options.repeats))
    said = {"seconds": round(seconds, 3), "examples_per_second": round(count / seconds, 1), "texts": count}
    print(json.dumps(said | {"batch_size": best, "tried": {size: round(speed, 1) for size, speed in tried.items()}}))


def _seconds(classify: Any, path: Path, output: Path, batch_size: int) -> float:
    """Seconds from reading the file to the last answer written."""
    started = time.perf_counter()
    texts = path.read_text(encoding="utf-8").split("\n")[:-1]
    answers = classify(texts, batch_size=batch_size, truncation=True, max_length=LENGTH)
    with output.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerows((text, answer["label"], answer["score"]) for text, answer in zip(texts, answers, strict=True))
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
