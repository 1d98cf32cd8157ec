"""The settings of `data`."""

from dataclasses import dataclass
from typing import ClassVar

from encoderlab.config.commands import CommandConfig, Examples, TableFormat
from encoderlab.data.dataset import DatasetConfig
from encoderlab.data.tokenizer_config import TokenizerConfig
from encoderlab.network.config import ModelChoice
from encoderlab.settings import REQUIRED, setting
from encoderlab.tasks.task import TaskConfig


@dataclass
class DataConfig(CommandConfig):
    """Inspect a dataset: rows, classes, lengths, duplicates, odd rows, and how texts are tokenized.

    Or compare new texts with the rows that a run was trained on.
    """

    command: ClassVar[str] = "data"
    example_lines: ClassVar[Examples] = (
        ("task=sst2 model.max_length=64", "a task brings its dataset along"),
        ("reviews.csv", "your own file"),
        ("run=outputs/finetune/... new.csv", "compare new texts with a run's training rows"),
    )

    run: str | None = setting(None, "A run folder: compare the file's texts with that run's training rows.")
    plot: str | None = setting(None, "With run: the .png file in which to plot the comparison; null: no plot.")
    overwrite: bool = setting(False, "Replace an existing plot.")
    task: TaskConfig = setting(REQUIRED, "What the rows are for.")
    dataset: DatasetConfig = setting(REQUIRED, "Where the rows come from.")
    tokenizer: TokenizerConfig = setting(REQUIRED, "How text becomes ids.")
    model: ModelChoice = setting(REQUIRED, "The encoder that will read them: only its max_length matters here.")
    examples: int = setting(3, "How many labelled rows of each split to show, with their tokens.", minimum=0)
    format: TableFormat = setting(TableFormat.table, "How the facts are printed: table, or json for programs.")
