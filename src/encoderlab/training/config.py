"""The settings of a training run: length, batch, optimizer, schedule, precision and device."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from encoderlab.errors import SettingError
from encoderlab.settings import check_settings, setting


class Schedule(Enum):
    """How the learning rate changes over a run; see `training.optimizer.learning_rate_at`."""

    one_cycle = "one_cycle"
    linear = "linear"
    cosine = "cosine"
    constant = "constant"


class Batching(Enum):
    """Which rows share a batch: rows of nearly equal length, or any rows."""

    length = "length"
    random = "random"


class Precision(Enum):
    """The number format of the matrix products."""

    auto = "auto"
    fp32 = "fp32"
    bf16 = "bf16"


class Compile(Enum):
    """Whether PyTorch's compiler fuses kernels; see `training.compilation`."""

    auto = "auto"
    always = "always"
    never = "never"


class Sharding(Enum):
    """Whether each of several processes holds all weights, or they are sharded; see `training.distribution`."""

    none = "none"
    full = "full"


class Keep(Enum):
    """Which checkpoint becomes the run's model."""

    best = "best"
    last = "last"


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
        least=1,
    )
    max_epochs: int = setting(20, "With epochs=null: most epochs, however few rows there are.", least=1)
    many_labels_passes: int = setting(  # a factor, not epochs
        1,
        "With epochs=null: factor on the number of steps for a task with 50 labels or more, whose new head takes "
        "longer to learn.",
        least=1,
    )
    max_tokens: int | None = setting(
        None,
        "With epochs=null: read about this many tokens at most, in fewer epochs if rows are long (at least 3).",
        least=1,
    )
    steps: int | None = setting(None, "Optimizer steps; overrides epochs.", least=1)
    budget: str | None = setting(None, "Time to train for, such as 90s, 30m or 1.5h; overrides epochs.")
    batch_size: int = setting(32, "Rows in each optimizer step.", least=1)
    accumulate: int | None = setting(
        None,
        "Micro-batches per batch; only dropout's random draws depend on it; null: as few as a GPU's memory "
        "allows. On a CPU, set more if the system ends the run for its memory.",
        least=1,
    )
    batching: Batching | None = setting(
        Batching.length,
        "length: rows of nearly equal length share a batch; random: any rows, padded to the longest; null: random for "
        "few rows (see min_validation_rows), otherwise length.",
    )
    learning_rate: float | None = setting(
        1e-3,
        "Peak learning rate of AdamW; null: suited to finetuning an encoder of this width (1e-3 up to 128, "
        "5e-4 at 256, 2.2e-4 at 384, 5.6e-5 at 768).",
        above=0,
    )
    schedule: Schedule = setting(Schedule.linear, "Learning rate schedule: one_cycle, linear, cosine or constant.")
    warmup: float = setting(0.1, "Share of all steps in which the learning rate rises to its peak.", least=0, below=1)
    weight_decay: float = setting(0.01, "Decoupled weight decay of the matrices; biases and norms have none.", least=0)
    beta2: float = setting(0.999, "AdamW's decay of the running mean of squared gradients.", least=0, below=1)
    epsilon: float = setting(1e-8, "AdamW's epsilon.", above=0)
    clip_norm: float | None = setting(
        1.0, "Largest norm of the gradient; larger gradients are scaled down; null: no clipping.", above=0
    )
    layer_decay: float = setting(
        1.0, "Factor on the learning rate from each layer to the layer below, starting at the heads.", above=0, most=1
    )
    freeze_layers: int | None = setting(
        0,
        "Number of lowest layers to freeze, together with the embeddings; 0: train everything; null: a quarter of them "
        "for few rows (see min_validation_rows), otherwise 0.",
        least=0,
    )
    precision: Precision = setting(
        Precision.auto, "Precision of the matrix products: auto (bf16 if it is faster), fp32 or bf16."
    )
    compile: Compile = setting(Compile.auto, "Compile the encoder: auto (long runs on CUDA), always or never.")
    deterministic: bool = setting(
        False, "Use only deterministic kernels on CUDA, at some cost in speed; CPU kernels are always deterministic."
    )
    device: str = setting("auto", "auto (CUDA, then MPS, then CPU), cpu, cuda, cuda:1 or mps.")
    threads: int | None = setting(None, "CPU threads of a process; null: one per core it may use.", least=1, most=1024)
    sharding: Sharding = setting(
        Sharding.none,
        "With several processes: none (each holds all weights) or full (sharded, for models too large for one GPU).",
    )
    evaluate_every: int | None = setting(None, "Steps between evaluations; null: set by training.evaluations.", least=1)
    evaluations: int | None = setting(
        None,
        "With evaluate_every=null: number of evaluations, evenly spaced; null, or with a budget: one per epoch.",
        least=1,
    )
    checkpoint_every: int | None = setting(
        None, "Steps between checkpoints, in addition to those at evaluations; null: none.", least=1
    )
    patience: int | None = setting(
        None, "Stop after this many evaluations without a better score; null: never.", least=1
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
        "checkpoint, do not stop early, and hold no rows out of training if a test split is there; 0: never.",
        least=0,
    )
    log_every: int = setting(20, "Steps between lines in metrics.jsonl.", least=1)

    def __post_init__(self) -> None:
        check_settings(self, self.group)
        if self.budget is not None:
            seconds_of(self.budget)
        if self.budget is not None and self.steps is not None:
            wrong = f"training.steps={self.steps} and training.budget={self.budget} both determine when to stop"
            raise SettingError(wrong, remedy="Set training.steps=null or training.budget=null")
        if self.accumulate is not None and self.accumulate > self.batch_size:
            wrong = f"training.accumulate={self.accumulate} is more than training.batch_size={self.batch_size}"
            raise SettingError(wrong, allowed="at most one micro-batch per row")


def seconds_of(budget: str) -> float:
    """Return the seconds of a time such as 90s, 30m or 1.5h. Raises SettingError."""
    matched = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", budget)
    seconds = float(matched[1]) * {"s": 1, "m": 60, "h": 3600}[matched[2]] if matched else 0.0
    if not seconds:
        raise SettingError(f"training.budget={budget} is not a time", allowed="a number above 0 followed by s, m or h")
    return seconds
