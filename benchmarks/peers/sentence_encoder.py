"""Vectors of sentences by sentence-transformers, at the batch size that suits it best."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from benchmarks.texts import first_lines

BATCH_SIZES = (8, 32, 64, 128, 512)
TRIED = 2_000  # texts, to find the best batch size


def main() -> None:
    """Write the vectors of every line of the input, as often as asked, and print the median speed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="folder that sentence-transformers opens")
    parser.add_argument("--input", type=Path, required=True, help="a text in each line")
    parser.add_argument("--output", type=Path, required=True, help="folder for the vectors")
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--repeats", type=int, default=1, help="how often it is measured")
    parser.add_argument("--limit", type=int, help="this many texts only")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    path, count = first_lines(options.input, options.limit, options.output / "texts.txt")
    few, n_few = first_lines(path, min(TRIED, count), options.output / "few.txt")
    encoder = SentenceTransformer(options.model, device="cpu")
    vectors = options.output / "vectors.npy"
    _seconds(encoder, few, vectors, BATCH_SIZES[0])  # the first run of a process is slower
    tried = {size: n_few / _seconds(encoder, few, vectors, size) for size in BATCH_SIZES}
    best = max(tried, key=tried.get)
    seconds = statistics.median(_seconds(encoder, path, vectors, best) for _ in range(options.repeats))
    said = {"seconds": round(seconds, 3), "examples_per_second": round(count / seconds, 1), "texts": count}
    print(json.dumps(said | {"batch_size": best, "tried": {size: round(speed, 1) for size, speed in tried.items()}}))


def _seconds(encoder: SentenceTransformer, path: Path, output: Path, batch_size: int) -> float:
    """Seconds from reading the file to the vectors written."""
    started = time.perf_counter()
    texts = path.read_text(encoding="utf-8").split("\n")[:-1]
    np.save(output, encoder.encode(texts, batch_size=batch_size, normalize_embeddings=True, show_progress_bar=False))
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
