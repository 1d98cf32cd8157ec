"""Sentence vectors by sentence-transformers, at the batch size that suits it best."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from benchmarks.peers.texts import TRIED, best_batch_size, first_lines, options_parser, read_lines, speed

BATCH_SIZES = (8, 32, 64, 128, 512)


def main() -> None:
    """Write the vectors of every input line, as many times as requested, and print the median speed."""
    parser = options_parser(__doc__)
    parser.add_argument("--model", required=True, help="folder that sentence-transformers opens")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    path, count = first_lines(options.input, options.limit, options.output / "texts.txt")
    few, _ = first_lines(path, TRIED, options.output / "few.txt")
    encoder, output = SentenceTransformer(options.model, device="cpu"), options.output / "vectors.npy"
    _seconds(encoder, few, output, BATCH_SIZES[0])  # the first run of a process is slower
    best = best_batch_size(lambda size: _seconds(encoder, few, output, size), BATCH_SIZES)
    seconds = statistics.median(_seconds(encoder, path, output, best) for _ in range(options.repeats))
    print(json.dumps(speed(seconds, count) | {"batch_size": best}))


def _seconds(encoder: SentenceTransformer, path: Path, output: Path, batch_size: int) -> float:
    """Return the seconds from reading the file to writing the vectors."""
    started, texts = time.perf_counter(), read_lines(path)
    np.save(output, encoder.encode(texts, batch_size=batch_size, normalize_embeddings=True, show_progress_bar=False))
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
