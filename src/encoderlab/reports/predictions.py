"""Predictions and vectors on disk: a split's predictions.csv, predictions for new texts, and arrays with
their index.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, time
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

import numpy as np
from numpy.lib import format as npy

from encoderlab.batch import TargetKind
from encoderlab.errors import DataError, SettingError
from encoderlab.metrics.comparison import SEPARATOR
from encoderlab.system.files import atomic_write

if TYPE_CHECKING:
    import pyarrow

UNREAD_WORD = "?"  # written for a word that did not fit into the model
OPEN_WORD = "_"  # written for a word without a label, unless configured otherwise
ROWS_IN_A_GROUP = 4096  # of a Parquet file: this many are in memory at a time
SUFFIX, INDEX_SUFFIX = ".npy", ".index.jsonl"


def texts_of(example: Any) -> tuple[str, ...]:
    """Return the texts of an example: one, two of a pair, or words joined by blanks."""
    if hasattr(example, "words"):
        return (" ".join(example.words),)
    return (example.text,) if example.text_pair is None else (example.text, example.text_pair)


def write_predictions(
    path: Path,
    texts: Sequence[Sequence[str]],
    labels: Any,
    predicted: Any,
    probabilities: np.ndarray | None,
    label_names: Sequence[str],
    carried: Iterable[Any] | None = None,
) -> None:
    """Write a row for each of the `texts` (one, or two of a pair): text, text_pair if any has one, label, predicted,
    probability_<name> for each class, and the `carried` columns.

    Labels and predictions are class ids or numbers; `labels` is None if no label is known. For tagging, both are one id
    per word, written as names separated by blanks, and there are no probabilities; otherwise those are [texts,
    classes]. The file appears whole or not at all.
    """
    paired = any(len(pair) > 1 for pair in texts)
    columns = ["text", *(["text_pair"] if paired else []), "label", "predicted"]
    columns += [] if probabilities is None else [f"probability_{name}" for name in label_names]
    known = [None] * len(texts) if labels is None else labels
    of_classes = [()] * len(texts) if probabilities is None else probabilities
    others = iter([{}] * len(texts) if carried is None else carried)
    first = next(others, {})
    columns += carried_names(first, columns).values()
    rows = (
        [
            *([pair[0], pair[1] if len(pair) > 1 else ""] if paired else pair),
            _named(label, label_names),
            _named(prediction, label_names),
            *(float(f"{probability:.6g}") for probability in row),
            *map(cell, other.values()),
        ]
        for pair, label, prediction, row, other in zip(
            texts, known, predicted, of_classes, chain([first], others), strict=False
        )
    )
    write_table(path, columns, rows)


def _named(ids: Any, names: Sequence[str]) -> str | float:
    """Return a label or prediction as a cell."""
    if ids is None:
        return ""
    if isinstance(ids, float | np.floating):
        return float(ids)
    if isinstance(ids, np.ndarray) and ids.dtype == bool:
        return SEPARATOR.join(names[place] for place in np.flatnonzero(ids).tolist())
    return names[int(ids)] if isinstance(ids, int | np.integer) else " ".join(names[int(id_)] for id_ in ids)


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table of numbers as the content of a CSV file."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([columns, *rows])
    return file.getvalue()


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file whole or not at all. Texts are quoted, numbers are not."""
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerow(columns)
        quoting_writer(file).writerows(rows)


def quoting_writer(file: TextIO) -> Any:
    """Return a CSV writer that quotes every text.

    Before Python 3.13 the writer does not quote a lone carriage return on its own, and readers refuse that.
    """
    return csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)


def carried_names(names: Iterable[str], ours: Iterable[str]) -> dict[str, str]:
    """Return the output name of each copied column: its own, or prefixed with input_ if it is among `ours`."""
    used, output_names = set(ours), {}
    for name in names:
        free = name
        while free in used:
            free = f"input_{free}"
        used.add(free)
        output_names[name] = free
    return output_names


