"""The settings of `select` and `label`."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from encoderlab.config.commands import Examples, InputConfig, OutputConfig
from encoderlab.settings import REQUIRED, setting
from encoderlab.shipped import SHIPPED

# The same, or what annotation tools import.
SelectFormat = Enum("SelectFormat", ["csv", "jsonl", "parquet", "xlsx", "label_studio", "doccano"])
RowsWritten = Enum("RowsWritten", ["selected", "all"])  # of the file that texts are chosen from


@dataclass
class PoolConfig(InputConfig):
    """The settings of commands that choose from a file of texts which ones to label."""

    run: str = setting(
        SHIPPED,
        "The model: a run, whose probabilities say where it is unsure, or an encoder, whose vectors a linear model "
        "reads.",
    )
    input: str | None = setting(REQUIRED, "File of texts (csv, xlsx, jsonl, ...) or its URL; some may have a label.")
    label_column: str | None = setting(
        None, "Column of `input` for the labels, empty where there is none yet; null: as trained, or label."
    )
    # A name, a pattern or a list; OmegaConf has no such union.
    labelled: Any = setting(
        None,
        "Files with the labels of earlier rounds for texts of `input`: a name, a pattern or a list.",
    )
    random_share: float = setting(
        0.25,
        "Share of the chosen texts that is drawn at random once there are labels; these show how accurate a model is.",
        minimum=0,
        maximum=1,
    )
    seed: int = setting(0, "Seed of the draws.", minimum=0, maximum=2**32 - 1)


@dataclass
class SelectConfig(PoolConfig, OutputConfig):
    """Choose which texts to label next: typical ones without labels, then those that a model is unsure of."""

    command: ClassVar[str] = "select"
    example_lines: ClassVar[Examples] = (
        ("texts.csv n=50 output=to_label.csv", "nothing is labelled yet: typical texts, far from each other"),
        ("pool.csv n=50 output=next.csv", "some rows have a label: texts that a linear model is unsure of, spread out"),
        ("pool.csv run=outputs/finetune/... n=50", "texts that a run of yours is unsure of"),
    )

    n: int = setting(50, "How many texts to choose.", minimum=1)
    format: SelectFormat | None = setting(
        None,
        "csv, jsonl, parquet or xlsx; null: by output's extension, else csv; or what a tool imports: label_studio "
        "(.json), doccano (.jsonl).",
    )
    rows: RowsWritten = setting(
        RowsWritten.selected, "selected: write the chosen rows; all: every row, with the chosen ones marked."
    )


@dataclass
class LabelConfig(PoolConfig):
    """Label texts in the browser, the most useful ones first; every answer is on disk before the next text appears."""

    command: ClassVar[str] = "label"
    example_lines: ClassVar[Examples] = (
        (
            "texts.csv labels=[billing,delivery,other]",
            "a page at http://127.0.0.1:8000/; new labels can be typed there",
        ),
        ("pool.csv guess=false", "with the labels that some rows have, without guesses of a model"),
    )

    run: str = setting(SHIPPED, "The encoder, whose vectors a linear model reads: a run folder, or a shipped encoder.")
    labels: list[str] = setting(
        [], "The labels to choose from, such as [billing,delivery,other]; those in the file, and typed ones, are added."
    )
    several: bool = setting(
        False,
        "A text may have several labels or none, for task=multilabel: keys switch labels on and off, enter saves. The "
        "output then has only labelled rows: an empty cell says that no label applies.",
    )
    output: str | None = setting(
        None,
        "File to write: every row with its label, and a journal beside it; null: texts-labelled.csv beside texts.csv.",
    )
    n: int = setting(
        8, "Answers after which the linear model is fitted again; it then chooses as many texts.", minimum=1
    )
    guess: bool = setting(True, "Show what the linear model guesses, faintly; never for texts drawn at random.")
    port: int = setting(8000, "Port of the page; 0: any free port.", minimum=0, maximum=65535)
