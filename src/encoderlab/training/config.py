"""The settings of a training run: length, batch, optimizer, schedule, precision and device."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from encoderlab.errors import SettingError
from encoderlab.settings import check_settings, setting


class Schedule(Enum):
    """How the learning rate moves over a run; see `training.schedule.learning_rate_at`."""

    one_cycle = "one_cycle"
    linear = "linear"
    cosine = "cosine"
    constant = "constant"


class Batching(Enum):
    """Which rows share a batch: those of nearly equal length, or any."""

    length = "length"
    random = "random"


class Precision(Enum):
    """The number format of the matrix products."""

    auto = "auto"
    fp32 = "fp32"
    bf16 = "bf16"


class Compile(Enum):
    """Whether PyTorch's compiler makes one kernel of many; see `runs.engine.compilation`."""

    auto = "auto"
    always = "always"
    never = "never"
    cuda_graphs = "cuda_graphs"


class Sharding(Enum):
    """Whether several processes hold all weights each, or cut them among themselves; see `runs.engine.distribution`."""

    none = "none"
    full = "full"


class Keep(Enum):
    """Which checkpoint becomes the run's model."""

    best = "best"
    last = "last"


@dataclass
class TrainingConfig:
    """How long, how fast and on what a model is trained."""

    group: ClassVar[str] = "training"

    epochs: float | None = setting(
        3.0,
        "Passes over the training split; fractions are fine. null or auto: chosen from the number of rows; see min_steps.",
        above=0,
    )
    min_steps: int = setting(
        1000, "With epochs=auto: as many whole epochs as make about this many steps, one at least, max_epochs at most.", least=1
    )
    max_epochs: int = setting(20, "With epochs=auto: epochs at most, however few rows there are.", least=1)
    max_tokens: int | None = setting(
        None, "With epochs=auto: fewer epochs where rows are long, so that about this many tokens are read; 3 at least.", least=1
    )
    steps: int | None = setting(None, "Optimizer steps; when given, it decides instead of epochs.", least=1)
    budget: str | None = setting(None, "Time to train for, such as 90s, 30m or 1.5h; when given, it decides instead of epochs.")
    batch_size: int = setting(32, "Rows of one optimizer step.", least=1)
    accumulate: int | None = setting(
        None,
        "Parts a batch is computed in, the same but for dropout's draws; null or auto: as few as memory allows.",
        least=1,
    )
    batching: Batching = setting(Batching.length, "length: rows of nearly equal length together; random: padded to the longest.")
    learning_rate: float | None = setting(
        1e-3,
        "Peak learning rate of AdamW; null or auto: as suits finetuning an encoder of this width (5e-4 up to 256, 2.2e-4 at 384, "
        "5.6e-5 at 768).",
        above=0,
    )
    schedule: Schedule = setting(Schedule.linear, "Path of the learning rate: one_cycle, linear, cosine or constant.")
    warmup: float = setting(0.1, "Share of all steps in which the learning rate rises to its peak.", least=0, below=1)
    weight_decay: float = setting(0.01, "Decoupled weight decay of the matrices; biases and norms have none.", least=0)
    beta1: float = setting(0.9, "AdamW's decay of the gradient average.", least=0, below=1)
    beta2: float = setting(0.999, "AdamW's decay of the squared gradient average.", least=0, below=1)
    epsilon: float = setting(1e-8, "AdamW's epsilon.", above=0)
    clip_norm: float | None = setting(1.0, "Largest norm of the gradient, longer ones are shortened; null: no clipping.", above=0)
    skip_nonfinite: int = setting(
        0, "Steps left out because their loss or gradient is not finite, before the run stops; 0: it stops at the first.", least=0
    )
    layer_decay: float = setting(
        1.0, "Factor on the learning rate from each layer to the one below it, the heads being the top.", above=0, most=1
    )
    freeze_layers: int = setting(0, "Lowest layers that do not learn, the embeddings with them; 0: all learn.", least=0)
    precision: Precision = setting(Precision.auto, "Format of the matrix products: auto (bf16 where it pays), fp32 or bf16.")
    compile: Compile = setting(
        Compile.auto, "Compile the encoder: auto (long runs on CUDA), always, never, or cuda_graphs (for small models on CUDA)."
    )
    deterministic: bool = setting(
        False, "Use no kernel on CUDA that rounds otherwise each time, at some cost in speed; a CPU has none of them."
    )
    device: str = setting("auto", "auto (CUDA, then MPS, then CPU), cpu, cuda, cuda:1 or mps.")
    threads: int | None = setting(None, "CPU threads of a process; null: one for each core it may use.", least=1, most=1024)
    sharding: Sharding = setting(
        Sharding.none, "Several processes: none (each holds all weights) or full (a piece each, for models too large for a card)."
    )
    evaluate_every: int | None = setting(None, "Steps between evaluations; null: set by training.evaluations.", least=1)
    evaluations: int | None = setting(
        None, "With evaluate_every=null: evaluations of a run, evenly spread; null, or with a budget: one an epoch.", least=1
    )
    checkpoint_every: int | None = setting(None, "Steps between checkpoints beside those at evaluations; null: none.", least=1)
    patience: int | None = setting(
        None, "Stop after this many evaluations without a better score (of equal ones, the lower loss); null: never.", least=1
    )
    keep: Keep = setting(
        Keep.best, "Which checkpoint becomes the model: best (by the task's score on validation, then by the loss) or last."
    )
    log_every: int = setting(20, "Steps between lines in metrics.jsonl.", least=1)

    def __post_init__(self) -> None:
        check_settings(self, self.group)
        if self.budget is not None:
            seconds_of(self.budget)
        if self.budget is not None and self.steps is not None:
            raise SettingError(
                f"training.steps={self.steps} and training.budget={self.budget} both say when to stop",
                remedy="Set training.steps=null or training.budget=null to leave one of them out",
            )
        if self.compile is Compile.cuda_graphs and self.accumulate is not None and self.accumulate > 1:
            raise SettingError(
                f"training.accumulate={self.accumulate} with training.compile=cuda_graphs would overwrite gradients",
                allowed="CUDA graphs with whole batches",
                remedy="Set training.accumulate=1 or training.compile=always",
            )
        if self.accumulate is not None and self.accumulate > self.batch_size:
            raise SettingError(
                f"training.accumulate={self.accumulate} is more than training.batch_size={self.batch_size}",
                allowed="at most one part for each row",
                remedy=f"Set training.accumulate={self.batch_size}",
            )


def seconds_of(budget: str, name: str = "training.budget") -> float:
    """The seconds of a time such as 90s, 30m or 1.5h, the setting of that `name`. Raises SettingError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", budget)
    seconds = float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]] if found else 0.0
    if not seconds:
        raise SettingError(
            f"{name}={budget} is no time",
            allowed="a number above 0 with s, m or h behind it",
            remedy=f"Set {name}=30m",
        )
    return seconds
