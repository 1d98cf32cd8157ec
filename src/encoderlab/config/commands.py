"""The settings of the commands that are no application, a dataclass each, and those that several commands share."""

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import ClassVar, TypeVar

from encoderlab.data.dataset import DatasetConfig
from encoderlab.data.tokenizer_config import TokenizerConfig
from encoderlab.errors import SettingError
from encoderlab.network.config import ModelChoice, ModelConfig
from encoderlab.settings import CACHE, REQUIRED, check_settings, setting
from encoderlab.shipped import SHIPPED
from encoderlab.system.files import expanded
from encoderlab.tables.formats import Dialect, Quoting, refuse_other_headers, refuse_unknown
from encoderlab.tasks.task import TaskConfig
from encoderlab.training.config import Precision, TrainingConfig

RUN_DIR = "Folder for what this run writes; null: outputs/<command>/<task>/<time>-<uid>."
UNLIKE_TRAINING = (
    "Give no label to texts unlike the training texts: the share of similar texts that may go unlabelled, such as 0.05."
)
# Of a student without init_from: fresh weights, or parts of its teacher.
StudentStart = Enum("StudentStart", ["fresh", "embeddings", "layers"])
# A table, an object per line, Parquet, an Excel sheet.
PredictionFormat = Enum("PredictionFormat", ["csv", "jsonl", "parquet", "xlsx"])
# Written beside a prediction: its own, or those of all classes.
Probabilities = Enum("Probabilities", ["predicted", "all"])
VectorPooling = Enum("VectorPooling", ["cls", "mean", "max"])  # how the vectors of a text's tokens become one
Tracking = Enum("Tracking", ["mlflow", "wandb"])  # programs that collect runs
Examples = tuple[tuple[str, str], ...]  # what follows a command on its line, and what that does
TableFormat = Enum("TableFormat", ["table", "json"])  # how results are printed: for people, or for programs


@dataclass
class CommandConfig:
    """The settings that every command has; a run takes the name of its `command` from their class, and its help the
    `example_lines`.
    """

    command: ClassVar[str]
    example_lines: ClassVar[Examples]

    cache_dir: str = setting(CACHE, "Folder for files that can be rebuilt, such as corpora; ENCODERLAB_CACHE sets it.")
    # No settings: what was typed on the command line, which a run records; None if it was started from Python. And what
    # was typed for the run from whose settings it begins.
    overrides: list[str] | None = field(default=None, compare=False, kw_only=True, metadata={"internal": True})
    inherited: list[str] = field(default_factory=list, compare=False, kw_only=True, metadata={"internal": True})

    def __post_init__(self) -> None:
        check_settings(self, "")

    @property
    def cache(self) -> Path:
        """Return the folder `cache_dir`, with ~ expanded."""
        return expanded(self.cache_dir, "cache_dir")


