"""The settings of the commands that make runs, and what those share that open them; see `inference_settings` for the latter."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from encoderlab.data.sources.dataset import DatasetConfig
from encoderlab.data.tokenizers.config import TokenizerConfig
from encoderlab.encoders.catalogue import SHIPPED
from encoderlab.errors import SettingError, closest
from encoderlab.model.config import ModelChoice
from encoderlab.settings import REQUIRED, check_settings, setting
from encoderlab.tasks.config import TaskConfig
from encoderlab.training.config import Precision, TrainingConfig, seconds_of

CACHE = "~/.cache/encoderlab"  # where ENCODERLAB_CACHE names no other (configs/command.yaml)


TRACKERS = ("tensorboard", "wandb")
RUN_DIR = "Folder for what this run writes; null: outputs/<command>/<task>/<time>-<uid>."


@dataclass
class CommandConfig:
    """What every command shares."""

    cache_dir: str = setting(
        CACHE, "Folder for what can be made again: corpora, tokenizers, token stores; ENCODERLAB_CACHE sets it."
    )

    def __post_init__(self) -> None:
        check_settings(self, "")
        if not self.cache_dir:
            raise SettingError("cache_dir is empty", allowed="a folder", remedy="Leave it out to use ~/.cache/encoderlab")


@dataclass
class RunConfig(CommandConfig):
    """Train an encoder and report how good it is."""

    task: TaskConfig = setting(REQUIRED, "What is asked of the encoder.")
    dataset: DatasetConfig = setting(REQUIRED, "Where examples come from.")
    tokenizer: TokenizerConfig = setting(REQUIRED, "How text becomes ids.")
    model: ModelChoice = setting(REQUIRED, "Size and shape of the encoder.")
    training: TrainingConfig = setting(REQUIRED, "Length, batch, optimizer, schedule, precision and device.")
    seed: int = setting(0, "Seed of the weights, the batches and dropout.", least=0, most=2**32 - 1)
    run_dir: str | None = setting(None, RUN_DIR)
    resume: str | None = setting(None, "Go on with this run: its folder, or auto for the latest unfinished one of these settings.")
    folds: int | None = setting(
        None, "Cross-validation: train so many times, each time tested on another part of the training rows.", least=2, most=100
    )
    baselines: bool = setting(True, "Score what needs no encoder on the same rows, to be compared with.")
    dry_run: bool = setting(
        False, "Estimate size, memory, time and measurable gain from a few real steps, then stop; only the cache is written."
    )
    trackers: list[str] = setting([], "Trackers to tell of the run's figures too: [tensorboard,wandb] or one of them.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._refuse_trackers()
        if self.folds is not None and self.dataset.fold is not None:
            raise SettingError(
                f"folds={self.folds} runs every fold, and dataset.fold={self.dataset.fold} names one",
                allowed="one of the two",
                remedy="Leave dataset.fold out",
            )
        if self.dry_run and self.resume is not None:
            raise SettingError(
                f"dry_run=true estimates a new run, and resume={self.resume} continues an existing one",
                allowed="one of the two",
                remedy="Leave resume out, or dry_run",
            )

    def _refuse_folds(self, command: str, because: str) -> None:
        if self.folds is not None:
            raise SettingError(
                f"folds={self.folds} is not for {command}: {because}", remedy="Leave folds out, or use encoderlab train or finetune"
            )

    def _refuse_trackers(self) -> None:
        unknown = next((name for name in self.trackers if name not in TRACKERS), None)
        if unknown is not None:
            near = closest(unknown, TRACKERS)
            remedy = f"Did you mean trackers=[{near}]?" if near else ""
            raise SettingError(f"There is no tracker {unknown}", allowed=", ".join(TRACKERS), remedy=remedy)


@dataclass
class PretrainConfig(RunConfig):
    """Pretrain an encoder on documents: masked tokens, and what follows what."""

    init_from: str | None = setting(None, "Go on from this: a run folder, a Hugging Face folder or a hub name; null: from scratch.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._refuse_folds("pretraining", "documents have no labels to predict")


@dataclass
class FinetuneConfig(RunConfig):
    """Train a task from a pretrained encoder, and report how good it is."""

    init_from: str = setting(
        SHIPPED, "The pretrained encoder: one of encoderlab list encoders, a run folder, a Hugging Face folder or a hub name."
    )
    adapt: str | None = setting(
        None, "Time to pretrain on the task's own training texts first, by masked tokens, such as 90s or 5m; null: none."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adapt is not None:
            seconds_of(self.adapt, "adapt")


class StudentStart(Enum):
    """What a student starts from, where `init_from` names nothing: weights as drawn, or parts of its teacher."""

    fresh = "fresh"
    embeddings = "embeddings"
    layers = "layers"
    pruned = "pruned"


@dataclass
class DistillConfig(RunConfig):
    """Train a student to answer as a larger teacher does, on a task's rows or on documents."""

    teacher: str | None = setting(None, "The teacher: a run folder, a Hugging Face folder or a hub name; required.")
    init_from: str | None = setting(None, "The encoder the student starts from; null: see start.")
    start: StudentStart = setting(
        StudentStart.fresh,
        "Without init_from: fresh weights, the teacher's embeddings (reduced by PCA where the student is narrower), its layers "
        "too, evenly spaced, or pruned (its layers with their strongest heads and neurons, fitted to the student's width).",
    )
    temperature: float = setting(2.0, "On a task: softens the probabilities of teacher and student.", above=0)
    teacher_weight: float = setting(
        0.8, "On a task: weight of the teacher's probabilities in the loss; the labels get the rest (1 - weight).", least=0, most=1
    )
    unlabelled: str | None = setting(
        None, "On a task: a file of more texts without labels (csv, tsv, jsonl, parquet, txt), which the teacher labels."
    )
    compare: bool = setting(
        True, "On a task: train the same student without its teacher too, and compare all three on the same rows."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._refuse_folds("distillation", "the teacher may have learnt the rows of every fold")


@dataclass
class OpenRunConfig(CommandConfig):
    """What every command that opens a finished run shares."""

    run: str = setting(REQUIRED, "A run folder, its model/ folder, a Hugging Face folder, or a shipped encoder.")
    device: str = setting("auto", "auto (CUDA, then MPS, then CPU), cpu, cuda, cuda:1 or mps.")
    precision: Precision = setting(Precision.auto, "Format of the matrix products: auto (bf16 where it pays), fp32 or bf16.")
    threads: int | None = setting(None, "CPU threads; null: one for each core this process may use.", least=1, most=1024)


@dataclass
class EvalConfig(OpenRunConfig):
    """Score a finished run on a split of its dataset, or of another one."""

    split: str | None = setting(None, "The split to score; null: test where it has labels, else validation.")
    dataset: DatasetConfig | None = setting(None, "Another dataset to score on; null: the run's own.")
    run_dir: str | None = setting(None, RUN_DIR)


class ExportFormat(Enum):
    """What a model can be handed on as."""

    huggingface = "huggingface"
    sentence_transformers = "sentence_transformers"
    onnx = "onnx"
    compact = "compact"
    int8 = "int8"


class ExportPrecision(Enum):
    """The numbers that an exported graph holds its weights in."""

    fp32 = "fp32"
    int8 = "int8"


@dataclass
class ExportConfig(CommandConfig):
    """Write a run's model in a form that other tools open with no code of ours, or in less space."""

    run: str = setting(REQUIRED, "A run folder, or its model/ folder.")
    format: ExportFormat = setting(
        ExportFormat.huggingface,
        "huggingface: a folder for transformers' Auto classes; sentence_transformers: one for that library, which pools by mean; "
        "onnx: a graph for onnxruntime, checked with it, which predict, eval and serve open too; compact: our own model folder at "
        "about a third of the size (8-bit token embeddings, all else in 16 bits); int8: the same as format=onnx precision=int8.",
    )
    precision: ExportPrecision | None = setting(
        None,
        "Of format=onnx: fp32, or int8: 8-bit weights with a scale for each channel, about a quarter of the size, compared on the "
        "run's own split before it is written; null: fp32.",
    )
    path: str = setting(REQUIRED, "The new folder to write.")
    heads: bool = setting(True, "Write the heads too; false: the encoder alone, to start from or to embed with (not for onnx).")
    card: str | None = setting(None, "A Markdown file to write as README.md; null: the model's own.")


@dataclass
class SweepConfig:
    """What may be typed with -m, for all runs together."""

    sweep_dir: str | None = setting(
        None, "Folder of the sweep, new or to resume (finished jobs are not repeated); null: outputs/multirun/<time>-<uid>."
    )
    trials: int | None = setting(
        None,
        "Search instead of trying every combination: as many runs, drawn from log(a,b), interval(a,b), range(a,b) or a,b,c.",
        least=1,
        most=100_000,
    )

    def __post_init__(self) -> None:
        check_settings(self, "")
