"""The journal of a training run: metrics.jsonl, the progress bar, and the clock."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from encoderlab.metrics.scores import SplitScores
from encoderlab.system.files import atomic_write
from encoderlab.training.loop import Step

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


@dataclass(slots=True)
class Best:
    """The best evaluation so far: `score` and `loss` at `step`; and how many evaluations have come `since` the first
    one with this score.
    """

    score: float = -math.inf
    step: int = 0
    since: int = 0
    loss: float = math.inf

    def offer(self, step: int, score: float, loss: float) -> None:
        """Record the evaluation after `step`. Ties in the score go to the lower loss, and ties in both to the earlier
        one; a tie is no better score for patience.
        """
        self.since = 0 if score > self.score else self.since + 1
        if (score, -loss) > (self.score, -self.loss):
            self.score, self.loss, self.step = score, loss, step


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
    first_loss: float = math.inf  # the largest of the first three logged ones
    diverged_at: int | None = None

    def see_loss(self, loss: float) -> bool:
        """Record a logged loss; return whether the run diverges from here on, which is reported once.

        It does if the mean of the last ten lies a quarter above the loss before anything was learned. That is the
        largest of the first three: a batch without a rare label has a small one.
        """
        self.recent_losses = [*self.recent_losses[-9:], loss]
        if len(self.recent_losses) <= 3:
            self.first_loss = max(self.recent_losses)
        if self.diverged_at is not None or len(self.recent_losses) < 10:
            return False
        if sum(self.recent_losses) / 10 <= 1.25 * self.first_loss:
            return False
        self.diverged_at = self.step
        return True

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Progress:
        """Return the progress from `asdict`'s plain values, as a checkpoint holds them."""
        nested = {"best": Best, "counted": Counted}
        return cls(**plain | {name: schema(**plain[name]) for name, schema in nested.items()})


DIVERGED = (
    "The loss rises above its first value at step {:,}: "
    "try a smaller training.learning_rate or a longer training.warmup"
)


class Journal:
    """Writes a line per logged step and per evaluation, shows the progress, and counts it in `progress`.

    Only every `log_every`-th step's numbers are read from the device. A line holds the counts so far, so that the speed
    between any two lines can be computed: `examples`, `tokens`, `padded_tokens`, `seconds` of training; `since_start`
    counts from the start of the process. TensorBoard's event files in `events`, if any, get the same numbers. A
    terminal shows a progress bar; elsewhere there is one line per evaluation. Lines of steps beyond `progress`, which a
    resumed run takes again, are dropped. Use it as a context manager.
    """

    def __init__(
        self, path: Path, log_every: int, per_epoch: int, progress: Progress, events: Path | None = None
    ) -> None:
        self.log_every, self.per_epoch, self.progress, self.counted = log_every, per_epoch, progress, progress.counted
        _drop_lines_beyond(path, progress)
        self._file = path.open("a", encoding="utf-8")
        self._events: SummaryWriter | None = None
        if events is not None:
            from torch.utils.tensorboard import SummaryWriter

            self._events = SummaryWriter(str(events), purge_step=progress.step + 1)  # a resumed run repeats later steps
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
        if self._events is not None:
            self._events.close()

    def step(self, step: Step) -> None:
        """Count a step, and log it if its turn has come."""
        self.progress.step, self.progress.of, self._bar.total = step.number, step.of, step.of
        self.counted.examples += step.totals.examples
        self.counted.tokens += step.totals.tokens
        self.counted.padded_tokens += step.totals.padded_tokens
        if step.number == 1 or step.number % self.log_every == 0:
            self._log(step)
        self._bar.update()

    def _log(self, step: Step) -> None:
        """Write the numbers of the last step, and a warning if the losses give reason for one."""
        numbers = step.numbers()
        self._tick()
        self._write({"kind": "step", **self._place(), **numbers, **self._speed(), **self._counted()})
        if self.progress.see_loss(numbers["loss"]):
            tqdm.write(f"encoderlab: {DIVERGED.format(step.number)}", file=sys.stderr)
        self._show(loss=f"{numbers['loss']:.3f}", tokens_per_second=f"{self._speed()['tokens_per_second']:,.0f}")

    def pause(self) -> None:
        """Stop the clock: what follows is not training."""
        self._tick()

    def evaluation(self, split: str, scores: SplitScores, score: str) -> None:
        """Log an evaluation, and print its score and the remaining time on standard error."""
        seconds, step, of = self.counted.seconds, self.progress.step, self.progress.of
        self._write(
            {"kind": "evaluation", **self._place(), "split": split, "seconds": round(seconds, 4), **scores.values}
        )
        self._show(**{score: f"{scores.values[score]:.4f}"})
        numbers = f"{score} {scores.values[score]:.4f}, loss {scores.values['loss']:.4f}"
        left = seconds / step * (of - step)
        ending = f"; about {in_words(left)} left" if left else ""
        tqdm.write(f"step {step:,} of {of:,}: {split} {numbers}{ending}", file=sys.stderr)

    def resume(self) -> None:
        """Start the clock again."""
        self._last = time.perf_counter()

    def throughput(self) -> dict[str, float]:
        """Return the speed of training in real tokens and examples, the share of padding, and the seconds."""
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

    def _show(self, **numbers: str) -> None:
        self._shown |= numbers
        self._bar.set_postfix(self._shown, refresh=False)

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        if self._events is not None:
            part = line.get("split", "train")
            for name, value in line.items():
                if isinstance(value, int | float):
                    self._events.add_scalar(f"{part}/{name}", value, line["step"])


def _drop_lines_beyond(path: Path, progress: Progress) -> None:
    """Keep in the journal only the lines up to `progress`; a line cut off by a kill is dropped."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    kept = [line for line in lines if _belongs(line, progress)]
    if kept != lines:
        with atomic_write(path) as temporary:
            temporary.write_bytes(b"".join(kept))


def _belongs(line: bytes, progress: Progress) -> bool:
    try:
        entry = json.loads(line)
        last = progress.judged if entry["kind"] == "evaluation" else progress.step
        return line.endswith(b"\n") and entry["step"] <= last
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


def in_words(seconds: float) -> str:
    """Return a time to about two digits: 4.2 ms, 40 s, 12 min, 1.5 h, 3.1 days."""
    for least, unit, name in ((172_800, 86_400, "days"), (5400, 3600, "h"), (90, 60, "min"), (1, 1, "s")):
        if seconds >= least:
            amount = seconds / unit
            return f"{amount:.0f} {name}" if amount >= 10 else f"{amount:.1f} {name}"
    return f"{1000 * seconds:.0f} ms" if seconds >= 0.01 else f"{1000 * seconds:.1f} ms"


def evaluation_throughput(tokens: int, examples: int, seconds: float) -> dict[str, float]:
    """Return what a report states on the speed of an evaluation."""
    seconds = max(seconds, 1e-9)
    return {
        "tokens_per_second": round(tokens / seconds, 1),
        "examples_per_second": round(examples / seconds, 1),
        "evaluation_seconds": round(seconds, 2),
    }
