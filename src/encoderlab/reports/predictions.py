"""Predictions on disk: a split's predictions.csv, and the cells of tables with texts."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from datetime import date, time
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from encoderlab.metrics.comparison import SEPARATOR
from encoderlab.system.files import atomic_write

_PLACE = re.compile(r"(.*?)(?:, )?(?:lines?|row) (\d+)(?: to \d+)?", re.DOTALL)


def texts_of(example: Any) -> tuple[str, ...]:
    """Return the texts of an example: one, two of a pair, or words joined by blanks."""
    if hasattr(example, "words"):
        return (" ".join(example.words),)
    return (example.text,) if example.text_pair is None else (example.text, example.text_pair)


def places(where: Sequence[str]) -> dict[str, list[Any]]:
    """Return the columns that name the places of rows, such as "reviews.csv, line 7": `line`, after `file` if there are
    several.
    """
    matches = [_PLACE.fullmatch(place) for place in where]
    files = [match[1] if match else place for match, place in zip(matches, where, strict=True)]
    lines = [int(match[2]) if match else "" for match in matches]
    return {**({"file": files} if len(set(files)) > 1 else {}), "line": lines}


def write_predictions(
    path: Path,
    texts: Sequence[Sequence[str]],
    labels: Any,
    predicted: Any,
    probabilities: np.ndarray | None,
    label_names: Sequence[str],
    carried: Iterable[Any] | None = None,
    where: Sequence[str] = (),
) -> None:
    """Write a row for each of the `texts` (one, or two of a pair): its place if it is in `where`, text, text_pair if
    any has one, label, predicted, probability_<name> for each class, and the `carried` columns.

    Labels and predictions are class ids or numbers; `labels` is None if no label is known. For tagging, both are one id
    per word, written as names separated by blanks, and there are no probabilities; otherwise those are [texts,
    classes]. The file appears whole or not at all.
    """
    paired = any(len(pair) > 1 for pair in texts)
    ours = places(where) if where else {}
    columns = [*ours, "text", *(["text_pair"] if paired else []), "label", "predicted"]
    columns += [] if probabilities is None else [f"probability_{name}" for name in label_names]
    known = [None] * len(texts) if labels is None else labels
    of_classes = [()] * len(texts) if probabilities is None else probabilities
    others = iter([{}] * len(texts) if carried is None else carried)
    first = next(others, {})
    columns += carried_names(first, columns).values()
    rows = (
        [
            *place,
            *([pair[0], pair[1] if len(pair) > 1 else ""] if paired else pair),
            _named(label, label_names),
            _named(prediction, label_names),
            *(float(f"{probability:.6g}") for probability in row),
            *map(cell, other.values()),
        ]
        for place, pair, label, prediction, row, other in zip(
            zip(*ours.values(), strict=True) if ours else [()] * len(texts),
            texts,
            known,
            predicted,
            of_classes,
            chain([first], others),
            strict=False,
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
