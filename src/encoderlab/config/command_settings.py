"""The settings of commands that create runs, and those shared by commands that open them; see also
`inference_settings`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from encoderlab.data.sources.dataset import DatasetConfig
from encoderlab.data.tokenizers.config import TokenizerConfig
from encoderlab.encoders.catalogue import SHIPPED
from encoderlab.errors import SettingError, closest
from encoderlab.model.config import ModelChoice
from encoderlab.settings import CACHE, REQUIRED, Names, check_settings, setting
from encoderlab.tasks.config import TaskConfig
from encoderlab.training.config import Precision, TrainingConfig, seconds_of

TRACKERS = ("tensorboard", "wandb")
RUN_DIR = "Folder for what this run writes; null: outputs/<command>/<task>/<time>-<uid>."


@dataclass
class CommandConfig:
    """The settings that every command has."""

    cache_dir: str = setting(
        CACHE,
        "Folder for files that can be rebuilt: corpora, tokenizers, token stores; ENCODERLAB_CACHE sets it.",
        names=Names.folder,
    )

    def __post_init__(self) -> None:
        check_settings(self, "")
        if not self.cache_dir:
            raise SettingError("cache_dir is empty", allowed="a folder", remedy="Remove it to use ~/.cache/encoderlab")


@dataclass
class RunConfig(CommandConfig):
    """Train an encoder and report its scores."""

    task: TaskConfig = setting(REQUIRED, "What the encoder learns to predict.")
    dataset: DatasetConfig = setting(REQUIRED, "Where examples come from.")
    tokenizer: TokenizerConfig = setting(REQUIRED, "How text becomes ids.")
    model: ModelChoice = setting(REQUIRED, "Size and shape of the encoder.")
    training: TrainingConfig = setting(REQUIRED, "Length, batch, optimizer, schedule, precision and device.")
    seed: int = setting(0, "Seed of the weights, the batches and dropout.", least=0, most=2**32 - 1)
    run_dir: str | None = setting(None, RUN_DIR, names=Names.folder)
    resume: str | None = setting(
        None,
        "Resume this run: its folder, or auto for the latest unfinished run with these settings.",
        names=Names.unfinished_run,
    )
    folds: int | None = setting(
        None,
        "Cross-validation: train this many times, each time testing on another part of the training rows.",
        least=2,
        most=100,
    )
    baselines: bool = setting(True, "Score simple baselines (no encoder) on the same rows, for comparison.")
    dry_run: bool = setting(
        False,
        "Estimate size, memory, time and measurable gain from a few real steps, then stop; only the cache is written.",
    )
    trackers: list[str] = setting([], "Trackers that receive the run's figures: [tensorboard,wandb] or one of them.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._refuse_trackers()
        if self.folds is not None and self.dataset.fold is not None:
            raise SettingError(
                f"folds={self.folds} runs every fold, but dataset.fold={self.dataset.fold} selects one",
                allowed="one of the two",
                remedy="Remove dataset.fold",
            )
        if self.dry_run and self.resume is not None:
            raise SettingError(
                f"dry_run=true estimates a new run, but resume={self.resume} continues an existing one",
                allowed="one of the two",
                remedy="Remove resume or dry_run",
            )

    @property
    def starts_from(self) -> str | None:
        """Return the pretrained encoder that the run starts from, a value of `init_from`; None for fresh weights."""
        return None

    def _refuse_folds(self, command: str, because: str) -> None:
        if self.folds is not None:
            raise SettingError(
                f"folds={self.folds} does not work with {command}: {because}",
                remedy="Remove folds, or use encoderlab train or finetune",
            )

    def _refuse_trackers(self) -> None:
        unknown = next((name for name in self.trackers if name not in TRACKERS), None)
        if unknown is not None:
            near = closest(unknown, TRACKERS)
            remedy = f"Did you mean trackers=[{near}]?" if near else ""
            raise SettingError(f"Unknown tracker {unknown}", allowed=", ".join(TRACKERS), remedy=remedy)


@dataclass
class PretrainConfig(RunConfig):
    """Pretrain an encoder on documents: masked tokens and next sentences."""

    init_from: str | None = setting(
        None,
        "Encoder to start from: a run folder, a Hugging Face folder or a hub name; null: from scratch.",
        names=Names.encoder,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._refuse_folds("pretraining", "documents have no labels to predict")

    @property
    def starts_from(self) -> str | None:
        """See `RunConfig.starts_from`."""
        return self.init_from


@dataclass
class FinetuneConfig(RunConfig):
    """Finetune a pretrained encoder on a task, and report its scores."""

    init_from: str = setting(
        SHIPPED,
        "The pretrained encoder: a name from encoderlab list encoders, a run folder, a Hugging Face folder or a hub name.",
        names=Names.encoder,
    )
    adapt: str | None = setting(
        None,
        "Pretrain on the task's own training texts first (masked tokens), for a time such as 90s or 5m; null: do not.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adapt is not None:
            seconds_of(self.adapt, "adapt")

    @property
    def starts_from(self) -> str | None:
        """See `RunConfig.starts_from`."""
        return self.init_from


class StudentStart(Enum):
    """What a student starts from if `init_from` is not set: fresh weights, or parts of its teacher."""

    fresh = "fresh"
    embeddings = "embeddings"
    layers = "layers"
    pruned = "pruned"


@dataclass
class DistillConfig(RunConfig):
    """Train a small student to predict what a larger teacher predicts, on a task's rows or on documents."""

    teacher: str | None = setting(
        None, "The teacher: a run folder, a Hugging Face folder or a hub name; required.", names=Names.folder
    )
    init_from: str | None = setting(None, "Encoder that the student starts from; null: see start.", names=Names.encoder)
    start: StudentStart = setting(
        StudentStart.fresh,
        "Without init_from, start from: fresh (random weights), embeddings (the teacher's, reduced by PCA if the student is "
        "narrower), layers (also the teacher's layers, evenly spaced), or pruned (those layers, with their strongest heads and "
        "neurons, fitted to the student's width).",
    )
    temperature: float = setting(2.0, "On a task: softens the probabilities of teacher and student.", above=0)
    teacher_weight: float = setting(
        0.8,
        "On a task: weight of the teacher's probabilities in the loss; the labels get the rest (1 - weight).",
        least=0,
        most=1,
    )
    unlabelled: str | None = setting(
        None,
        "On a task: a file of further, unlabelled texts (csv, tsv, jsonl, parquet, txt) for the teacher to label.",
        names=Names.path,
    )
    compare: bool = setting(
        True, "On a task: also train the same student without its teacher, and compare all three on the same rows."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._refuse_folds("distillation", "the teacher may have been trained on the rows of every fold")

    @property
    def starts_from(self) -> str | None:
        """See `RunConfig.starts_from`."""
        return self.init_from


@dataclass
class OpenRunConfig(CommandConfig):
    """The settings of every command that opens a finished run."""

    run: str = setting(
        REQUIRED, "A run folder, its model/ folder, a Hugging Face folder, or a shipped encoder.", names=Names.encoder
    )
    device: str = setting("auto", "auto (CUDA, then MPS, then CPU), cpu, cuda, cuda:1 or mps.", names=Names.device)
    precision: Precision = setting(
        Precision.auto, "Precision of the matrix products: auto (bf16 if it is faster), fp32 or bf16."
    )
    threads: int | None = setting(
        None, "CPU threads; null: one per core that this process may use.", least=1, most=1024
    )


@dataclass
class EvalConfig(OpenRunConfig):
    """Score a finished run on a split of its dataset, or of another one."""

    split: str | None = setting(
        None, "The split to score; null: test if it has labels, otherwise validation.", names=Names.split
    )
    dataset: DatasetConfig | None = setting(None, "Another dataset to score on; null: the run's own.")
    run_dir: str | None = setting(None, RUN_DIR, names=Names.folder)


class ExportFormat(Enum):
    """The formats a model can be exported to."""

    huggingface = "huggingface"
    sentence_transformers = "sentence_transformers"
    onnx = "onnx"
    compact = "compact"
    int8 = "int8"


class ExportPrecision(Enum):
    """The number format of the weights of an exported graph."""

    fp32 = "fp32"
    int8 = "int8"


@dataclass
class ExportConfig(CommandConfig):
    """Export a run's model to a format that other tools read without encoderlab, or to a smaller folder."""

    run: str = setting(REQUIRED, "A run folder, or its model/ folder.", names=Names.encoder)
    format: ExportFormat = setting(
        ExportFormat.huggingface,
        "huggingface: a folder for transformers' Auto classes; sentence_transformers: one for that library (mean pooling); "
        "onnx: a graph for onnxruntime, checked against the model, which predict, eval and serve open too; compact: encoderlab's "
        "own at a third of the size (8-bit token embeddings, everything else in 16 bits); int8: onnx with precision=int8.",
    )
    precision: ExportPrecision | None = setting(
        None,
        "With format=onnx: fp32, or int8 (8-bit weights with a scale per channel, a quarter of the size, compared with the model "
        "on the run's own test split before it is written); null: fp32.",
    )
    path: str = setting(REQUIRED, "The new folder to write.", names=Names.folder)
    heads: bool = setting(
        True, "Export the heads too; false: only the encoder, to finetune from or to embed with (not for onnx)."
    )
    card: str | None = setting(None, "A Markdown file to write as README.md; null: the model's own.", names=Names.path)


@dataclass
class SweepConfig:
    """The settings of a sweep: given with -m, for all its runs together."""

    sweep_dir: str | None = setting(
        None,
        "Folder of the sweep, new or to resume (finished jobs are not repeated); null: outputs/multirun/<time>-<uid>.",
        names=Names.folder,
    )
    trials: int | None = setting(
        None,
        "Search instead of trying every combination: this many runs, drawn from log(a,b), interval(a,b), range(a,b) or a,b,c.",
        least=1,
        most=100_000,
    )
    takeover_seconds: int = setting(
        120,
        "Take over a job of another machine that shares sweep_dir after this many seconds without a sign of life.",
        least=1,
        most=86_400,
    )

    def __post_init__(self) -> None:
        check_settings(self, "")
