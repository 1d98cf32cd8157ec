"""The length of a run: a number of steps, or as many as a time budget allows; and how the number of rows determines it.

With a time budget the number of steps is re-estimated after each, so that a schedule reaches zero just in time.
"""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.training.config import Batching, Keep, TrainingConfig, seconds_of

FEW_EPOCHS = 3  # the least for long rows, unless there are many rows
MANY_LABELS = 50  # which take longer to learn
ROWS_PER_LABEL = 2  # in validation, below which scores are mostly chance


def steps_per_epoch(config: TrainingConfig, rows: int) -> int:
    """Return the optimizer steps of one pass over this many rows."""
    return math.ceil(rows / config.batch_size)


def length_factor_for(config: TrainingConfig, factor: int, labels: int) -> int:
    """Return the factor on the steps that the number of rows suggests: `factor`, or more for many `labels`."""
    return max(factor, config.many_labels_passes) if labels >= MANY_LABELS else factor


def total_steps(config: TrainingConfig, rows: int) -> int:
    """Return the optimizer steps, at least one, of a run on this many rows that no budget ends."""
    return config.steps or max(round(_epochs(config, rows) * steps_per_epoch(config, rows)), 1)


def resolve_by_rows(config: TrainingConfig, rows: int, tokens: int = 0, length_factor: int = 1) -> TrainingConfig:
    """Return the settings with `epochs` and `evaluate_every` decided if they were left open.

    The number of epochs falls with the number of rows: few rows are read `max_epochs` times, many once, and in between
    the run has about `min_steps` steps. Long rows, with `tokens` tokens in total, are read fewer times, but at least
    FEW_EPOCHS: about `max_tokens` tokens in all. A task that takes longer to learn has `length_factor` times as many
    steps and tokens. If `steps` or `budget` decide, `epochs` stays open, because nothing reads it.

    >>> fixed = resolve_by_rows(TrainingConfig(epochs=None, evaluations=10), rows=3_000)
    >>> fixed.epochs, fixed.evaluate_every
    (11.0, 104)
    """
    if config.steps is None and config.budget is None:
        config = replace(config, epochs=_epochs(config, rows, tokens, length_factor))
    if config.evaluate_every is not None or config.evaluations is None or config.budget is not None:
        return config
    return replace(config, evaluate_every=math.ceil(total_steps(config, rows) / config.evaluations))


