"""Sentence vectors by sentence-transformers, at the batch size that suits it best."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from benchmarks.peers.texts import measure_best, options_parser

BATCH_SIZES = (8, 32, 64, 128, 512)


def main() -> None:
    """Write the vectors of every input line, as many times as requested, and print the median speed."""
    parser = options_parser(__doc__)
    parser.add_argument("--model", required=True, help="folder that sentence-transformers opens")
    options = parser.parse_args()
    torch.set_num_threads(options.threads or torch.get_num_threads())
    encoder = SentenceTransformer(options.model, device="cpu")

    def seconds(path: Path, batch_size: int) -> float:
        started = time.perf_counter()
        texts = path.read_text(encoding="utf-8").split("\n")[:-1]
        vectors = encoder.encode(texts, batch_size=batch_size, normalize_embeddings=True, show_progress_bar=False)
        np.save(options.output / "vectors.npy", vectors)
        return time.perf_counter() - started

    measure_best(options, BATCH_SIZES, seconds)


if __name__ == "__main__":
    main()
