"""The out-of-fold predictions of a cross-validation in one table, with the line of each row, and the rows with labels to check."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.errors import DataError
from encoderlab.metrics.resampling.label_errors import LabelErrors, find_label_errors
from encoderlab.reports.outputs.carried import carried_names
from encoderlab.reports.outputs.predictions import write_table

if TYPE_CHECKING:
    import pandas as pd

    from encoderlab.data.examples import Folded
    from encoderlab.runs.fitting.folds import CrossValidation

_PLACE = re.compile(r"(.*?)(?:, )?(?:lines?|row) (\d+)(?: to \d+)?", re.DOTALL)
_PROBABILITY = "probability_"


def out_of_fold_answers(folds: CrossValidation) -> pd.DataFrame:
    """Return predictions.csv of every fold, as texts, with rows in their original order, and `fold` and `line` as first columns.

    `line` is the row's line in its file, and `file` that file if there are several. Raises DataError if a fold's
    file does not contain its rows.
    """
    import pandas as pd

    parts, places = [], []
    for number, run in enumerate(folds.runs, start=1):
        rows = np.flatnonzero(folds.folded.folds == number)
        part = pd.read_csv(run.predictions, dtype=str, keep_default_na=False)
        if len(part) != len(rows):
            words = f"{run.predictions} does not contain the {len(rows):,} rows of its fold"
            raise DataError(words, remedy="Delete that fold's folder, and resume")
        parts.append(part)
        places.append(rows)
    table = pd.concat(parts, ignore_index=True).iloc[np.argsort(np.concatenate(places))].reset_index(drop=True)
    names = folds.corpus.labels
    numbers = {f"{_PROBABILITY}{name}" for name in names} & set(table) if names else {"label", "predicted"}
    table = table.astype(dict.fromkeys(numbers, float))
    ours = {"fold": folds.folded.folds, **_places(folds.folded)}
    table = table.rename(columns=carried_names(table.columns, ours))
    return pd.concat([pd.DataFrame(ours), table], axis=1)


def _places(folded: Folded) -> dict[str, list[Any]]:
    found = [(_PLACE.fullmatch(where), where) for where in map(folded.rows.where, range(len(folded.rows)))]
    files = [match[1] if match else where for match, where in found]
    lines = [int(match[2]) if match else "" for match, _ in found]
    return {"line": lines} if len(set(files)) == 1 else {"file": files, "line": lines}


def label_errors(table: pd.DataFrame, names: list[str]) -> LabelErrors | None:
    """Return the rows of `out_of_fold_answers` with probably wrong labels; None if rows do not have one label each."""
    if not names or any(f"{_PROBABILITY}{name}" not in table for name in names) or set(table["label"]) - set(names):
        return None
    probabilities = np.stack([table[f"{_PROBABILITY}{name}"].astype(float) for name in names], axis=1)
    if not np.allclose(probabilities.sum(1), 1, atol=1e-3):  # a probability for each label: rows have any number of them
        return None
    ids = {name: place for place, name in enumerate(names)}
    return find_label_errors(np.array([ids[label] for label in table["label"]]), probabilities)


def listed_errors(table: pd.DataFrame, errors: LabelErrors, names: list[str]) -> pd.DataFrame:
    """Return the rows of `errors`, the least plausible label first: their place, text and label, and the probable label.

    They include the probability of both, and the `margin` between them.
    """
    rows = table.iloc[errors.rows]
    shown = [name for name in ("file", "line", "fold", "text", "text_pair", "label") if name in rows]
    likely = [names[place] for place in errors.likely]
    own = [float(rows[f"{_PROBABILITY}{label}"].iloc[place]) for place, label in enumerate(rows["label"])]
    other = [float(rows[f"{_PROBABILITY}{label}"].iloc[place]) for place, label in enumerate(likely)]
    found = rows[shown].assign(predicted=likely, probability=other, probability_of_label=own, margin=errors.margins.round(6))
    return found.reset_index(drop=True)


def write_answers(path: Path, table: pd.DataFrame) -> None:
    """Write a table whose file appears whole or not at all; texts are quoted, numbers are not."""
    write_table(path, list(table.columns), table.astype(object).itertuples(index=False, name=None))
