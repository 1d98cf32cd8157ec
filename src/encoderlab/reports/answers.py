"""The answers for new texts, written as a table, as JSON lines, or in GLUE's submission form."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TextIO

CUT = "?"  # stands for the answer to a word that did not fit into the model


@dataclass(frozen=True, slots=True)
class Answered:
    """A row of the input with its answer: one label and a probability for each class, or a label for each of its `asked` words."""

    text: str
    text_pair: str | None
    labels: tuple[str, ...]
    probabilities: tuple[float, ...] | None
    asked: int

    @property
    def predicted(self) -> str:
        """The label, or the words' labels with blanks between them."""
        return " ".join([*self.labels, *[CUT] * (self.asked - len(self.labels))])


def write_csv(file: TextIO, rows: Iterable[Answered], label_names: list[str]) -> None:
    """text, text_pair (for pairs), predicted, and a column of probabilities for each class; each row as soon as it is known."""
    # Text is always quoted: before Python 3.13 the writer leaves a lone carriage return bare, and readers refuse that.
    writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    for number, row in enumerate(rows):
        pair = [] if row.text_pair is None else [row.text_pair]
        if number == 0:
            chances = [] if row.probabilities is None else [f"probability_{name}" for name in label_names]
            csv.writer(file, lineterminator="\n").writerow(["text", *(["text_pair"] if pair else []), "predicted", *chances])
        writer.writerow([row.text, *pair, row.predicted, *(float(f"{chance:.6g}") for chance in row.probabilities or ())])


def write_jsonl(file: TextIO, rows: Iterable[Answered], label_names: list[str]) -> None:
    """An object a line, with the probabilities by class."""
    for row in rows:
        line = {"text": row.text} | ({} if row.text_pair is None else {"text_pair": row.text_pair}) | {"predicted": row.predicted}
        if row.probabilities is not None:
            line["probabilities"] = {name: round(chance, 6) for name, chance in zip(label_names, row.probabilities, strict=True)}
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


def write_glue(file: TextIO, rows: Iterable[Answered], label_names: list[str]) -> None:
    """The form GLUE's server takes (gluebenchmark.com, FAQ): tab-separated index and prediction, counted from 0, labels as ids."""
    file.write("index\tprediction\n")
    for number, row in enumerate(rows):
        file.write(f"{number}\t{label_names.index(row.predicted)}\n")


ANSWER_FORMATS: dict[str, Callable[[TextIO, Iterable[Answered], list[str]], None]] = {
    "csv": write_csv,
    "jsonl": write_jsonl,
    "glue": write_glue,
}
