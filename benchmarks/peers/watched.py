"""Run an unchanged script from ../shared/peers with a meter that also records its first step and padding.

python -m benchmarks.peers.watched SCRIPT [ARGUMENT ...]
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
import time
from pathlib import Path
from typing import Any

from torch import Tensor, nn


class Meter:
    """Count examples and real (unpadded) tokens per second after the first `warmup` steps, as the peers' own meter
    does.

    It also records the seconds from the start of the process to the end of the first step, and the fraction of padding.
    """

    def __init__(self, warmup: int = 10) -> None:
        self.warmup = warmup
        self.steps = 0
        self.examples = 0
        self.tokens = 0
        self.first_step: float | None = None
        self.padded = CountedTokens()
        self.started = self.ended = time.perf_counter()

    def step(self, examples: int, tokens: Tensor | float) -> None:
        """Record that a step has ended."""
        self.steps += 1
        self.ended = time.perf_counter()
        if self.steps == 1:
            self.first_step = since_started()
        if self.steps > self.warmup:
            self.examples += examples
            self.tokens += int(tokens)
        else:
            self.started = self.ended
            self.padded.count = 0

    def result(self, **more: Any) -> None:
        """Print the numbers as a line of JSON; work after the last step is not counted."""
        seconds = self.ended - self.started
        numbers = {"steps": self.steps, "seconds": round(seconds, 2), "first_step_seconds": self.first_step}
        if self.examples:
            numbers |= {"examples_per_second": round(self.examples / seconds, 1)}
            numbers |= {"real_tokens_per_second": round(self.tokens / seconds, 1)}
        if self.examples and self.padded.count:
            numbers["padding"] = round(1 - self.tokens / self.padded.count, 4)
        print(json.dumps(numbers | more))


class CountedTokens:
    """Count the tokens, padding included, that models in training look up in embeddings as large as a vocabulary."""

    SMALLEST_VOCABULARY = 2_000  # tables of positions have fewer

    def __init__(self) -> None:
        self.count = 0
        forward = nn.Embedding.forward

        def counting(embedding: nn.Embedding, ids: Tensor) -> Tensor:
            if embedding.training and embedding.num_embeddings >= self.SMALLEST_VOCABULARY:
                self.count += ids.numel()
            return forward(embedding, ids)

        nn.Embedding.forward = counting


def since_started() -> float | None:
    """Return the seconds since the process started, a time that its parent puts in BENCHMARK_STARTED."""
    started = os.environ.get("BENCHMARK_STARTED")
    return None if started is None else round(time.time() - float(started), 3)


def main() -> None:
    """Run the script that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", type=Path, help="the script, which imports Meter from `common` beside it")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own arguments")
    options = parser.parse_args()
    sys.path.insert(0, str(options.script.parent))
    import common

    common.Meter = Meter
    sys.argv = [str(options.script), *options.arguments]
    runpy.run_path(str(options.script), run_name="__main__")


if __name__ == "__main__":
    main()
