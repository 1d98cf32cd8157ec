"""The settings of a training run: length, batch, optimizer, schedule, precision and device; and those that the number
of rows decides, down to the number of steps.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, ClassVar

from encoderlab.errors import SettingError
from encoderlab.settings import check_settings, setting

# How the learning rate changes over a run; see `training.optimizer.learning_rate_at`.
Schedule = Enum("Schedule", {"one_cycle": "one_cycle", "linear": "linear", "cosine": "cosine", "constant": "constant"})
# Which rows share a batch: rows of nearly equal length, or any rows.
Batching = Enum("Batching", {"length": "length", "random": "random"})
Precision = Enum("Precision", {"auto": "auto", "fp32": "fp32", "bf16": "bf16"})  # number format of matrix products
# Whether PyTorch's compiler fuses kernels (`training.compilation`), and whether each of several processes holds all
# weights or a shard of them (`training.distribution`).
Compile = Enum("Compile", {"auto": "auto", "always": "always", "never": "never"})
Sharding = Enum("Sharding", {"none": "none", "full": "full"})
# What updates the weights; see `training.optimizer`.
Optimizer = Enum("Optimizer", {"adamw": "adamw", "muon": "muon"})
Keep = Enum("Keep", {"best": "best", "last": "last"})  # the checkpoint that becomes the run's model

ALL_LAYERS = "all"  # a value of freeze_layers
SHORTEST_RUN = 100  # steps: below, a run is a trial
CONTRAST_TEMPERATURE = 0.3


@dataclass
class TrainingConfig:
    """How long, how fast and on which device a model is trained."""

    group: ClassVar[str] = "training"

    epochs: float | None = setting(
        3.0,
        "Passes over the training split, possibly fractional; null: chosen from the number of rows, see min_steps.",
        above=0,
    )
    min_steps: int = setting(
        1000,
        "With epochs=null: enough whole epochs for about this many steps, at least one and at most max_epochs.",
        minimum=1,
    )
    max_epochs: int = setting(20, "With epochs=null: most epochs, however few rows there are.", minimum=1)
    many_labels_passes: int = setting(  # a factor, not epochs
        1,
        "With epochs=null: factor on the number of steps for a task with 50 labels or more, whose new head takes "
        "longer to learn; it makes no run longer than 10 epochs.",
        minimum=1,
    )
    max_tokens: int | None = setting(
        None,
        "With epochs=null: read about this many tokens at most, in fewer epochs if rows are long (at least 3).",
        minimum=1,
    )
    steps: int | None = setting(None, "Optimizer steps; overrides epochs.", minimum=1)
    budget: str | None = setting(None, "Time to train for, such as 90s, 30m or 1.5h; overrides epochs.")
    batch_size: int = setting(32, "Rows in each optimizer step.", minimum=1)
    accumulate: int | None = setting(
        None,
        "Micro-batches per batch: they change dropout's draws, rounding, and which rows contrast_weight compares; "
        "null: as few as a GPU's memory allows. On a CPU, set more if the system ends the run for its memory.",
        minimum=1,
    )
    batching: Batching | None = setting(
        Batching.length,
        "length: rows of nearly equal length share a batch; random: any rows, padded to the longest; null: random for "
        "few rows (see min_validation_rows), otherwise length.",
    )
    optimizer: Optimizer = setting(
        Optimizer.adamw,
        "adamw; or muon: orthogonal updates for the matrices of the layers, AdamW for everything else. It suits "
        "pretraining from scratch and many labels, with rates of 1e-3 to 4e-3; on a CPU its steps take longer.",
    )
    learning_rate: float | None = setting(
        1e-3,
        "Peak learning rate; null: suited to the width of the encoder that is started from (1e-3 up to 128, "
        "3e-4 at 256, 1.3e-4 at 384, 3.3e-5 at 768; more for 50 labels), without one 5e-4, with Muon 1e-3.",
        above=0,
    )
    schedule: Schedule = setting(Schedule.linear, "Learning rate schedule: one_cycle, linear, cosine or constant.")
    warmup: float = setting(0.1, "Share of all steps in which the learning rate rises to its peak.", minimum=0, below=1)
    weight_decay: float = setting(
        0.01, "Decoupled weight decay of the matrices; biases and norms have none.", minimum=0
    )
    beta2: float = setting(0.999, "AdamW's decay of the running mean of squared gradients.", minimum=0, below=1)
    epsilon: float = setting(1e-8, "AdamW's epsilon.", above=0)
    clip_norm: float | None = setting(
        1.0, "Largest norm of the gradient; larger gradients are scaled down; null: no clipping.", above=0
    )
    layer_decay: float | None = setting(
        1.0,
        "Factor on the learning rate from each layer to the layer below, starting at the heads; null: 0.9 from a "
        "pretrained encoder, otherwise 1.",
        above=0,
        maximum=1,
    )
    # A number or a name; OmegaConf has no such union.
    freeze_layers: Any = setting(
        0,
        "Number of lowest layers to freeze, together with the embeddings; 0: train everything; all: train the head "
        "alone, of classes by logistic regression; null: a quarter of them for few rows (see min_validation_rows), "
        "otherwise 0.",
        minimum=0,
    )
    contrast_weight: float | None = setting(
        0.0,
        "Weight of a second loss, for classes of texts: within a micro-batch, vectors of rows with the same label are "
        "to be similar, and others not; null: 0.5 for few rows (see min_validation_rows) of fewer than 50 labels, "
        "otherwise 0.",
        minimum=0,
    )
    precision: Precision = setting(
        Precision.auto, "Precision of the matrix products: auto (bf16 if it is faster), fp32 or bf16."
    )
    compile: Compile = setting(Compile.auto, "Compile the encoder: auto (long runs on CUDA), always or never.")
    deterministic: bool = setting(
        False, "Use only deterministic kernels on CUDA, at some cost in speed; CPU kernels are always deterministic."
    )
    device: str = setting("auto", "auto (CUDA, then MPS, then CPU), cpu, cuda, cuda:1 or mps.")
    threads: int | None = setting(None, "CPU threads of a process; null: one per idle core.", minimum=1, maximum=1024)
    measure: bool = setting(
        True,
        "Before a run of 500 steps or more on a CPU, time a few with each precision and fewer threads, as far as they "
        "are left open, and take the fastest; with deterministic, in sweeps and in folds this is not done.",
    )
    sharding: Sharding = setting(
        Sharding.none,
        "With several processes: none (each holds all weights) or full (sharded, for models too large for one GPU).",
    )
    evaluate_every: int | None = setting(
        None, "Steps between evaluations; null: set by training.evaluations.", minimum=1
    )
    evaluations: int | None = setting(
        None,
        "With evaluate_every=null: number of evaluations, evenly spaced; null, or with a budget: one per epoch.",
        minimum=1,
    )
    checkpoint_every: int | None = setting(
        None, "Steps between checkpoints, in addition to those at evaluations; null: none.", minimum=1
    )
    patience: int | None = setting(
        None,
        "Stop after this many evaluations without a better score, from when the loss has fallen; null: never.",
        minimum=1,
    )
    keep: Keep = setting(
        Keep.best,
        "Which checkpoint becomes the model: best (by the task's score on validation, then by the loss) or last.",
    )
    keep_state: bool = setting(
        False, "Keep the optimizer's state and the older checkpoints of a finished run, three times its weights."
    )
    min_validation_rows: int = setting(
        0,
        "With fewer validation rows than this, or than two per label, scores are mostly chance: keep the last "
        "checkpoint, do not stop early, and hold no rows out of training if a test split is there, or if there are "
        "fewer training rows than this; 0: never.",
        minimum=0,
    )
    log_every: int = setting(20, "Steps between lines in metrics.jsonl.", minimum=1)

    @property
    def is_trial(self) -> bool:
        """Return whether a run is a trial of a few steps, which has no linear branch, and neither a head alone nor a
        linear model on frozen vectors beside it.
        """
        return self.steps is not None and self.steps < SHORTEST_RUN

    def __post_init__(self) -> None:
        check_settings(self, self.group)
        is_number = isinstance(self.freeze_layers, int) and not isinstance(self.freeze_layers, bool)
        if not is_number and self.freeze_layers not in (None, ALL_LAYERS):
            problem = f"training.freeze_layers is {self.freeze_layers}"
            raise SettingError(problem, allowed=f"a number of layers, {ALL_LAYERS} or null")
        if self.budget is not None:
            seconds_of(self.budget)
        if self.budget is not None and self.steps is not None:
            problem = f"training.steps={self.steps} and training.budget={self.budget} both determine when to stop"
            raise SettingError(problem, remedy="Set training.steps=null or training.budget=null")
        if self.accumulate is not None and self.accumulate > self.batch_size:
            problem = f"training.accumulate={self.accumulate} is more than training.batch_size={self.batch_size}"
            raise SettingError(problem, allowed="at most one micro-batch per row")


def seconds_of(budget: str) -> float:
    """Return the seconds of a time such as 90s, 30m or 1.5h. Raises SettingError."""
    matched = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", budget)
    seconds = float(matched[1]) * {"s": 1, "m": 60, "h": 3600}[matched[2]] if matched else 0.0
    if not seconds:
        raise SettingError(f"training.budget={budget} is not a time", allowed="a number above 0 followed by s, m or h")
    return seconds


FEW_EPOCHS = 3  # the least for long rows, unless there are many rows
MANY_LABELS = 50  # which take longer to learn
ENOUGH_EPOCHS = 10  # for them: configs/training/finetuning.yaml
ROWS_PER_LABEL = 2  # in validation, below which scores are mostly chance


def steps_per_epoch(config: TrainingConfig, n_rows: int) -> int:
    """Return the optimizer steps of one pass over this many rows."""
    return math.ceil(n_rows / config.batch_size)


def total_steps(config: TrainingConfig, n_rows: int) -> int:
    """Return the optimizer steps, at least one, of a run on this many rows that no budget ends."""
    return config.steps or max(round(_epochs(config, n_rows) * steps_per_epoch(config, n_rows)), 1)


def resolve_by_rows(config: TrainingConfig, n_rows: int, n_tokens: int = 0, length_factor: int = 1) -> TrainingConfig:
    """Return the settings with `epochs` and `evaluate_every` decided if they were left open.

    The number of epochs falls with the number of rows: few rows are read `max_epochs` times, many once, and in between
    the run has about `min_steps` steps. Long rows, with `n_tokens` tokens in total, are read fewer times, but at least
    FEW_EPOCHS: about `max_tokens` tokens in all. A task that takes longer to learn has `length_factor` times as many
    steps and tokens. If `steps` or `budget` decide, `epochs` stays open, because nothing reads it.

    >>> fixed = resolve_by_rows(TrainingConfig(epochs=None, evaluations=10), n_rows=3_000)
    >>> fixed.epochs, fixed.evaluate_every
    (11.0, 104)
    """
    if config.steps is None and config.budget is None:
        config = replace(config, epochs=_epochs(config, n_rows, n_tokens, length_factor))
    if config.evaluate_every is not None or config.evaluations is None or config.budget is not None:
        return config
    return replace(config, evaluate_every=math.ceil(total_steps(config, n_rows) / config.evaluations))


def _epochs(config: TrainingConfig, n_rows: int, n_tokens: int = 0, factor: int = 1) -> float:
    if config.epochs is not None:
        return config.epochs
    by_steps = max(round(factor * config.min_steps / steps_per_epoch(config, n_rows)), 1)
    by_tokens = max(factor * config.max_tokens // n_tokens, FEW_EPOCHS) if n_tokens and config.max_tokens else by_steps
    return float(min(by_steps, by_tokens, config.max_epochs))


def can_choose_by(config: TrainingConfig, n_rows: int, n_labels: int = 0) -> bool:
    """Return whether `n_rows` validation rows with `n_labels` labels are enough to choose a checkpoint by.

    >>> config = TrainingConfig(min_validation_rows=50)
    >>> can_choose_by(config, 60, n_labels=2), can_choose_by(config, 60, n_labels=77)
    (True, False)
    """
    return config.min_validation_rows == 0 or n_rows >= max(config.min_validation_rows, ROWS_PER_LABEL * n_labels)


def length_in_words(config: TrainingConfig, n_rows: int, *, evaluated: bool, epoch: str = "epoch") -> str:
    """Return in words how long a run is, how often it is `evaluated` if at all, and when it stops early.

    `epoch` is the word for a pass over the rows.
    """
    per_epoch = steps_per_epoch(config, n_rows)
    every = config.evaluate_every or per_epoch
    if config.budget is not None:
        length = f"{config.budget} of steps of {config.batch_size:,} rows ({per_epoch:,} per {epoch})"
    else:
        steps = total_steps(config, n_rows)
        every = min(every, steps)
        n_epochs = steps / per_epoch
        epochs = f"{n_epochs:.3g}" if n_epochs < 1000 else f"{n_epochs:,.0f}"
        counted = f"{steps:,} step{'s' * (steps != 1)} of {config.batch_size:,} rows"
        length = f"{epochs} {epoch}{'s' * (epochs != '1')}, {counted}"
    if evaluated:
        length += f"; evaluated every {f'{every:,} steps' if every > 1 else 'step'}"
    if evaluated and config.patience is not None:
        without = f"{config.patience:,} evaluation{'s' * (config.patience > 1)}"
        length += f", and stopped after {without} without a better score"
    return length
