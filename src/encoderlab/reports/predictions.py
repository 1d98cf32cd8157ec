"""Predictions on disk: a split's predictions.csv, the cells of tables with texts, and the examples that a model's page
shows.
"""

from __future__ import annotations

import csv
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from encoderlab.metrics.comparison import SEPARATOR
from encoderlab.reports import wording
from encoderlab.system.files import atomic_write
from encoderlab.system.records import json_of, record_of

if TYPE_CHECKING:
    import datasets

    from encoderlab.metrics.scores import PredictionScores

N_EXAMPLES = 3
MOST_ROWS_READ = 1000
LONGEST_EXAMPLE = 300  # characters of both texts together
_ROWS_AT_A_TIME = 1000
_PLACE = re.compile(r"(.*?)(?:, )?(?:lines?|row) (\d+)(?: to \d+)?", re.DOTALL)


def texts_of(example: Any) -> tuple[str, ...]:
    """Return the texts of an example: one, two of a pair, or words joined by blanks."""
    if hasattr(example, "words"):
        return (" ".join(example.words),)
    return (example.text,) if example.text_pair is None else (example.text, example.text_pair)


def place_columns(where: Sequence[str]) -> dict[str, list[Any]]:
    """Return the places of rows, such as "reviews.csv, line 7": `file` if there are several, and `line` if any."""
    files: list[str] = []
    lines: list[int | str] = []
    for place in where:
        match = _PLACE.fullmatch(place)
        files.append(match[1] if match else place)
        lines.append(int(match[2]) if match else "")
    columns: dict[str, list[Any]] = {}
    if len(set(files)) > 1:
        columns["file"] = files
    if any(line != "" for line in lines):
        columns["line"] = lines
    return columns


def write_predictions(
    path: Path,
    texts: Sequence[Sequence[str]],
    scores: PredictionScores,
    carried: datasets.Dataset | None = None,
    where: Sequence[str] = (),
) -> None:
    """Write a row for each of the `texts` (one, or two of a pair): its place if it is in `where`, text, text_pair if
    any has one, label, predicted, probability_<name> for each class, the loss if known, and the `carried` columns.

    Labels of words are names separated by blanks, without probabilities. The file appears whole or not at all.
    """
    label_names = getattr(scores, "label_names", [])
    probabilities = getattr(scores, "probabilities", None)
    columns: dict[str, Any] = dict(place_columns(where)) if where else {}
    columns["text"] = [pair[0] for pair in texts]
    if any(len(pair) > 1 for pair in texts):
        columns["text_pair"] = ["".join(pair[1:]) for pair in texts]
    columns |= {"label": (_named(label, label_names) for label in scores.labels)}
    columns |= {"predicted": (_named(label, label_names) for label in scores.predicted)}
    if probabilities is not None:  # generators: lists of all cells would take many times the memory of the array
        for name, chances in zip(label_names, probabilities.T, strict=True):
            columns[f"probability_{name}"] = (float(f"{chance:.6g}") for chance in chances)
    if scores.losses is not None:
        columns["loss"] = ("" if np.isnan(loss) else float(f"{loss:.6g}") for loss in scores.losses)
    if carried is not None:
        for name, free in carried_names(carried.column_names, columns).items():
            columns[free] = _cells(carried, name)
    write_table(path, list(columns), zip(*columns.values(), strict=True))


def _cells(rows: datasets.Dataset, name: str) -> Iterator[str | int | float]:
    """Yield the cells of a column, without holding more than a few: others may be as large as the texts."""
    batches: Any = rows.select_columns([name]).iter(_ROWS_AT_A_TIME)
    for batch in batches:
        yield from map(cell, batch[name])


def _named(ids: Any, names: Sequence[str]) -> str | float:
    """Return a label or prediction as a cell."""
    if isinstance(ids, float | np.floating):
        return float(ids)
    if isinstance(ids, np.ndarray) and ids.dtype == bool:
        return SEPARATOR.join(names[place] for place in np.flatnonzero(ids).tolist())
    return names[int(ids)] if isinstance(ids, int | np.integer) else " ".join(names[int(id_)] for id_ in ids)


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
    used = set(ours)
    output_names = {}
    for name in names:
        free = name
        while free in used:
            free = f"input_{free}"
        used.add(free)
        output_names[name] = free
    return output_names


def cell(value: Any) -> str | int | float:
    """Return a copied value as a table cell; None is an empty one, and lists and records are JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=in_json)
    return "" if value is None else in_json(value)


def in_json(value: Any) -> Any:
    """Return a copied value for JSON: times in ISO 8601, bytes in base64, other objects as they print."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return value.isoformat() if isinstance(value, date | time) else str(value)


@dataclass(frozen=True, slots=True)
class Trial:
    """What the page to try a model shows: its name, and some rows that it was scored on but not trained on.

    Each of the `examples` has a text, text_pair (None of a single text) and label; `split` is theirs.
    """

    title: str
    split: str = ""
    examples: tuple[Mapping[str, str | None], ...] = ()


def trial_of(run: Path, task: str) -> Trial:
    """Return what is known of the run in this folder; of anything else, such as a copied model, the `task`'s name."""
    try:
        report = json_of(record_of(run / "report.json"))
        title = wording.title_of(report)
        split = str(report["scored_split"])
        examples = () if split == "train" else _short_examples(run / "predictions.csv")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, csv.Error):
        return Trial(task)
    return Trial(title, split, examples)


def _short_examples(predictions: Path) -> tuple[Mapping[str, str | None], ...]:
    """Return a few short rows of a predictions.csv, the first one of each label before others."""
    first_of_label: dict[str, Mapping[str, str | None]] = {}
    others = []
    with predictions.open(encoding="utf-8", newline="") as file:
        for row in islice(csv.DictReader(file), MOST_ROWS_READ):
            example = _example(row)
            if example is None:
                continue
            if row["label"] in first_of_label:
                others.append(example)
            else:
                first_of_label[row["label"]] = example
    return tuple([*first_of_label.values(), *others][:N_EXAMPLES])


def _example(row: Mapping[str, Any]) -> Mapping[str, str | None] | None:
    """Return a row as an example; None if it is blank or too long to be shown."""
    text = row["text"]
    text_pair = row.get("text_pair")
    if not text.strip() or len(text) + len(text_pair or "") > LONGEST_EXAMPLE:
        return None
    return {"text": text, "text_pair": text_pair, "label": row["label"]}
