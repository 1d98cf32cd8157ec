"""predictions.csv: each text of a split with its label, the model's answer, and how sure it was of each class."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from encoderlab.runs.folders.finished import SEPARATOR
from encoderlab.system.atomic_files import atomic_write


def write_predictions(
    path: Path,
    texts: Iterable[tuple[str, str | None]],
    labels: Sequence[int | None] | Sequence[Sequence[int]] | Sequence[np.ndarray] | np.ndarray | None,
    predicted: Sequence[int] | Sequence[Sequence[int]] | Sequence[np.ndarray] | np.ndarray,
    probabilities: np.ndarray | None,
    label_names: Sequence[str],
) -> None:
    """Write a row for each text: text, text_pair (where any text has one), label, predicted, probability_<name> for each class.

    Labels and answers are class ids, or numbers, which are written as such. `labels` is None where no answer is known. For tagging,
    a label and an answer are one id per word, written as names with spaces between them, and there are no probabilities; otherwise
    those are [texts, classes]. The file appears whole or not at all.
    """
    texts = list(texts)
    paired = any(pair is not None for _, pair in texts)
    known = [None] * len(texts) if labels is None else labels
    columns = ["text", *(["text_pair"] if paired else []), "label", "predicted"]
    columns += [] if probabilities is None else [f"probability_{name}" for name in label_names]
    numbers = [()] * len(texts) if probabilities is None else probabilities
    rows = (
        [
            *([text, pair or ""] if paired else [text]),
            _names(label, label_names),
            _names(answer, label_names),
            *(float(f"{probability:.6g}") for probability in row),
        ]
        for (text, pair), label, answer, row in zip(texts, known, predicted, numbers, strict=True)
    )
    _write_whole(path, columns, rows)


def _names(ids: float | Sequence[int] | np.ndarray | None, label_names: Sequence[str]) -> str | float:
    if ids is None:
        return ""
    if isinstance(ids, float | np.floating):
        return float(ids)
    if isinstance(ids, np.ndarray) and ids.dtype == bool:
        return SEPARATOR.join(label_names[place] for place in np.flatnonzero(ids).tolist())
    return label_names[int(ids)] if isinstance(ids, int | np.integer) else " ".join(label_names[i] for i in ids)


def _write_whole(path: Path, columns: list[str], rows: Iterator[list[str | float]]) -> None:
    """Write beside `path`, then rename: a reader never meets half a file."""
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerow(columns)
        # Text is always quoted: before Python 3.13 the writer leaves a lone carriage return bare, and readers refuse that.
        csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC).writerows(rows)
