"""Sentence vectors by sentence-transformers, at the batch size that suits it best."""

from __future__ import annotations

import json
import statistics
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from benchmarks.peers.batch_size import fastest
from benchmarks.texts import first_lines, options_parser, speed

BATCH_SIZES = (8, 32, 64, 128, 512)
TRIED = 2_000  # texts, to find the best batch size


def main() -> None:
    """Write the vectors of every input line, as many times as requested, and print the median speed."""
    parser = options_parser(__doc__, output="vectors")
    parser.add_argument("--model", required=True, help="folder that sentence-transformers opens")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    path, count = first_lines(options.input, options.limit, options.output / "texts.txt")
    few, n_few = first_lines(path, min(TRIED, count), options.output / "few.txt")
    encoder = SentenceTransformer(options.model, device="cpu")
    vectors = options.output / "vectors.npy"
    _seconds(encoder, few, vectors, BATCH_SIZES[0])  # the first run of a process is slower
    few_at = {size: partial(_seconds, encoder, few, vectors, size) for size in BATCH_SIZES}
    best, tried = fastest(few_at, n_few)
    seconds = statistics.median(_seconds(encoder, path, vectors, best) for _ in range(options.repeats))
    print(json.dumps(speed(seconds, count) | {"batch_size": best, "tried": tried}))


def _seconds(encoder: SentenceTransformer, path: Path, output: Path, batch_size: int) -> float:
    """Return the seconds from reading the file to writing the vectors."""
    started = time.perf_counter()
    texts = path.read_text(encoding="utf-8").split("\n")[:-1]
    np.save(output, encoder.encode(texts, batch_size=batch_size, normalize_embeddings=True, show_progress_bar=False))
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