def cell(value: Any) -> str | int | float:
    """Return a copied value as a table cell; None is an empty one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else in_json(value)


def in_json(value: Any) -> Any:
    """Return a copied value for JSON: times in ISO 8601, other objects as they print."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.isoformat() if isinstance(value, date | time) else str(value)


@dataclass(frozen=True, slots=True)
class Answered:
    """An input row with its prediction: one for the text, or labels for those of its `n_words` words that were read.

    `answer` is a `tasks.task.Answer`, which this package may not import.
    """

    text: str
    text_pair: str | None
    answer: Any
    n_words: int = 1
    carried: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to write for each prediction; `labels` are the classes in the order of their probabilities.

    `top_k` selects the most probable classes instead of all. For a prediction below `min_probability`, `unsure` is
    written, or nothing; for a word below it, OPEN_WORD unless `unsure` is set. `carried` are the types of the rows'
    copied columns, which come last.
    """

    labels: Sequence[str]
    top_k: int | None = None
    min_probability: float | None = None
    unsure: str | None = None
    target: TargetKind = "label"
    carried: pyarrow.Schema | None = None

    def predicted(self, row: Answered) -> str | float | list[str] | None:
        """Return the label, the labels of a set, the number, or the words' labels separated by blanks.

        None if no label is certain enough and nothing replaces it.
        """
        answer = row.answer
        if self.target != "label":
            return list(answer.labels) if answer.number is None else answer.number
        if answer.probabilities is not None:
            sure = answer.probabilities[self.labels.index(answer.labels[0])]
            return answer.labels[0] if sure >= (self.min_probability or 0.0) else self.unsure
        labels: Iterable[str] = answer.labels
        if self.min_probability is not None:
            open_word = OPEN_WORD if self.unsure is None else self.unsure
            sure = [confidence >= self.min_probability for confidence in answer.word_confidences or ()]
            labels = [label if is_sure else open_word for label, is_sure in zip(answer.labels, sure, strict=True)]
        return " ".join([*labels, *[UNREAD_WORD] * (row.n_words - len(answer.labels))])

    def top(self, probabilities: Sequence[float] | np.ndarray) -> list[tuple[str, float]]:
        """Return the `top_k` most probable classes, most probable first; ties go to the class that comes first."""
        order = sorted(range(len(self.labels)), key=lambda label: -probabilities[label])
        return [(self.labels[label], float(probabilities[label])) for label in order[: self.top_k]]

    def top_of_words(self, row: Answered) -> list[list[tuple[str, float]]]:
        """Return the same for each word that was read; nothing without top_k, or if the row has no words."""
        if self.top_k is None or row.answer.word_probabilities is None:
            return []
        return [self.top(of_word) for of_word in row.answer.word_probabilities]


def write_csv(file: TextIO, rows: Iterable[Answered], wanted: Wanted) -> None:
    """Write text, text_pair (for pairs), predicted, and each class's probability in a column, or the names and
    probabilities of the top_k (for words, separated by blanks); each row as soon as it is known.
    """
    writer = quoting_writer(file)
    columns: list[str] | None = None
    for row in rows:
        cells: dict[str, Any] = {"text": row.text} | ({} if row.text_pair is None else {"text_pair": row.text_pair})
        predicted = wanted.predicted(row)
        cells["predicted"] = SEPARATOR.join(predicted) if isinstance(predicted, list) else cell(predicted)
        cells |= _probability_cells(row, wanted)
        cells |= {name: cell(row.carried[key]) for key, name in carried_names(row.carried, cells).items()}
        if columns is None:
            columns = list(cells)
            csv.writer(file, lineterminator="\n").writerow(columns)
        writer.writerow(list(cells.values()))
    if columns is None:  # a table without rows still has a header
        csv.writer(file, lineterminator="\n").writerow(["text", "predicted"])


def _probability_cells(row: Answered, wanted: Wanted) -> dict[str, str | float]:
    """Return the cells of probabilities by column."""
    probabilities = row.answer.probabilities
    if wanted.top_k is None:
        each = zip(wanted.labels, probabilities or (), strict=False)
        return {f"probability_{name}": float(f"{probability:.6g}") for name, probability in each}
    if probabilities is not None:
        top = [(name, float(f"{probability:.6g}")) for name, probability in wanted.top(probabilities)]
    else:
        words, unread = wanted.top_of_words(row), [UNREAD_WORD] * (row.n_words - len(row.answer.labels))
        top = [
            tuple(" ".join([*(form.format(*word[place]) for word in words), *unread]) for form in ("{0}", "{1:.6g}"))
            for place in range(wanted.top_k)
        ]
    cells = {}
    for place, (name, probability) in enumerate(top, start=1):
        cells |= {f"top_{place}": name, f"top_{place}_probability": probability}
    return cells


def write_jsonl(file: TextIO, rows: Iterable[Answered], wanted: Wanted) -> None:
    """Write one object per line: text, text_pair (for pairs), predicted (null without a label), and `probabilities` by
    class or `top`, the top_k; for words, the probability of each one's label and, with top_k, the `top` of each.
    """
    for row in rows:
        line = _fields(row, wanted)
        line |= {name: in_json(row.carried[key]) for key, name in carried_names(row.carried, line).items()}
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _fields(row: Answered, wanted: Wanted) -> dict[str, Any]:
    line: dict[str, Any] = {"text": row.text} | ({} if row.text_pair is None else {"text_pair": row.text_pair})
    line["predicted"] = wanted.predicted(row)
    answer = row.answer
    if answer.word_confidences is not None:
        line["word_probabilities"] = [round(probability, 6) for probability in answer.word_confidences]
    if answer.probabilities is None:
        return line | ({} if wanted.top_k is None else {"top": list(map(_objects, wanted.top_of_words(row)))})
    if wanted.top_k is not None:
        return line | {"top": _objects(wanted.top(answer.probabilities))}
    each = zip(wanted.labels, answer.probabilities, strict=True)
    return line | {"probabilities": {name: round(probability, 6) for name, probability in each}}


def _objects(top: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
    return [{"label": name, "probability": round(probability, 6)} for name, probability in top]


def write_parquet(file: BinaryIO, rows: Iterable[Answered], wanted: Wanted) -> None:
    """Write the columns of the table, with lists for the top_k or for words, one group of rows at a time.

    Without rows, it has the columns text and predicted.
    """
    import pyarrow
    import pyarrow.parquet

    rows = iter(rows)
    group = list(islice(rows, ROWS_IN_A_GROUP))
    schema = _schema(group[0] if group else None, wanted)
    with pyarrow.parquet.ParquetWriter(file, schema) as writer:
        while group:
            lines = [_flat(row, wanted) for row in group]
            writer.write_table(pyarrow.Table.from_pylist(lines, schema=schema))
            group = list(islice(rows, ROWS_IN_A_GROUP))


def _schema(row: Answered | None, wanted: Wanted) -> pyarrow.Schema:
    """Return the columns of a Parquet file with rows like `row`."""
    import pyarrow

    text, real = pyarrow.string(), pyarrow.float64()
    columns = {
        "text": text,
        "predicted": {"label": text, "label_set": pyarrow.list_(text), "number": real}[wanted.target],
    }
    if row is None:
        return pyarrow.schema(columns)
    if row.text_pair is not None:
        columns = {"text": text, "text_pair": text, "predicted": columns["predicted"]}
    if row.answer.word_confidences is not None:
        columns["word_probabilities"] = pyarrow.list_(real)
    if wanted.top_k is not None:
        top = pyarrow.list_(pyarrow.struct({"label": text, "probability": real}))
        columns["top"] = top if row.answer.probabilities is not None else pyarrow.list_(top)
    elif row.answer.probabilities is not None:
        columns |= {f"probability_{name}": real for name in wanted.labels}
    if wanted.carried is not None:
        names = carried_names(wanted.carried.names, columns)
        columns |= {name: wanted.carried.field(key).type for key, name in names.items()}
    return pyarrow.schema(columns)


def _flat(row: Answered, wanted: Wanted) -> dict[str, Any]:
    """Return the fields of a row with a column for each class's probability."""
    fields = _fields(row, wanted)
    fields |= {f"probability_{name}": value for name, value in fields.pop("probabilities", {}).items()}
    return fields | {name: row.carried[key] for key, name in carried_names(row.carried, fields).items()}