def _epochs(config: TrainingConfig, rows: int, tokens: int = 0, factor: int = 1) -> float:
    if config.epochs is not None:
        return config.epochs
    by_steps = max(round(factor * config.min_steps / steps_per_epoch(config, rows)), 1)
    by_tokens = max(factor * config.max_tokens // tokens, FEW_EPOCHS) if tokens and config.max_tokens else by_steps
    return float(min(by_steps, by_tokens, config.max_epochs))


def can_choose_by(config: TrainingConfig, rows: int, labels: int = 0) -> bool:
    """Return whether `rows` validation rows with this many `labels` are enough to choose a checkpoint by.

    >>> config = TrainingConfig(min_validation_rows=50)
    >>> can_choose_by(config, 60, labels=2), can_choose_by(config, 60, labels=77)
    (True, False)
    """
    return config.min_validation_rows == 0 or rows >= max(config.min_validation_rows, ROWS_PER_LABEL * labels)


def keep_last_if_few_validation_rows(config: TrainingConfig, rows: int, labels: int = 0) -> TrainingConfig:
    """Return the settings for this many validation `rows`: with too few, keep the last checkpoint and never stop early.

    >>> keep_last_if_few_validation_rows(TrainingConfig(patience=4, min_validation_rows=100), rows=30).patience is None
    True
    """
    return config if can_choose_by(config, rows, labels) else replace(config, keep=Keep.last, patience=None)


def resolve_for_few_rows(config: TrainingConfig, few: bool, n_layers: int) -> TrainingConfig:
    """Return the settings with `batching` and `freeze_layers` decided if they were left open, for a `few` rows or more.

    A few rows are batched at random: of three batches by length, the same rows would meet in each epoch. The embeddings
    and the lowest quarter of the layers stay as they are.

    >>> fixed = resolve_for_few_rows(TrainingConfig(batching=None, freeze_layers=None), few=True, n_layers=4)
    >>> fixed.batching.value, fixed.freeze_layers
    ('random', 1)
    """
    batching = config.batching or (Batching.random if few else Batching.length)
    freeze_layers = config.freeze_layers
    if freeze_layers is None:
        freeze_layers = n_layers // 4 if few else 0
    return replace(config, batching=batching, freeze_layers=freeze_layers)


def length_in_words(config: TrainingConfig, rows: int, *, evaluated: bool, epoch: str = "epoch") -> str:
    """Return in words how long a run is, how often it is `evaluated` if at all, and when it stops early.

    `epoch` is the word for a pass over the rows.
    """
    per_epoch = steps_per_epoch(config, rows)
    every = config.evaluate_every or per_epoch
    if config.budget is not None:
        length = f"{config.budget} of steps of {config.batch_size:,} rows ({per_epoch:,} per {epoch})"
    else:
        steps = total_steps(config, rows)
        every, n_epochs = min(every, steps), steps / per_epoch
        epochs = f"{n_epochs:.3g}" if n_epochs < 1000 else f"{n_epochs:,.0f}"
        counted = f"{steps:,} step{'s' * (steps != 1)} of {config.batch_size:,} rows"
        length = f"{epochs} {epoch}{'s' * (epochs != '1')}, {counted}"
    if evaluated:
        length += f"; evaluated every {f'{every:,} steps' if every > 1 else 'step'}"
    if evaluated and config.patience is not None:
        without = f"{config.patience:,} evaluation{'s' * (config.patience > 1)}"
        length += f", and stopped after {without} without a better score"
    return length


class Horizon:
    """The end of a run: after `total` steps, or of a `TimeBudget`."""

    def __init__(self, total: int) -> None:
        self.total = total

    def expected_total(self, done: int) -> int:
        """Return how many steps the run is expected to have in all, estimated after `done`; it is over if no more."""
        return self.total

    def spent(self) -> float:
        """Return the seconds of the budget used so far, for a resumed run; 0 if there is no time budget."""
        return 0.0

    def resume(self, spent: float) -> None:
        """Continue a run that has used this many seconds; called before the first step."""


class TimeBudget(Horizon):
    """A run of this many seconds from its first step, evaluations included, and of at least one step.

    The number of steps is re-estimated after each step from the time taken so far. A schedule that follows the estimate
    reaches zero with the last step, which ends before the time does. If the model is `compiled`, some of the first
    steps compile code: the budget pays for them, but the estimate is made from the later ones.
    """

    GUESS = 1000  # steps assumed before one has been timed, so that the first learning rate belongs to a warmup
    COMPILING = 10  # steps in which a compiled model may see new shapes

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic, *, compiled: bool = False) -> None:
        self.seconds, self.clock = seconds, clock
        self._untimed = self.COMPILING if compiled else 0
        self._spent = 0.0
        self._started: float | None = None

    def expected_total(self, done: int) -> int:
        now = self.clock()
        if self._started is None:
            self._started = now - self._spent
            self._timed_after, self._timed_from = (0, self._started) if self._spent else (done, now)
            self._untimed += self._timed_after
        elif self._timed_after < done <= self._untimed:
            self._timed_after, self._timed_from = done, now
        left, timed = self.seconds - (now - self._started), done - self._timed_after
        if not timed:
            return done + self.GUESS if left > 0 or not done else done
        return done + max(int(left * timed / max(now - self._timed_from, 1e-9)), 0)

    def resume(self, spent: float) -> None:
        self._spent = spent

    def spent(self) -> float:
        return self._spent if self._started is None else self.clock() - self._started


def horizon_of(
    training: TrainingConfig, rows: int, processes: Processes = SINGLE_PROCESS, *, compiled: bool = False
) -> Horizon:
    """Return where training on `rows` rows ends."""
    if training.budget is not None:
        clock = partial(processes.broadcast_from_main, time.monotonic)  # shared: all must end after the same step
        [compiling] = processes.all_reduce_sum([int(compiled)])
        return TimeBudget(seconds_of(training.budget), clock, compiled=compiling > 0)
    return Horizon(total_steps(training, rows))
