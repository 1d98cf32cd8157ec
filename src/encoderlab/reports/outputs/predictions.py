"""predictions.csv: each text of a split with its label, the prediction, and the probability of each class."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.reports.outputs.carried import carried_names, cell
from encoderlab.runs.folders.finished import SEPARATOR
from encoderlab.system.files import atomic_write

if TYPE_CHECKING:
    from encoderlab.data.row_table import RowTable


def write_predictions(
    path: Path,
    texts: Iterable[tuple[str, str | None]],
    labels: Sequence[int | None] | Sequence[Sequence[int]] | Sequence[np.ndarray] | np.ndarray | None,
    predicted: Sequence[int] | Sequence[Sequence[int]] | Sequence[np.ndarray] | np.ndarray,
    probabilities: np.ndarray | None,
    label_names: Sequence[str],
    carried: RowTable | None = None,
) -> None:
    """Write a row for each text: text, text_pair (if any text has one), label, predicted, probability_<name> for each
    class, and the `carried` columns (see `carried.carried_names`).

    Labels and predictions are class ids or numbers. `labels` is None if no label is known. For tagging,
    both are one id per word, written as names separated by spaces, and there are no probabilities; otherwise
    those are [texts, classes]. The file appears whole or not at all.
    """
    texts = list(texts)
    paired = any(pair is not None for _, pair in texts)
    known = [None] * len(texts) if labels is None else labels
    columns = ["text", *(["text_pair"] if paired else []), "label", "predicted"]
    columns += [] if probabilities is None else [f"probability_{name}" for name in label_names]
    numbers = [()] * len(texts) if probabilities is None else probabilities
    others = repeat({}, len(texts)) if carried is None else carried.rows()
    columns += carried_names([] if carried is None else carried.schema.names, columns).values()
    rows = (
        [
            *([text, pair or ""] if paired else [text]),
            _names(label, label_names),
            _names(answer, label_names),
            *(float(f"{probability:.6g}") for probability in row),
            *map(cell, other.values()),
        ]
        for (text, pair), label, answer, row, other in zip(texts, known, predicted, numbers, others, strict=True)
    )
    write_table(path, columns, rows)


def _names(ids: float | Sequence[int] | np.ndarray | None, label_names: Sequence[str]) -> str | float:
    if ids is None:
        return ""
    if isinstance(ids, float | np.floating):
        return float(ids)
    if isinstance(ids, np.ndarray) and ids.dtype == bool:
        return SEPARATOR.join(label_names[place] for place in np.flatnonzero(ids).tolist())
    return label_names[int(ids)] if isinstance(ids, int | np.integer) else " ".join(label_names[i] for i in ids)


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table of figures as the content of a CSV file."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([columns, *rows])
    return file.getvalue()


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str | float]]) -> None:
    """Write a temporary file and rename it to `path`, so a reader never sees half a file. Texts are quoted, numbers are
    not.
    """
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerow(columns)
        # Text is always quoted, because before Python 3.13 the writer does not quote a lone carriage return, which
        # readers refuse.
        csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC).writerows(rows)
