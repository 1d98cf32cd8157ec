"""What a report says, described once: titles, texts, tables and plots, which `screen` prints and `page` writes as HTML.

Also the words and numbers in them: a report shows a score in one way, wherever it appears.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.errors import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGEST_TEXT = 600  # characters of a text on a page
OF_POSITIVE = ("f1", "roc_auc", "average_precision", "threshold")  # the scores about one of two classes


@dataclass(frozen=True, slots=True)
class Heading:
    """A section's title; `level` is HTML's: 1 is the page's title."""

    title: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph, or a line on the screen, perhaps after a `title`. Without words it is left out.

    `tone` is one of good, bad, quiet, bold and headline, or empty.
    """

    words: str
    title: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A cell that shows a share from 0 to 1 as a bar; the screen leaves it out."""

    share: float


Cell = str | Bar


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under the names of their `columns`: texts in the first `n_texts` columns, numbers in the others.

    `marked` is the row of what the report is about.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    n_texts: int = 1
    marked: int | None = None

    def without_bars(self) -> Table:
        """Return the table without columns of bars."""
        kept = [
            place for place in range(len(self.columns)) if not any(isinstance(row[place], Bar) for row in self.rows)
        ]
        rows = [[row[place] for place in kept] for row in self.rows]
        return Table([self.columns[place] for place in kept], rows, self.n_texts, self.marked)


@dataclass(frozen=True, slots=True)
class Items:
    """Lines under a title, which the screen never wraps, so that they can be copied; left out if there are none."""

    title: str
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Code:
    """Text to copy, such as a command line."""

    words: str


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot, which only a page shows, with a sentence that describes it for screen readers."""

    figure: Figure
    description: str


@dataclass(frozen=True, slots=True)
class Matrix:
    """A confusion matrix: true classes as rows, predicted ones as columns."""

    names: Sequence[str]
    counts: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Passage:
    """A text from the data under a `heading`, which is a list of words and their tones.

    Each of `texts` is a list of parts with `text` and `weight`, from -1 (against) to 1 (for); a part may have a `note`
    below it and be `wrong`.
    """

    heading: Sequence[tuple[str, str]]
    texts: Sequence[Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks that a reader opens by a click on the `summary`."""

    summary: str
    blocks: Sequence[Block] = field(default_factory=list)


Block = Heading | Text | Table | Items | Code | Plot | Matrix | Passage | Folded


def notes(words: Iterable[str]) -> list[Text]:
    """Return a line for each note."""
    return [Text(note, "Note") for note in words]


def words_of(name: str) -> str:
    """Return the name of a score in words."""
    words = name.replace("_", " ").replace("roc auc", "ROC AUC").replace("matthews", "Matthews correlation")
    return re.sub(r"^mlm\b", "MLM", words)


def named_score(name: str, scores: Mapping[str, Any]) -> str:
    """Return the name of a score in words, with the positive label of `scores` if it is about that one."""
    label = scores.get("positive_label")
    return f"{words_of(name)} of {printable(label)}" if label is not None and name in OF_POSITIVE else words_of(name)


def score(value: float | None) -> str:
    """Return a score to three decimals."""
    return "-" if value is None else f"{value:.3f}"


def number(value: float | None) -> str:
    """Return a count, or a measured number to one decimal."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def percent(share: float | None) -> str:
    """Return a share of 1 as a percentage."""
    return "-" if share is None else f"{share:.1%}"


def counted(n: int, noun: str) -> str:
    """Return a count with its noun, which is in the plural unless there is one."""
    return f"{n:,} {noun}{'s' * (n != 1)}"


def interval(bounds: Sequence[float] | None) -> str:
    """Return an interval's bounds as words; "" if it is not known."""
    return f"{score(bounds[0])} to {score(bounds[1])}" if bounds else ""


def with_interval(scores: Mapping[str, Any], name: str) -> str:
    """Return a score with its 95% interval, if it has one."""
    bounds = scores.get(f"{name}_ci95")
    return f"{score(scores[name])} (95% interval {interval(bounds)})" if bounds else score(scores[name])


def lead(scores: Mapping[str, Any], name: str) -> str:
    """Return the difference `name` between two scores with its 95% interval, all with their signs."""
    low, high = scores[f"{name}_ci95"]
    return f"{scores[name]:+.3f} ({low:+.3f} to {high:+.3f})"


def speed(throughput: Mapping[str, float | None]) -> str:
    """Return the measured speeds in words, without those that were not measured."""
    forms = {
        "tokens_per_second": "{:,.0f} tokens/s",
        "examples_per_second": "{:,.0f} examples/s",
        "padding_fraction": "{:.1%} padding",
        "train_seconds": "{:,.1f} s of training",
        "evaluation_seconds": "{:,.1f} s of evaluation",
    }
    return ", ".join(form.format(throughput[name]) for name, form in forms.items() if throughput.get(name) is not None)


def checkpoint_words(checkpoint: Mapping[str, Any]) -> str:
    """Return which checkpoint was scored, and why."""
    step = f"step {number(checkpoint['step'])}"
    if checkpoint["chosen_on"] is None:
        return f"{step}, the {checkpoint['chosen_by']}"
    return f"{step}, chosen by {words_of(checkpoint['chosen_by'])} on {checkpoint['chosen_on']}"


def shown(text: str, most: int = LONGEST_TEXT) -> str:
    """Return a text from the data in one line, shortened to `most` characters with a note."""
    if len(text) <= most:
        return one_line(text)
    return f"{one_line(text[:most])}{cut_note(text)}"


def one_line(text: str) -> str:
    """Return the text with its white space as single blanks, and control characters escaped."""
    return printable(re.sub(r"\s+", " ", text))


def cut_note(text: str) -> str:
    """Return the note after a shortened text."""
    return f"… ({len(text):,} characters)"


def json_safe(value: Any) -> Any:
    """Return `value` in JSON's types; numbers that are not finite become null."""
    if isinstance(value, Mapping):
        return {str(key): json_safe(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(inner) for inner in value]
    if isinstance(value, np.ndarray | np.generic):
        return json_safe(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value
