"""Prediction by transformers.pipeline, at the batch size that suits it best."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import torch
import transformers

from benchmarks.peers.texts import measure_best, options_parser

BATCH_SIZES = (1, 8, 32, 128, 512)
LENGTH = 128  # the model's own


def main() -> None:
    """Predict every input line, as many times as requested, and print the median speed."""
    parser = options_parser(__doc__)
    parser.add_argument("--model", required=True, help="folder that Transformers opens")
    parser.add_argument("--sampled", type=int, required=True, help="at most this many texts")
    options = parser.parse_args()
    torch.set_num_threads(options.threads or torch.get_num_threads())
    options.limit = min(options.limit or options.sampled, options.sampled)
    classify = transformers.pipeline("text-classification", options.model, device="cpu")

    def seconds(path: Path, batch_size: int) -> float:
        started = time.perf_counter()
        texts = path.read_text(encoding="utf-8").split("\n")[:-1]
        predictions = classify(texts, batch_size=batch_size, truncation=True, max_length=LENGTH)
        with (options.output / "predictions.csv").open("w", encoding="utf-8", newline="") as file:
            pairs = zip(texts, predictions, strict=True)
            csv.writer(file).writerows((text, prediction["label"], prediction["score"]) for text, prediction in pairs)
        return time.perf_counter() - started

    measure_best(options, BATCH_SIZES, seconds)


if __name__ == "__main__":
    main()
