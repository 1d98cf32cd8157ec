"""The settings of `compare`."""

from dataclasses import dataclass
from typing import ClassVar

from encoderlab.config.commands import CommandConfig, Examples
from encoderlab.settings import REQUIRED, setting


@dataclass
class CompareConfig(CommandConfig):
    """Compare runs: settings that differ, scores over seeds, paired differences and their tests."""

    command: ClassVar[str] = "compare"
    example_lines: ClassVar[Examples] = (
        ("outputs/train/sst2/*", "all runs of a task; unfinished ones are named and skipped"),
        ("FOLDER FOLDER reference=FOLDER output=compared", "against a reference; as page, table and plots"),
    )

    runs: list[str] = setting(REQUIRED, "Folders of runs or sweeps, given without a name: outputs/train/sst2/*.")
    reference: str | None = setting(None, "The run that the others are compared with; null: the best one.")
    score: str | None = setting(None, "The score to compare, such as f1_macro; null: the one that reports show first.")
    output: str | None = setting(
        None,
        "Folder for compare.html and compare.json, or one table for a paper: a file that ends in .csv, .md or .tex "
        "(booktabs); null: not written.",
    )
    overwrite: bool = setting(False, "Replace an existing table.")
