"""Predictions for new texts, written as a table, as JSON lines, as a Parquet file, or in GLUE's submission format."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from encoderlab.batch import TargetKind
from encoderlab.data.grouping import grouped
from encoderlab.reports.outputs.carried import carried_names, cell, in_json
from encoderlab.reports.outputs.glue import GLUE_TASKS, OTHER_TASK
from encoderlab.runs.folders.finished import SEPARATOR
from encoderlab.tasks.task import Answer, as_objects, likeliest

if TYPE_CHECKING:
    import numpy as np
    import pyarrow

CUT = "?"  # written for a word that did not fit into the model
OPEN_WORD = "_"  # written for a word without a label, unless configured otherwise
ROWS_IN_A_GROUP = 16_384  # of a Parquet file, or fewer long ones: this many are in memory at a time
CHARACTERS_IN_A_GROUP = 2**24


@dataclass(frozen=True, slots=True)
class Answered:
    """An input row with its prediction: one for the text, or labels for those of its `n_words` words that were read."""

    text: str
    text_pair: str | None
    answer: Answer
    n_words: int = 1
    carried: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to write for each prediction; `labels` are the classes in the order of their probabilities.

    `top_k` selects the most probable classes instead of all. For a prediction below `min_probability`,
    `unsure` is written, or nothing; for a word below it, OPEN_WORD unless
    `unsure` is set. `carried` are the types of the rows' carried columns; they come last (see `carried.carried_names`).
    `task` is the run's, whose name determines how GLUE's format spells the labels.
    """

    labels: Sequence[str]
    top_k: int | None = None
    min_probability: float | None = None
    unsure: str | None = None
    target: TargetKind = "label"
    carried: pyarrow.Schema | None = None
    task: str = ""

    def predicted(self, row: Answered) -> str | float | list[str] | None:
        """Return the label, the labels of a set, the number, or the words' labels separated by blanks.

        None if no label is given and nothing replaces it.
        """
        answer = row.answer
        if self.target != "label":
            return list(answer.labels) if answer.number is None else answer.number
        if answer.probabilities is not None:
            sure = answer.probabilities[self.labels.index(answer.labels[0])]
            return answer.labels[0] if sure >= (self.min_probability or 0.0) else self.unsure
        labels: Iterable[str] = answer.labels
        if self.min_probability is not None:
            stands_for_open = OPEN_WORD if self.unsure is None else self.unsure
            sure = [confidence >= self.min_probability for confidence in answer.word_confidences or ()]
            labels = [label if is_sure else stands_for_open for label, is_sure in zip(answer.labels, sure, strict=True)]
        return " ".join([*labels, *[CUT] * (row.n_words - len(answer.labels))])

    def top(self, probabilities: Sequence[float] | np.ndarray) -> list[tuple[str, float]]:
        """Return the `top_k` most probable classes, most probable first; ties go to the class that comes first."""
        return likeliest(self.labels, probabilities, self.top_k)

    def top_of_words(self, row: Answered) -> list[list[tuple[str, float]]]:
        """Return the same for each word that was read; nothing without top_k, or if the row has no words."""
        if self.top_k is None or row.answer.word_probabilities is None:
            return []
        return [self.top(of_word) for of_word in row.answer.word_probabilities]


def write_csv(file: TextIO, rows: Iterable[Answered], wanted: Wanted) -> None:
    """Write text, text_pair (for pairs), predicted, and each class's probability in a column, or the names and
    probabilities of the top_k (for words, separated by blanks); each row as soon as it is known.
    """
    # Text is always quoted, because before Python 3.13 the writer does not quote a lone carriage return, which readers
    # refuse.
    writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    number = None
    for number, row in enumerate(rows):
        pair = [] if row.text_pair is None else [row.text_pair]
        if number == 0:
            chances = _columns(wanted) if row.answer.probabilities is not None or wanted.top_k is not None else []
            header = ["text", *(["text_pair"] if pair else []), "predicted", *chances]
            csv.writer(file, lineterminator="\n").writerow([*header, *carried_names(row.carried, header).values()])
        writer.writerow(
            [row.text, *pair, _cell(wanted.predicted(row)), *_cells(row, wanted), *map(cell, row.carried.values())]
        )
    if number is None:  # a table without rows still has a header
        csv.writer(file, lineterminator="\n").writerow(["text", "predicted"])


def _cell(predicted: str | float | list[str] | None) -> str | float:
    """Return the table cell of a prediction."""
    if isinstance(predicted, list):
        return SEPARATOR.join(predicted)
    return "" if predicted is None else predicted


def _columns(wanted: Wanted) -> list[str]:
    """Return the names of the columns of probabilities."""
    if wanted.top_k is None:
        return [f"probability_{name}" for name in wanted.labels]
    return [name for place in range(1, wanted.top_k + 1) for name in (f"top_{place}", f"top_{place}_probability")]


def _cells(row: Answered, wanted: Wanted) -> Iterator[str | float]:
    """Yield the cells of those columns."""
    if row.answer.probabilities is None:
        yield from _cells_of_words(row, wanted)
        return
    if wanted.top_k is None:
        yield from (float(f"{chance:.6g}") for chance in row.answer.probabilities)
        return
    for name, chance in wanted.top(row.answer.probabilities):
        yield from (name, float(f"{chance:.6g}"))


