"""The journal of a training run: metrics.jsonl, the progress bar, and the clock."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from encoderlab.metrics import SplitScores
from encoderlab.runs.trackers import Trackers
from encoderlab.system.files import atomic_write
from encoderlab.training.loop import Step


@dataclass(slots=True)
class Best:
    """The best evaluation so far: `score` and `loss` at `step`, and how many evaluations have come since."""

    score: float = -math.inf
    step: int = 0
    since: int = 0
    loss: float = math.inf

    def offer(self, step: int, score: float, loss: float) -> None:
        """Record the evaluation after `step`. Ties in the score go to the lower loss, and ties in both to the earlier
        one.
        """
        if (score, -loss) > (self.score, -self.loss):
            self.score, self.loss, self.step, self.since = score, loss, step, 0
        else:
            self.since += 1


@dataclass(slots=True)
class Counted:
    """Totals of training so far: seconds, examples, real tokens, and tokens with padding."""

    seconds: float = 0.0
    examples: int = 0
    tokens: int = 0
    padded_tokens: int = 0


@dataclass(slots=True)
class Progress:
    """The progress of a run: the last `step` taken, `of` how many, the step `judged` last, the best one, and
    totals; the logged losses by which `see_loss` tells that the run diverges.
    """

    step: int = 0
    of: int = 0
    judged: int = 0
    best: Best = field(default_factory=Best)
    counted: Counted = field(default_factory=Counted)
    recent_losses: list[float] = field(default_factory=list)
    first_loss: float | None = None
    diverged_at: int | None = None

    def see_loss(self, loss: float) -> bool:
        """Record a logged loss; return whether the run diverges from here on, which is reported once.

        It does if the mean of the last ten lies a quarter above the loss before anything was learned.
        """
        self.first_loss = loss if self.first_loss is None else self.first_loss
        self.recent_losses = [*self.recent_losses[-9:], loss]
        if self.diverged_at is not None or len(self.recent_losses) < 10:
            return False
        if sum(self.recent_losses) / 10 <= 1.25 * self.first_loss:
            return False
        self.diverged_at = self.step
        return True

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, as a checkpoint holds them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Progress:
        """Return the progress that `as_dict` wrote."""
        nested = {"best": Best, "counted": Counted}
        return cls(**plain | {name: schema(**plain[name]) for name, schema in nested.items()})


DIVERGED = (
    "The loss rises above its first value at step {:,}: "
    "try a smaller training.learning_rate or a longer training.warmup"
)


class Journal:
    """Writes a line per logged step and per evaluation, shows the progress, and counts it in `progress`.

    Only every `log_every`-th step's figures are read from the device. A line holds the counts so far, so that the speed
    between any two lines can be computed: `examples`, `tokens`, `padded_tokens`, `seconds` of training; `since_start`
    counts from the start of the process. The `trackers` get each line too. A terminal shows a progress bar; elsewhere
    there is one line per evaluation. Lines of steps beyond `progress`, which a resumed run takes again, are dropped.
    Use it as a context manager.
    """

    def __init__(
        self, path: Path, log_every: int, per_epoch: int, progress: Progress, trackers: Trackers | None = None
    ) -> None:
        self.trackers = trackers or Trackers()
        self.log_every, self.per_epoch, self.progress, self.counted = log_every, per_epoch, progress, progress.counted
        _drop_lines_beyond(path, progress)
        self._file = path.open("a", encoding="utf-8")
        self._bar = tqdm(
            desc="training", unit=" steps", file=sys.stderr, disable=None, dynamic_ncols=True, initial=progress.step
        )
        self._shown: dict[str, str] = {}
        self._last = time.perf_counter()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
        self._file.close()

    def step(self, step: Step) -> None:
        """Count a step, and log it if its turn has come."""
        self.progress.step, self.progress.of, self._bar.total = step.number, step.of, step.of
        self.counted.examples += step.totals.examples
        self.counted.tokens += step.totals.tokens
        self.counted.padded_tokens += step.totals.padded_tokens
        for skipped in step.skipped:
            self._write({"kind": "skipped", "step": skipped.step, **skipped.figures()})
            self._warn(f"Step {skipped.step:,} was skipped because it was not finite: {skipped}")
        if step.number == 1 or step.number % self.log_every == 0:
            self._log(step)
        self._bar.update()

    def _log(self, step: Step) -> None:
        """Write the figures of the last step, and a warning if the losses give reason for one."""
        figures = step.figures()
        self._tick()
        self._write({"kind": "step", **self._place(), **figures, **self._speed(), **self._counted()})
        loss = figures["loss"]
        if loss is not None and self.progress.see_loss(loss):
            self._warn(DIVERGED.format(step.number))
        self._show(
            loss="-" if loss is None else f"{loss:.3f}", tokens_per_second=f"{self._speed()['tokens_per_second']:,.0f}"
        )

    def pause(self) -> None:
        """Stop the clock: what follows is not training."""
        self._tick()

    def evaluation(self, split: str, scores: SplitScores, score: str) -> None:
        """Log an evaluation, and print its score and the remaining time on standard error."""
        seconds, step, of = self.counted.seconds, self.progress.step, self.progress.of
        self._write(
            {"kind": "evaluation", **self._place(), "split": split, "seconds": round(seconds, 4), **scores.figures}
        )
        self._show(**{score: f"{scores.figures[score]:.4f}"})
        figures = f"{score} {scores.figures[score]:.4f}, loss {scores.figures['loss']:.4f}"
        left = seconds / step * (of - step)
        ending = f"; about {_duration(left)} left" if left else ""
        tqdm.write(f"step {step:,} of {of:,}: {split} {figures}{ending}", file=sys.stderr)

    def resume(self) -> None:
        """Start the clock again."""
        self._last = time.perf_counter()

    def throughput(self) -> dict[str, float]:
        """Return real tokens and examples per second of training, the share of padding, and the seconds
        spent training.
        """
        padding = 1 - self.counted.tokens / max(self.counted.padded_tokens, 1)
        return {**self._speed(), "padding_fraction": round(padding, 4), "train_seconds": round(self.counted.seconds, 2)}

    def _speed(self) -> dict[str, float]:
        counted, seconds = self.counted, max(self.counted.seconds, 1e-9)
        speeds = {"tokens_per_second": counted.tokens / seconds, "examples_per_second": counted.examples / seconds}
        return {name: round(speed, 1) for name, speed in speeds.items()}

    def _counted(self) -> dict[str, float | None]:
        return asdict(self.counted) | {"seconds": round(self.counted.seconds, 4), "since_start": seconds_since_start()}

    def _tick(self) -> None:
        now = time.perf_counter()
        self.counted.seconds += now - self._last
        self._last = now

    def _place(self) -> dict[str, float]:
        return {"step": self.progress.step, "epoch": round(self.progress.step / self.per_epoch, 4)}

    def _warn(self, line: str | None) -> None:
        if line is not None:
            tqdm.write(f"encoderlab: {line}", file=sys.stderr)

    def _show(self, **figures: str) -> None:
        self._shown |= figures
        self._bar.set_postfix(self._shown, refresh=False)

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        self.trackers.log(line)


def _drop_lines_beyond(path: Path, progress: Progress) -> None:
    """Keep in the journal only the lines up to `progress`; a line cut off by a kill is dropped."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    kept = [line for line in lines if _belongs(line, progress)]
    if kept != lines:
        with atomic_write(path) as temporary:
            temporary.write_bytes(b"".join(kept))


def _belongs(line: bytes, progress: Progress) -> bool:
    try:
        found = json.loads(line)
        return line.endswith(b"\n") and found["step"] <= (
            progress.judged if found["kind"] == "evaluation" else progress.step
        )
    except (ValueError, KeyError, TypeError):
        return False


def seconds_since_start() -> float | None:
    """Return seconds since this process was started, with its imports; None if the system does not provide it (Linux
    does).

    Source: proc_pid_stat(5), field 22, counted in clock ticks since boot.
    """
    try:
        stat = Path("/proc/self/stat").read_text(encoding="utf-8")
        fields = stat.rpartition(")")[2].split()  # the command's name, field 2, may contain blanks
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
    return round(time.clock_gettime(time.CLOCK_BOOTTIME) - started, 3)


def _duration(seconds: float) -> str:
    """Return seconds in words, to two figures: 40 s, 12 min, 1.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def evaluation_throughput(tokens: int, examples: int, seconds: float) -> dict[str, float]:
    """Return a report's figures on the speed of an evaluation."""
    seconds = max(seconds, 1e-9)
    return {
        "tokens_per_second": round(tokens / seconds, 1),
        "examples_per_second": round(examples / seconds, 1),
        "evaluation_seconds": round(seconds, 2),
    }