@dataclass
class RunConfig(CommandConfig):
    """Train an encoder and report its scores."""

    command: ClassVar[str] = "train"
    example_lines: ClassVar[Examples] = (
        ("", "the built-in task: no download, no account, no GPU"),
        ("task=sst2 model.n_layers=2", "another task brings its dataset along"),
        ("reviews.csv", "your own file"),
        ("-m seed=1,2,3 model.n_layers=1,2,4", "one run per combination, and a table of all runs"),
        ("-m trials=20 'training.learning_rate=log(1e-5,1e-2)'", "a search with Optuna, scored on validation"),
        ("folds=5 task=sst2", "cross-validation: every training row is tested once"),
        ("resume=outputs/train/...", "resume a stopped run; resume=auto finds the latest"),
    )

    task: TaskConfig = setting(REQUIRED, "What the encoder learns to predict.")
    dataset: DatasetConfig = setting(REQUIRED, "Where examples come from.")
    tokenizer: TokenizerConfig = setting(REQUIRED, "How text becomes ids.")
    model: ModelChoice = setting(REQUIRED, "Size and shape of the encoder.")
    training: TrainingConfig = setting(REQUIRED, "Length, batch, optimizer, schedule, precision and device.")
    seed: int = setting(0, "Seed of the weights, the batches and dropout.", minimum=0, maximum=2**32 - 1)
    run_dir: str | None = setting(None, RUN_DIR)
    resume: str | None = setting(None, "Resume the run in this folder, or auto: the latest one with these settings.")
    config: str | None = setting(
        None, "Begin a new run from the settings of the run in this folder; other settings of the line change them."
    )
    folds: int | None = setting(
        None,
        "Cross-validation: train so many times, each time testing on another part of train.",
        minimum=2,
        maximum=100,
    )
    baselines: bool = setting(True, "Score simple baselines too: the most frequent label, and linear models.")
    dry_run: bool = setting(False, "Estimate size and time from a few real steps, then stop; only the cache is filled.")
    tensorboard: bool = setting(False, "Also write what metrics.jsonl holds as event files for TensorBoard.")
    tracking: Tracking | None = setting(
        None,
        "Also hand the finished run to mlflow or wandb: on this machine, unless their own variables say otherwise.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.folds is not None and not self.supports_folds:
            problem = f"folds={self.folds} does not work with pretraining, which has no labels, or with distillation, "
            problem += "whose teacher may have seen the rows of every fold"
            raise SettingError(problem, remedy="Remove folds, or use encoderlab train or finetune")
        if self.folds is not None and self.dataset.fold is not None:
            problem = f"folds={self.folds} runs every fold, but dataset.fold={self.dataset.fold} selects one"
            raise SettingError(problem, remedy="Remove dataset.fold")
        if self.dry_run and self.resume is not None:
            problem = f"dry_run=true estimates a new run, but resume={self.resume} continues an existing one"
            raise SettingError(problem, remedy="Remove resume or dry_run")

    @property
    def supports_folds(self) -> bool:
        """Return whether each part of the training rows can be tested by a run that has not read it."""
        return True

    @property
    def shape(self) -> ModelConfig:
        """Return the encoder's settings in full, which a run of its own has settled."""
        assert isinstance(self.model, ModelConfig), "the settings have not been settled"
        return self.model

    @property
    def starts_from(self) -> str | None:
        """Return the pretrained encoder that the run starts from, a value of `init_from`; None for fresh weights."""
        return getattr(self, "init_from", None)


AnyRunConfig = TypeVar("AnyRunConfig", bound=RunConfig)


@dataclass
class PretrainConfig(RunConfig):
    """Pretrain an encoder: on documents, or its vectors on labelled texts (task=contrastive)."""

    command: ClassVar[str] = "pretrain"
    example_lines: ClassVar[Examples] = (
        ("", "masked tokens and next sentences on the built-in corpus"),
        ("dataset=wikipedia model=mini training.budget=30m", "for half an hour on Wikipedia"),
        ("articles.txt", "your own text, with a blank line between documents"),
        ("task=contrastive init_from=mini-en dataset=files dataset.path=labelled.csv", "vectors that know your labels"),
    )

    init_from: str | None = setting(None, "Encoder to start from, as in finetune; null: from scratch.")
    folds: int | None = setting(None, "Refused, with the reason.", internal=True)

    @property
    def supports_folds(self) -> bool:
        return False


@dataclass
class FinetuneConfig(RunConfig):
    """Finetune a pretrained encoder on a task, and report its scores."""

    command: ClassVar[str] = "finetune"
    example_lines: ClassVar[Examples] = (
        ("task=sst2", "from the included encoder (see encoderlab list encoders)"),
        ("reviews.csv init_from=outputs/pretrain/...", "your own file, from one of your runs"),
        ("task=amazon_polarity init_from=google-bert/bert-base-uncased", "from the Hugging Face hub"),
    )

    init_from: str = setting(SHIPPED, "The pretrained encoder: a run folder, one of Hugging Face, or a hub name.")
    unlabelled: str | None = setting(
        None,
        "With few labelled rows, one label each: a file of unlabelled texts; a linear model labels those it is surest "
        "of, and they are trained on too if that seems to help. So are rows of the training file without a label.",
    )
    train_on_names: bool = setting(
        True,
        "With few labelled rows, one label each: train on each label's name too, as an extra row, if names are words "
        "and describe their rows.",
    )


@dataclass
class DistillConfig(RunConfig):
    """Train a small student to predict what a larger teacher predicts, on a task's rows or on documents."""

    command: ClassVar[str] = "distill"
    example_lines: ClassVar[Examples] = (
        ("teacher=outputs/finetune/... model=mini task=sst2", "on labels and the teacher's probabilities"),
        ("teacher=outputs/pretrain/... model=mini dataset=wikipedia", "on documents: the teacher's vectors"),
    )

    teacher: str | None = setting(None, "The teacher: a run folder, a Hugging Face folder or a hub name; required.")
    init_from: str | None = setting(None, "Encoder that the student starts from; null: see start.")
    start: StudentStart = setting(
        StudentStart.fresh,
        "Without init_from, start from: fresh (random weights), embeddings (the teacher's, reduced by PCA if the "
        "student is narrower), or layers (also the teacher's layers, evenly spaced).",
    )
    temperature: float = setting(2.0, "On a task: softens the probabilities of teacher and student.", above=0)
    teacher_weight: float = setting(
        0.8,
        "On a task: weight of the teacher's probabilities in the loss; the labels get the rest.",
        minimum=0,
        maximum=1,
    )
    unlabelled: str | None = setting(None, "On a task: a file of further, unlabelled texts for the teacher to label.")
    folds: int | None = setting(None, "Refused, with the reason.", internal=True)

    @property
    def supports_folds(self) -> bool:
        return False


@dataclass
class OpenRunConfig(CommandConfig):
    """The settings of every command that opens a finished run."""

    run: str = setting(REQUIRED, "A run folder, its model/ folder, a Hugging Face folder, or a shipped encoder.")
    device: str = setting("auto", "auto (CUDA, then MPS, then CPU), cpu, cuda, cuda:1 or mps.")
    precision: Precision = setting(Precision.auto, "Of the matrix products: auto (bf16 if it is faster), fp32 or bf16.")
    threads: int | None = setting(None, "CPU threads; null: one per idle core.", minimum=1, maximum=1024)


@dataclass
class EvalConfig(OpenRunConfig):
    """Score a finished run on a split of its dataset, or of another one."""

    command: ClassVar[str] = "eval"
    example_lines: ClassVar[Examples] = (
        ("run=outputs/train/... split=validation", "a split of the run's own dataset"),
        ("run=... more.csv", "other labelled data"),
    )

    split: str | None = setting(None, "The split to score; null: test if it has labels, otherwise validation.")
    dataset: DatasetConfig | None = setting(None, "Another dataset to score on; null: the run's own.")
    against: str | None = setting(
        None, "An older run (or model folder) to compare with, prediction by prediction on the same rows."
    )
    allowed_drop: float | None = setting(
        None, "With against: end with exit code 1 if the main score is worse by more than this.", minimum=0
    )
    run_dir: str | None = setting(None, RUN_DIR)


@dataclass
class InputConfig(OpenRunConfig):
    """The settings of commands that read new texts, from a file or standard input."""

    input: str | None = setting(
        None, "File of texts (csv, xlsx, jsonl, ...) or its URL; null or -: lines of standard input."
    )
    text_column: str | None = setting(None, "Column of `input` that holds the text; null: as trained.")
    text_pair_column: str | None = setting(None, "Column of `input` that holds the second text; null: as trained.")
    quoting: Quoting = setting(
        Quoting.auto, "A double quote in csv and tsv: auto (as trained), double, backslash, literal."
    )
    encoding: str = setting("auto", "auto (UTF-8, UTF-16 by its mark, else Windows-1252), or a name such as latin-1.")
    sheet: str | None = setting(None, "The sheet of an Excel file; null: as trained, or the only one with the column.")
    header: str = setting("auto", "The row with the names of the columns: auto (by the first rows), a number, or none.")

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unknown(self.encoding, "encoding")
        refuse_other_headers(self.header, "header")

    @property
    def dialect(self) -> Dialect:
        """Return how the file is to be read."""
        return Dialect(self.quoting, self.encoding, self.sheet, self.header)


@dataclass
class OutputConfig(InputConfig):
    """The settings of commands that write rows of texts, to a file or to standard output."""

    output: str | None = setting(None, "File to write; null: standard output.")
    overwrite: bool = setting(False, "Replace an existing output.")
    escape_formulas: bool = setting(
        False, "In csv, put ' before each text that a spreadsheet would compute: with =, +, - or @ first."
    )


@dataclass
class PredictConfig(OutputConfig):
    """Predict labels or numbers for new texts: one output row per input row, in order."""

    command: ClassVar[str] = "predict"
    example_lines: ClassVar[Examples] = (
        ("run=... text='A gorgeous, witty film.'", "one text"),
        ("run=... new.csv output=predictions.csv", "a file; also .jsonl, .parquet and .xlsx"),
        ("run=... < lines.txt", "lines of standard input (pairs: a tab between the texts)"),
    )

    text: str | None = setting(None, "One text to predict.")
    split: str | None = setting(None, "A split of the run's dataset.")
    text_pair: str | None = setting(None, "The second text, for a task on pairs.")
    format: PredictionFormat | None = setting(
        None, "csv, jsonl, parquet or xlsx; null: by output's extension, else csv."
    )
    probabilities: Probabilities = setting(
        Probabilities.predicted, "predicted: that of what is predicted; all: of all classes."
    )
    min_probability: float | None = setting(
        None, "Give no label (in csv an empty cell) below this.", minimum=0, maximum=1
    )
    unlike_training: float | None = setting(None, UNLIKE_TRAINING, above=0, below=1)


@dataclass
class ShownTextsConfig(OpenRunConfig):
    """The settings of commands that show a model at work on some texts."""

    text: str | None = setting(None, "One text to read.")
    text_pair: str | None = setting(None, "The second text, for a task on pairs.")
    split: str | None = setting(None, "A split of the run's dataset to take rows from; null: validation.")
    rows: list[int] | None = setting(None, "Rows of the split, such as [0,7], counted from 0; null: the first.")
    run_dir: str | None = setting(None, RUN_DIR)


@dataclass
class AttentionConfig(ShownTextsConfig):
    """Plot attention maps: one figure per layer, and the arrays."""

    command: ClassVar[str] = "attention"
    example_lines: ClassVar[Examples] = (
        ("run=... text='A gorgeous, witty film.'", "one text; split=validation rows=[0,7]: rows of a split"),
    )


@dataclass
class ExplainConfig(ShownTextsConfig):
    """Show which words support a prediction, and which count against it: on screen, and as a page."""

    command: ClassVar[str] = "explain"
    example_lines: ClassVar[Examples] = (
        ("run=... text='A gorgeous, witty film.'", "one text"),
        ("run=... split=test rows=[0,7] label=positive", "what supports one class, in rows of a split"),
    )

    label: str | None = setting(None, "The class to explain; null: the most probable one.")
    precision: Precision = setting(Precision.fp32, "Of the matrix products: fp32 (exact), bf16 (faster), or auto.")


@dataclass
class EmbedConfig(InputConfig):
    """Write the encoder's vectors of texts as a NumPy array, a row for each text, in their order."""

    command: ClassVar[str] = "embed"
    example_lines: ClassVar[Examples] = (
        ("input=texts.txt output=vectors.npy", "one vector per line, from the included encoder"),
        ("run=... input=new.csv output=vectors.npy", "from one of your runs"),
    )

    run: str = setting(SHIPPED, "The encoder: a run folder, its model/ folder, or one of Hugging Face.")
    text_pair_column: str | None = setting(
        None, "Column of `input` that holds the second text; null: as trained, or none if text_column is set."
    )
    output: str = setting(REQUIRED, "The .npy file to write.")
    pooling: VectorPooling | None = setting(
        None,
        "The vector of a text: mean or max of its tokens' vectors, or cls; null: as trained, else mean.",
    )
    layer: int | None = setting(
        None, "Take the vectors after this layer, counted from 1 (0: the embeddings); null: after the last.", minimum=0
    )
    normalize: bool | None = setting(
        None, "Scale each vector to length 1; null: as sentence vectors were trained, else not."
    )
    precision: Precision = setting(Precision.fp32, "Of the matrix products: fp32 (exact), bf16 (faster), or auto.")


@dataclass
class BaselineConfig(CommandConfig):
    """Score simple baselines: the most frequent label, a linear model of words, and one of mini-en's vectors."""

    command: ClassVar[str] = "baseline"
    example_lines: ClassVar[Examples] = (("task=sst2", "without an encoder; format=json: for programs"),)

    task: TaskConfig = setting(REQUIRED, "What to predict for the rows.")
    dataset: DatasetConfig = setting(REQUIRED, "Where the rows come from.")
    tokenizer: TokenizerConfig | None = setting(None, "Set by tasks on symbols.", internal=True)
    split: str | None = setting(None, "The split to score; null: test if it has labels, otherwise validation.")
    probe: str | None = setting(
        None,
        "An encoder, as in run=: score a linear model of the mean vectors after each of its layers too.",
    )
    format: TableFormat = setting(TableFormat.table, "How the scores are printed: table, or json for programs.")


@dataclass
class SweepConfig:
    """The settings of a sweep: given with -m, for all its runs together."""

    sweep_dir: str | None = setting(
        None,
        "Folder of the sweep, new or to resume (finished jobs are not repeated); null: outputs/multirun/<time>-<uid>.",
    )
    trials: int | None = setting(
        None,
        "Search instead of trying every combination: this many runs, drawn from log(a,b), interval(a,b), range(a,b) "
        "or a,b,c.",
        minimum=1,
        maximum=100_000,
    )

    def __post_init__(self) -> None:
        check_settings(self, "")


TRAINING_CONFIGS: dict[str, type[RunConfig]] = {
    kind.command: kind for kind in (RunConfig, PretrainConfig, FinetuneConfig, DistillConfig)
}