def _cells_of_words(row: Answered, wanted: Wanted) -> Iterator[str]:
    """Yield the names and the probabilities of the top_k, word by word."""
    top, cut = wanted.top_of_words(row), [CUT] * (row.n_words - len(row.answer.labels))
    for place in range(wanted.top_k or 0):
        yield " ".join([*(of_word[place][0] for of_word in top), *cut])
        yield " ".join([*(f"{of_word[place][1]:.6g}" for of_word in top), *cut])


def write_jsonl(file: TextIO, rows: Iterable[Answered], wanted: Wanted) -> None:
    """Write one object per line; see `_fields`."""
    for row in rows:
        line = _fields(row, wanted)
        line |= {name: in_json(row.carried[key]) for key, name in carried_names(row.carried, line).items()}
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _fields(row: Answered, wanted: Wanted) -> dict[str, Any]:
    """Return text, text_pair (for pairs), predicted (null without a label), and the probabilities by class, or a list
    of the top_k; for words, the probability of each one's label and, if requested, a list of the top_k of each.
    """
    line: dict[str, Any] = {"text": row.text} | ({} if row.text_pair is None else {"text_pair": row.text_pair})
    line["predicted"] = wanted.predicted(row)
    answer = row.answer
    if answer.word_confidences is not None:
        line["word_probabilities"] = [round(chance, 6) for chance in answer.word_confidences]
    if answer.probabilities is None:
        return line | (
            {} if wanted.top_k is None else {"top": [as_objects(of_word) for of_word in wanted.top_of_words(row)]}
        )
    if wanted.top_k is None:
        line["probabilities"] = {
            name: round(chance, 6) for name, chance in zip(wanted.labels, answer.probabilities, strict=True)
        }
    else:
        line["top"] = as_objects(wanted.top(answer.probabilities))
    return line


def write_glue(file: TextIO, rows: Iterable[Answered], wanted: Wanted) -> None:
    """Write the format of GLUE's server (gluebenchmark.com, FAQ): tab-separated index and prediction, counted from 0.

    Labels are ids or names, as the server expects for the task.
    """
    task, labels = GLUE_TASKS.get(wanted.task, OTHER_TASK), list(wanted.labels)
    file.write("index\tprediction\n")
    for number, row in enumerate(rows):
        answer = row.answer.labels[0] if row.answer.number is None else row.answer.number
        file.write(f"{number}\t{task.spelling(answer, labels)}\n")


def write_parquet(file: BinaryIO, rows: Iterable[Answered], wanted: Wanted) -> None:
    """Write the columns of the table, with lists for the top_k or for words, one group of rows at a time.

    Without rows, it has the columns text and predicted.
    """
    import pyarrow
    import pyarrow.parquet

    groups = grouped(rows, lambda row: len(row.text) + len(row.text_pair or ""), CHARACTERS_IN_A_GROUP, ROWS_IN_A_GROUP)
    first = next(groups, [])
    schema = _schema(first[0] if first else None, wanted)
    with pyarrow.parquet.ParquetWriter(file, schema) as writer:
        for group in chain([first], groups):
            lines = [_flat(row, wanted) for row in group]
            writer.write_table(pyarrow.Table.from_pylist(lines, schema=schema))


def _schema(row: Answered | None, wanted: Wanted) -> pyarrow.Schema:
    """Return the columns of a Parquet file with rows like `row`."""
    import pyarrow

    text, chance = pyarrow.string(), pyarrow.float64()
    answer = {"label": text, "label_set": pyarrow.list_(text), "number": chance}[wanted.target]
    columns = (
        {"text": text} | ({"text_pair": text} if row and row.text_pair is not None else {}) | {"predicted": answer}
    )
    if row and row.answer.word_confidences is not None:
        columns["word_probabilities"] = pyarrow.list_(chance)
    if row and wanted.top_k is not None:
        top = pyarrow.list_(pyarrow.struct({"label": text, "probability": chance}))
        columns["top"] = top if row.answer.probabilities is not None else pyarrow.list_(top)
    elif row and row.answer.probabilities is not None:
        columns |= {f"probability_{name}": chance for name in wanted.labels}
    if row and wanted.carried is not None:
        names = carried_names(wanted.carried.names, columns)
        columns |= {name: wanted.carried.field(key).type for key, name in names.items()}
    return pyarrow.schema(columns)


def _flat(row: Answered, wanted: Wanted) -> dict[str, Any]:
    """Return the result of `_fields` with a column for each class's probability."""
    fields = _fields(row, wanted)
    fields |= {f"probability_{name}": chance for name, chance in fields.pop("probabilities", {}).items()}
    return fields | {name: row.carried[key] for key, name in carried_names(row.carried, fields).items()}


TEXT_FORMATS: dict[str, Callable[[TextIO, Iterable[Answered], Wanted], None]] = {
    "csv": write_csv,
    "jsonl": write_jsonl,
    "glue": write_glue,
}
