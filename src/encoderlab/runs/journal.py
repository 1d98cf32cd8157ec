"""The journal of a training run: metrics.jsonl, the progress bar, and the clock."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tqdm import tqdm

from encoderlab.metrics.scores import SplitScores
from encoderlab.system.files import atomic_write
from encoderlab.system.messages import progress_bar, say
from encoderlab.system.records import json_of
from encoderlab.training.loop import Step

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


@dataclass(slots=True)
class Progress:
    """How far a run has come, as its checkpoints keep it.

    `step` is the last step taken, `total` how many are expected, and `evaluated` the step of the last evaluation. The
    best evaluation had `best_score` and `best_loss` at `best_step`; `without_better` counts those after the first one
    with this score, from when something was learned (`has_learned`). The counts are of training only: `seconds`,
    `examples`, real `tokens`, and tokens with padding.
    """

    step: int = 0
    total: int = 0
    evaluated: int = 0
    best_score: float = -math.inf
    best_loss: float = math.inf
    best_step: int = 0
    without_better: int = 0
    has_learned: bool = False
    seconds: float = 0.0
    examples: int = 0
    tokens: int = 0
    padded_tokens: int = 0

    def count(self, step: Step) -> None:
        """Add a step that was taken."""
        self.step = step.number
        self.total = step.expected_total
        self.examples += step.totals.examples
        self.tokens += step.totals.tokens
        self.padded_tokens += step.totals.padded_tokens

    def is_due(self, every: int | None) -> bool:
        """Return whether something that happens every so many steps (None: never) happens after the last step."""
        return every is not None and self.step > 0 and self.step % every == 0

    def stops_early(self, patience: int | None) -> bool:
        """Return whether there have been as many evaluations without a better score as `patience` allows."""
        return patience is not None and self.without_better >= patience

    def record_evaluation(self, score: float, loss: float, *, learned: bool = True) -> None:
        """Record the evaluation after the last step. Ties in the score go to the lower loss, and ties in both to the
        earlier one; a tie is no better score for patience, which counts from the first evaluation that `learned`.
        """
        counts = self.has_learned and score <= self.best_score
        self.without_better = self.without_better + 1 if counts else 0
        self.has_learned = self.has_learned or learned
        if (score, -loss) > (self.best_score, -self.best_loss):
            self.best_score = score
            self.best_loss = loss
            self.best_step = self.step


class Journal:
    """Writes a line per logged step and per evaluation, shows the progress, and adds to it the seconds of training.

    Only every `log_every`-th step's numbers are read from the device. A line holds the counts so far, so that the speed
    between any two lines can be computed: `examples`, `tokens`, `padded_tokens`, `seconds` of training; also the number
    of `threads`, and `time`, in seconds since 1970. TensorBoard's event files in `events`, if any, get the same
    numbers. A terminal shows a progress bar; elsewhere there is one line per evaluation. Lines of steps beyond
    `progress`, which a resumed run takes again, are dropped. If others are missing, at most `between` steps apart as
    they should be, that is said. Use it as a context manager.
    """

    def __init__(
        self,
        path: Path,
        log_every: int,
        per_epoch: int,
        progress: Progress,
        events: Path | None = None,
        between: int | None = None,
    ) -> None:
        self.log_every = log_every
        self.per_epoch = per_epoch
        self.progress = progress
        self._path = path
        self._between = between or log_every

        # A resumed run takes steps again, so their lines go first. What is missing after that is missing for good.
        _drop_lines_beyond(path, progress)
        self._lost_evaluations = self._lost_evaluation()
        for first, last in self.missing_steps():
            say(f"{path}: {note_on_gap((first, last))}")
        self._file = path.open("a", encoding="utf-8")
        self._events: SummaryWriter | None = None
        if events is not None:
            from torch.utils.tensorboard import SummaryWriter

            self._events = SummaryWriter(str(events), purge_step=progress.step + 1)  # a resumed run repeats later steps

        # What a person sees, and the clock, which runs from here on.
        self._bar: tqdm[Any] | None = None  # from the first step on, which says of how many it is
        self._shown: dict[str, str] = {}
        self._last = time.perf_counter()
        self._is_running = True

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
        self._file.close()
        if self._events is not None:
            self._events.close()

    def step(self, step: Step) -> None:
        """Log a step, which `progress` has counted, if its turn has come."""
        if self._bar is None:
            self._bar = progress_bar("training", "steps", step.expected_total, initial=step.number - 1)
        self._bar.total = step.expected_total

        # A step's numbers are on the device, and reading them waits for it, so that happens now and then.
        if step.number == 1 or step.number % self.log_every == 0:
            numbers = step.numbers()
            self._read_clock()
            speed = self._speed()
            totals = ("examples", "tokens", "padded_tokens", "seconds")
            counts = {name: round(getattr(self.progress, name), 4) for name in totals}
            threads = torch.get_num_threads()
            self._write("step", **numbers, **speed, **counts, threads=threads, time=round(time.time(), 3))
            self._shown |= {"loss": f"{numbers['loss']:.3f}", "tokens/s": f"{speed['tokens_per_second']:,.0f}"}
            self._bar.set_postfix(self._shown, refresh=False)
        self._bar.update()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock: what happens in this context is not training. After an error it stays stopped."""
        self._read_clock()
        self._is_running = False
        yield
        self._last = time.perf_counter()
        self._is_running = True

    def _read_clock(self) -> None:
        """Add the time since the last reading to the seconds of training, if the clock is running."""
        now = time.perf_counter()
        if self._is_running:
            self.progress.seconds += now - self._last
        self._last = now

    def missing_steps(self) -> list[tuple[int, int]]:
        """Return the first and last step of each gap up to `progress`: what was deleted, cut off or damaged.

        There are none in the processes that keep no journal.
        """
        if self._path == Path(os.devnull):
            return []
        # A gap before the second logged step: step 1 is always logged.
        steps = [0, *self._logged("step")]
        first_is_missing = self.progress.step >= 1 and 1 not in steps
        gaps = [(1, min(steps[1:], default=self.progress.step + 1) - 1)] if first_is_missing else []

        # Gaps between two logged steps, and after the last.
        reached = [*sorted(steps), self.progress.step]
        between = [(before + 1, after - 1) for before, after in pairwise(reached) if after - before > self._between]
        gaps += [gap for gap in between if gap[0] > 1]

        # Evaluations that are lost though the steps around them are there.
        alone = [lost for lost in self._lost_evaluations if not any(gap[0] <= lost[0] <= gap[1] for gap in gaps)]
        return sorted([*gaps, *alone])

    def _lost_evaluation(self) -> list[tuple[int, int]]:
        """Return the step of the last evaluation before the run was resumed, twice, if its line is missing."""
        # Without validation rows a run has points of evaluation, and nothing to write there.
        evaluated = self.progress.evaluated if self.progress.best_step else 0
        is_lost = evaluated > 0 and self._path != Path(os.devnull) and evaluated not in self._logged("evaluation")
        return [(evaluated, evaluated)] if is_lost else []

    def _logged(self, kind: str) -> list[int]:
        """Return the steps of which there are lines of a kind, in their order."""
        steps = []
        for line in self._path.read_bytes().splitlines() if self._path.is_file() else []:
            with suppress(ValueError, KeyError, TypeError):  # of a damaged line
                entry = json_of(line)
                steps += [entry["step"]] if entry["kind"] == kind else []
        return steps

    def evaluation(self, split: str, scores: SplitScores, score: str) -> None:
        """Log an evaluation, and print its score and the remaining time on standard error."""
        progress = self.progress
        self._write("evaluation", split=split, seconds=round(progress.seconds, 4), **scores.values)
        self._shown[score] = f"{scores.values[score]:.4f}"
        numbers = f"{score} {scores.values[score]:.4f}, loss {scores.values['loss']:.4f}"

        # The time left is that of the steps alone, at their mean speed so far.
        left = progress.seconds / progress.step * (progress.total - progress.step)
        ending = f"; about {in_words(left)} left" if left >= 1 else ""
        tqdm.write(f"step {progress.step:,} of {progress.total:,}: {split} {numbers}{ending}", file=sys.stderr)

    def throughput(self) -> dict[str, float]:
        """Return the speed of training in real tokens and examples, the share of padding, and the seconds."""
        padding = 1 - self.progress.tokens / max(self.progress.padded_tokens, 1)
        seconds = round(self.progress.seconds, 2)
        return {**self._speed(), "padding_fraction": round(padding, 4), "train_seconds": seconds}

    def _speed(self) -> dict[str, float]:
        seconds = max(self.progress.seconds, 1e-9)
        counts = {"tokens_per_second": self.progress.tokens, "examples_per_second": self.progress.examples}
        return {name: round(count / seconds, 1) for name, count in counts.items()}

    def _write(self, kind: str, **line: Any) -> None:
        # Each line is handed to the system at once, so that a kill of the process loses none.
        step = self.progress.step
        line = {"kind": kind, "step": step, "epoch": round(step / self.per_epoch, 4), **line}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        if self._events is not None:
            for name, value in line.items():
                if isinstance(value, int | float):
                    self._events.add_scalar(f"{line.get('split', 'train')}/{name}", value, step)


