"""The journal of a training run: metrics.jsonl, the progress bar, and the clock."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from encoderlab.metrics import SplitScores
from encoderlab.training.loop import Step


class Journal:
    """Writes a line per logged step and per evaluation, shows the progress, and counts what went by.

    Only every `log_every`-th step's figures are read off the device. A line holds what was counted up to it, so that the speed
    between any two lines can be told: `examples`, `tokens`, `padded_tokens`, `seconds` of training; `since_start` counts from the
    start of the process. On a terminal there is a bar; elsewhere one calm line per evaluation. Use it as a context manager.
    """

    def __init__(self, path: Path, log_every: int, per_epoch: int) -> None:
        self.log_every, self.per_epoch = log_every, per_epoch
        self._file = path.open("a", encoding="utf-8")
        self._bar = tqdm(desc="training", unit=" steps", file=sys.stderr, disable=None, dynamic_ncols=True)
        self._shown: dict[str, str] = {}
        self.seconds, self.examples, self.tokens, self.padded_tokens = 0.0, 0, 0, 0
        self._last = time.perf_counter()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
        self._file.close()

    def step(self, step: Step) -> None:
        """Count a step, and log it if its turn has come."""
        self._bar.total = step.of
        self.examples += step.examples
        self.tokens += step.tokens
        self.padded_tokens += step.padded_tokens
        if step.number == 1 or step.number % self.log_every == 0:
            figures = step.figures()
            self._tick()
            self._write({"kind": "step", **self._place(step), **figures, **self._speed(), **self._counted()})
            self._show(loss=f"{figures['loss']:.3f}", tokens_per_second=f"{self._speed()['tokens_per_second']:,.0f}")
        self._bar.update()

    def pause(self) -> None:
        """Stop the clock: what follows is no training."""
        self._tick()

    def evaluation(self, step: Step, split: str, scores: SplitScores, score: str) -> None:
        """Log an evaluation, and say on standard error how it went and how long the rest takes."""
        seconds = round(self.seconds, 4)
        self._write({"kind": "evaluation", **self._place(step), "split": split, "seconds": seconds, **scores.figures})
        self._show(**{score: f"{scores.figures[score]:.4f}"})
        figures = f"{score} {scores.figures[score]:.4f}, loss {scores.figures['loss']:.4f}"
        left = self.seconds / step.number * (step.of - step.number)
        ending = f"; about {_duration(left)} left" if left else ""
        tqdm.write(f"step {step.number:,} of {step.of:,}: {split} {figures}{ending}", file=sys.stderr)

    def resume(self) -> None:
        """Start the clock again."""
        self._last = time.perf_counter()

    def throughput(self) -> dict[str, float]:
        """Real tokens and examples per second of training, the share of padding, and the seconds spent training."""
        padding = 1 - self.tokens / max(self.padded_tokens, 1)
        return {**self._speed(), "padding_fraction": round(padding, 4), "train_seconds": round(self.seconds, 2)}

    def _speed(self) -> dict[str, float]:
        seconds = max(self.seconds, 1e-9)
        return {"tokens_per_second": round(self.tokens / seconds, 1), "examples_per_second": round(self.examples / seconds, 1)}

    def _counted(self) -> dict[str, float | None]:
        counts = {"examples": self.examples, "tokens": self.tokens, "padded_tokens": self.padded_tokens}
        return {**counts, "seconds": round(self.seconds, 4), "since_start": seconds_since_start()}

    def _tick(self) -> None:
        now = time.perf_counter()
        self.seconds += now - self._last
        self._last = now

    def _place(self, step: Step) -> dict[str, float]:
        return {"step": step.number, "epoch": round(step.number / self.per_epoch, 4)}

    def _show(self, **figures: str) -> None:
        self._shown |= figures
        self._bar.set_postfix(self._shown, refresh=False)

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def seconds_since_start() -> float | None:
    """Seconds since this process was started, imports and all; None where the system does not tell (it does on Linux).

    Source: proc_pid_stat(5), field 22, counted in clock ticks since boot.
    """
    try:
        said = Path("/proc/self/stat").read_text(encoding="utf-8")
        fields = said.rpartition(")")[2].split()  # the command's name, field 2, may hold blanks
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
    return round(time.clock_gettime(time.CLOCK_BOOTTIME) - started, 3)


def _duration(seconds: float) -> str:
    """Seconds in words, to two figures: 40 s, 12 min, 1.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def evaluation_throughput(tokens: int, examples: int, seconds: float) -> dict[str, float]:
    """What a report says of the speed of an evaluation."""
    seconds = max(seconds, 1e-9)
    return {
        "tokens_per_second": round(tokens / seconds, 1),
        "examples_per_second": round(examples / seconds, 1),
        "evaluation_seconds": round(seconds, 2),
    }
