"""The settings of the commands that inspect: data, tokenizers and the installation before a run, finished runs after
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from encoderlab.config.command_settings import CommandConfig
from encoderlab.data.sources.dataset import DatasetConfig
from encoderlab.data.tokenizers.config import TokenizerConfig
from encoderlab.model.config import ModelChoice
from encoderlab.settings import REQUIRED, Names, setting
from encoderlab.tasks.config import TaskConfig


class TableFormat(Enum):
    """How a command's figures are printed: for people, or for programs."""

    table = "table"
    json = "json"


@dataclass
class TokenizerCommandConfig(CommandConfig):
    """Train a tokenizer, see how it splits a text, or compare vocabularies."""

    dataset: DatasetConfig = setting(REQUIRED, "The texts to train on and to compare on.")
    tokenizer: TokenizerConfig = setting(REQUIRED, "The tokenizer.")
    output: str | None = setting(None, "New folder to write the tokenizer to; null: not written.", names=Names.folder)
    text: str | None = setting(None, "A text to tokenize and show.")
    compare: list[str] | None = setting(
        None, "Other tokenizers to compare with: run folders, folders or hub names, such as [a,b]."
    )
    format: TableFormat = setting(TableFormat.table, "How the figures are printed: table, or json for programs.")


@dataclass
class DataConfig(CommandConfig):
    """Inspect a dataset before training on it: rows, classes, lengths, duplicates, odd rows, and how texts are
    tokenized.
    """

    task: TaskConfig = setting(REQUIRED, "What the rows are for.")
    dataset: DatasetConfig = setting(REQUIRED, "Where the rows come from.")
    tokenizer: TokenizerConfig = setting(REQUIRED, "How text becomes ids.")
    model: ModelChoice = setting(REQUIRED, "The encoder that will read them: only its max_length matters here.")
    examples: int = setting(3, "How many rows of each split to show, with their tokens.", least=0)
    format: TableFormat = setting(TableFormat.table, "How the facts are printed: table, or json for programs.")


@dataclass
class BaselineConfig(CommandConfig):
    """Score simple baselines (no encoder): the most frequent label, and a linear model of words."""

    task: TaskConfig = setting(REQUIRED, "What to predict for the rows.")
    dataset: DatasetConfig = setting(REQUIRED, "Where the rows come from.")
    tokenizer: TokenizerConfig | None = setting(
        None, "Set by some tasks, but not used: baselines count words.", brought=True
    )
    split: str | None = setting(
        None, "The split to score; null: test if it has labels, otherwise validation.", names=Names.split
    )
    seed: int = setting(0, "Seed of the bootstrap that the intervals come from.", least=0, most=2**32 - 1)
    words: int = setting(10, "How many of the strongest words to show for each class.", least=0, most=100)
    output: str | None = setting(
        None, "New file to write the figures to, as JSON; null: they are only printed.", names=Names.path
    )
    format: TableFormat = setting(TableFormat.table, "How the figures are printed: table, or json for programs.")


@dataclass
class CheckConfig(CommandConfig):
    """Test this installation on generated rows, in a temporary folder: no network, no files left behind."""

    device: str = setting("auto", "auto (CUDA, then MPS, then CPU), cpu, cuda, cuda:1 or mps.", names=Names.device)
    threads: int | None = setting(
        1, "CPU threads (so small a model needs one); null: one per core that this process may use.", least=1, most=1024
    )


@dataclass
class VerifyConfig(CommandConfig):
    """Verify a run's files: hashes, finite numbers, and whether config, data and weights match."""

    run: str = setting(
        REQUIRED, "A run folder, finished or not, a model folder, or a shipped encoder.", names=Names.encoder
    )


@dataclass
class CompareConfig(CommandConfig):
    """Compare runs: settings that differ, scores over seeds, paired differences and their tests."""

    runs: list[str] = setting(
        REQUIRED, "Run folders, or folders of sweeps, given without a name: outputs/train/sst2/*."
    )
    reference: str | None = setting(
        None, "The run that the others are compared with; null: the best one.", names=Names.folder
    )
    figure: str | None = setting(None, "The score to compare, such as f1_macro; null: the one that reports show first.")
    output: str | None = setting(
        None, "Folder for compare.html, .md, .csv, .json and plots; null: not written.", names=Names.folder
    )