TEXT_FORMATS: dict[str, Callable[[TextIO, Iterable[Answered], Wanted], None]] = {"csv": write_csv, "jsonl": write_jsonl}


def index_of(output: Path) -> Path:
    """Return the path of the index of the array at `output`, next to it."""
    return output.with_suffix(INDEX_SUFFIX)


def check_output(output: str) -> None:
    """Raise SettingError for a name that does not end in .npy, or if an array or its index exists."""
    path = Path(output)
    if path.suffix != SUFFIX:
        wrong = f"output={output} does not end in {SUFFIX}" if output else "output is empty"
        raise SettingError(wrong, allowed=f"a file that ends in {SUFFIX}", remedy="Set output=vectors.npy")
    there = next((file for file in (path, index_of(path)) if file.exists()), None)
    if there is not None:
        raise SettingError(f"output={output}: {there} already exists", remedy="Choose another name")


class VectorFile:
    """Writes vectors of `width` numbers in any order, each at its place, so that only a batch is in memory."""

    def __init__(self, array: BinaryIO, index: TextIO, width: int) -> None:
        self._array, self._index, self._width = array, index, width
        self.n_rows = self.n_vectors = 0
        self._write_header()
        self._start = array.tell()

    def reserve(self, lines: Sequence[Mapping[str, Any]], counts: Sequence[int] | None = None) -> list[int]:
        """Reserve space for rows of `counts` vectors each (None: one each), and write their lines to the index, in this
        order.

        Return the place of each row's first vector. With `counts`, the row's line has it as `start`.
        """
        places = []
        for line, count in zip(lines, counts or [1] * len(lines), strict=True):
            numbers = {"row": self.n_rows} | ({} if counts is None else {"start": self.n_vectors})
            self._index.write(json.dumps(numbers | dict(line), ensure_ascii=False) + "\n")
            places.append(self.n_vectors)
            self.n_rows += 1
            self.n_vectors += count
        return places

    def put(self, place: int, vectors: np.ndarray) -> None:
        """Write [vectors, width] from `place`, as float32."""
        assert vectors.shape[1:] == (self._width,) and place + len(vectors) <= self.n_vectors
        self._array.seek(self._start + 4 * self._width * place)
        self._array.write(np.ascontiguousarray(vectors, dtype="<f4").data)

    def finish(self) -> None:
        """Write the number of vectors to the array's header, where NumPy leaves room for it."""
        self._array.seek(0)
        self._write_header()
        assert self._array.tell() == self._start

    def _write_header(self) -> None:
        header = {"descr": "<f4", "fortran_order": False, "shape": (self.n_vectors, self._width)}
        npy.write_array_header_1_0(self._array, header)


@contextmanager
def vector_file(output: Path, width: int) -> Iterator[VectorFile]:
    """Open a new array at `output` with its index next to it: both appear at the end or, on an error, neither.

    Raises DataError if they cannot be written.
    """
    with atomic_write(output) as array_temporary, atomic_write(index_of(output)) as index_temporary:
        try:
            with (
                array_temporary.open("wb") as array,
                index_temporary.open("w", encoding="utf-8", newline="\n") as index,
            ):
                file = VectorFile(array, index, width)
                yield file
                file.finish()
        except OSError as error:
            raise DataError(
                f"output={output} cannot be written: {error.strerror}", remedy="Choose another folder"
            ) from None