def note_on_gap(gap: tuple[int, int]) -> str:
    """Return in words that lines of the steps from the first to the last of a gap are missing."""
    steps = f"step {gap[0]:,}" if gap[0] == gap[1] else f"the steps {gap[0]:,} to {gap[1]:,}"
    return f"metrics.jsonl lacks lines of {steps}; the curves show the gap"


def _drop_lines_beyond(path: Path, progress: Progress) -> None:
    """Keep in the journal only the lines up to `progress`; one that a kill or a loss of power damaged is dropped."""
    # Each kind of line has its own last step, because a run may have stopped before its evaluation.
    lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    last = {"step": progress.step, "evaluation": progress.evaluated}
    kept = []
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):  # of a damaged line
            entry = json_of(line)
            if line.endswith(b"}\n") and entry["step"] <= last[entry["kind"]]:
                kept.append(line)

    # The file is replaced as a whole, and only if a line goes.
    if kept != lines:
        with atomic_write(path) as temporary:
            temporary.write_bytes(b"".join(kept))


def in_words(seconds: float) -> str:
    """Return a time to about two digits: 4.2 ms, 40 s, 12 min, 1.5 h, 3.1 days."""
    for least, unit, name in ((172_800, 86_400, "days"), (5400, 3600, "h"), (90, 60, "min"), (1, 1, "s")):
        if seconds >= least:
            amount = seconds / unit
            return f"{amount:.0f} {name}" if amount >= 10 else f"{amount:.1f} {name}"
    return f"{1000 * seconds:.0f} ms" if seconds >= 0.01 else f"{1000 * seconds:.1f} ms"
