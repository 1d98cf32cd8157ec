"""Prediction by transformers.pipeline, and vectors by sentence-transformers, of a file of texts: each at the batch size
that suits it best.

python -m benchmarks.peers.texts pipeline --model FOLDER --input TEXTS --output FOLDER

The options and numbers are also those of our own side (`benchmarks.ours`).
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

TRIED = 2_000  # texts, to find the best batch size
LENGTH = 128  # tokens: the model's own
BATCH_SIZES = {"pipeline": (1, 8, 32, 128, 512), "sentence_transformers": (8, 32, 64, 128, 512)}
Compute = Callable[[Sequence[str], int], Any]  # writes what it computes of texts, in batches of a size


def main() -> None:
    """Compute all texts, as many times as requested, and print the median speed."""
    import torch

    parser = options_parser(__doc__)
    parser.add_argument("peer", choices=BATCH_SIZES, help="what computes")
    parser.add_argument("--model", required=True, help="folder that the peer opens")
    parser.add_argument("--sampled", type=int, help="at most this many texts, besides --limit")
    options = parser.parse_args()
    torch.set_num_threads(options.threads or torch.get_num_threads())
    limits = [limit for limit in (options.limit, options.sampled) if limit is not None]
    compute = {"pipeline": _pipeline, "sentence_transformers": _sentence_transformers}[options.peer](options)
    path, count = first_lines(options.input, min(limits, default=None), options.output / "texts.txt")
    few, _ = first_lines(path, TRIED, options.output / "few.txt")

    def seconds(path: Path, batch_size: int) -> float:
        started = time.perf_counter()
        compute(path.read_text(encoding="utf-8").split("\n")[:-1], batch_size)
        return time.perf_counter() - started

    sizes = BATCH_SIZES[options.peer]
    seconds(few, sizes[0])  # the first run of a process is slower
    best = min(sizes, key=lambda size: seconds(few, size))
    took = statistics.median(seconds(path, best) for _ in range(options.repeats))
    print(json.dumps(speed(took, count) | {"batch_size": best}))


def _pipeline(options: argparse.Namespace) -> Compute:
    """Return what writes the class of each text and its probability."""
    import transformers

    classify = transformers.pipeline("text-classification", options.model, device="cpu")

    def compute(texts: Sequence[str], batch_size: int) -> None:
        predictions = classify(texts, batch_size=batch_size, truncation=True, max_length=LENGTH)
        with (options.output / "predictions.csv").open("w", encoding="utf-8", newline="") as file:
            pairs = zip(texts, predictions, strict=True)
            csv.writer(file).writerows((text, prediction["label"], prediction["score"]) for text, prediction in pairs)

    return compute


def _sentence_transformers(options: argparse.Namespace) -> Compute:
    """Return what writes the vector of each text."""
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(options.model, device="cpu")

    def compute(texts: Sequence[str], batch_size: int) -> None:
        vectors = encoder.encode(texts, batch_size=batch_size, normalize_embeddings=True, show_progress_bar=False)
        np.save(options.output / "vectors.npy", vectors)

    return compute


def options_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of the options: texts, output folder, and how to measure."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--input", type=Path, required=True, help="one text per line")
    parser.add_argument("--output", type=Path, required=True, help="folder to write to")
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--repeats", type=int, default=1, help="how many times to measure")
    parser.add_argument("--limit", type=int, help="at most this many texts")
    return parser


def first_lines(path: Path, limit: int | None, shortened: Path) -> tuple[Path, int]:
    """Return the file with the first `limit` lines of `path` (None: `path` itself) and its number of lines."""
    with path.open(encoding="utf-8", newline="\n") as file:
        if limit is None:
            return path, sum(1 for _ in file)
        lines = list(islice(file, limit))
    shortened.write_text("".join(lines), encoding="utf-8", newline="\n")
    return shortened, len(lines)


def speed(seconds: float, count: int) -> dict[str, float]:
    """Return what a side prints of its speed."""
    return {"seconds": round(seconds, 3), "examples_per_second": round(count / seconds, 1), "texts": count}


if __name__ == "__main__":
    main()
