"""Run an unchanged script from ../shared/peers with a meter that also records its first step, padding and accuracy.

python -m benchmarks.peers.watched [--evaluate-every N --until ACCURACY] SCRIPT [ARGUMENT ...]
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Goal:
    """Evaluate every few steps, off the clock, until the accuracy is reached."""

    every: int
    accuracy: float


class Meter:
    """Count examples and real (unpadded) tokens per second after the first `warmup` steps, as the peers' own meter
    does.

    It also records the seconds from the start of the process to the end of the first step, and the fraction of padding.
    With a `goal` it evaluates the script's `model` on its `valid` batches, which it finds in the calling frame, and
    stops the script once the goal is reached.
    """

    goal: Goal | None = None

    def __init__(self, warmup: int = 10) -> None:
        self.warmup, self.steps, self.examples, self.tokens = warmup, 0, 0, 0
        self.first_step: float | None = None
        self.reached: float | None = None
        self.padded = CountedTokens()
        self.made = self.started = self.ended = time.perf_counter()

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
            self.started, self.padded.count = self.ended, 0
        if self.goal is not None and self.steps % self.goal.every == 0:
            self._evaluate(sys._getframe(1).f_globals)

    def _evaluate(self, script: dict[str, Any]) -> None:
        padded = self.padded.count
        with torch.random.fork_rng():  # so that the script draws the same random numbers
            accuracy = accuracy_of(script["model"], script["valid"])
        script["model"].train()
        if accuracy >= self.goal.accuracy:
            self.reached = self.ended - self.made
            self._stop(accuracy)
        pause = time.perf_counter() - self.ended
        self.made, self.started, self.ended = (moment + pause for moment in (self.made, self.started, self.ended))
        self.padded.count = padded

    def _stop(self, accuracy: float) -> None:
        self.result(accuracy=accuracy)
        raise SystemExit

    def result(self, **more: Any) -> None:
        """Print the figures as a line of JSON; work after the last step is not counted."""
        seconds = self.ended - self.started
        figures = {"steps": self.steps, "seconds": round(seconds, 2), "first_step_seconds": self.first_step}
        if self.goal is not None:
            figures["seconds_to_target"] = self.reached
        if self.examples:
            figures |= {"examples_per_second": round(self.examples / seconds, 1)}
            figures |= {"real_tokens_per_second": round(self.tokens / seconds, 1)}
        if self.examples and self.padded.count:
            figures["padding"] = round(1 - self.tokens / self.padded.count, 4)
        print(json.dumps(figures | more))


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


def accuracy_of(model: nn.Module, batches: Any) -> float:
    """Return the accuracy on `batches` of input_ids, attention_mask and labels."""
    model.eval()
    right = total = 0
    with torch.no_grad():
        for batch in batches:
            answers = model(batch["input_ids"], batch["attention_mask"]).argmax(1)
            right, total = right + int((answers == batch["labels"]).sum()), total + len(answers)
    return right / total


def since_started() -> float | None:
    """Return the seconds since the process started, a time that its parent puts in BENCHMARK_STARTED."""
    started = os.environ.get("BENCHMARK_STARTED")
    return None if started is None else round(time.time() - float(started), 3)


def main() -> None:
    """Run the script that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluate-every", type=int, help="steps between evaluations, off the clock")
    parser.add_argument("--until", type=float, help="stop at the first evaluation with this accuracy")
    parser.add_argument("script", type=Path, help="the script, which imports Meter from `common` beside it")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own arguments")
    options = parser.parse_args()
    if options.evaluate_every:
        Meter.goal = Goal(options.evaluate_every, options.until)
    sys.path.insert(0, str(options.script.parent))
    import common

    common.Meter = Meter
    sys.argv = [str(options.script), *options.arguments]
    runpy.run_path(str(options.script), run_name="__main__")


if __name__ == "__main__":
    main()
