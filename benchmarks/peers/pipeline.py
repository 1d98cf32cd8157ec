"""Prediction by transformers.pipeline, at the batch size that suits it best."""

from __future__ import annotations

import csv
import json
import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

from benchmarks.peers.batch_size import fastest
from benchmarks.texts import first_lines, options_parser, speed

BATCH_SIZES = (1, 8, 32, 128, 512)
TRIED = 2_000  # texts, to find the best batch size
LENGTH = 128  # the model's own


def main() -> None:
    """Predict every input line, as many times as requested, and print the median speed."""
    parser = options_parser(__doc__, output="answers")
    parser.add_argument("--model", required=True, help="folder that Transformers opens")
    parser.add_argument("--sampled", type=int, required=True, help="at most this many texts")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    path, count = first_lines(
        options.input, min(options.limit or options.sampled, options.sampled), options.output / "texts.txt"
    )
    few, n_few = first_lines(path, TRIED, options.output / "few.txt")
    classify = transformers.pipeline("text-classification", options.model, device="cpu")
    answers = options.output / "answers.csv"
    few_at = {size: partial(_seconds, classify, few, answers, size) for size in BATCH_SIZES}
    best, tried = fastest(few_at, n_few)
    seconds = statistics.median(_seconds(classify, path, answers, best) for _ in range(options.repeats))
    print(json.dumps(speed(seconds, count) | {"batch_size": best, "tried": tried}))


def _seconds(classify: Any, path: Path, output: Path, batch_size: int) -> float:
    """Return the seconds from reading the file to writing the last prediction."""
    started = time.perf_counter()
    texts = path.read_text(encoding="utf-8").split("\n")[:-1]
    answers = classify(texts, batch_size=batch_size, truncation=True, max_length=LENGTH)
    with output.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerows((text, answer["label"], answer["score"]) for text, answer in zip(texts, answers, strict=True))
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
