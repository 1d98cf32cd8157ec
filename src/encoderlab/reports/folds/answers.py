"""The out-of-fold predictions of a cross-validation: in one table, with the line of each row, and for the words of
sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.config.commands import OpenRunConfig
from encoderlab.errors import DataError
from encoderlab.reports.outputs.carried import carried_names
from encoderlab.reports.outputs.predictions import write_table
from encoderlab.runs.assembly import reopen
from encoderlab.runs.inference.predict import answers_of
from encoderlab.system.signals import stop_if_interrupted

if TYPE_CHECKING:
    import pandas as pd

    from encoderlab.data.examples import Folded
    from encoderlab.runs.folds import CrossValidation

_PLACE = re.compile(r"(.*?)(?:, )?(?:lines?|row) (\d+)(?: to \d+)?", re.DOTALL)
PROBABILITY = "probability_"  # before a label's name, in the name of a column


def out_of_fold_answers(folds: CrossValidation) -> pd.DataFrame:
    """Return predictions.csv of every fold, as texts, with rows in their original order, and `fold` and `line` as first
    columns.

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
    numbers = {f"{PROBABILITY}{name}" for name in names} & set(table) if names else {"label", "predicted"}
    table = table.astype(dict.fromkeys(numbers, float))
    ours = {"fold": folds.folded.folds, **_places(folds.folded)}
    table = table.rename(columns=carried_names(table.columns, ours))
    return pd.concat([pd.DataFrame(ours), table], axis=1)


def _places(folded: Folded) -> dict[str, list[Any]]:
    found = [(_PLACE.fullmatch(where), where) for where in map(folded.rows.where, range(len(folded.rows)))]
    files = [match[1] if match else where for match, where in found]
    lines = [int(match[2]) if match else "" for match, _ in found]
    return {"line": lines} if len(set(files)) == 1 else {"file": files, "line": lines}


def word_probabilities(folds: CrossValidation) -> Iterator[np.ndarray]:
    """Yield the out-of-fold probabilities of each row's words, [words, labels], in the rows' order; truncated words
    have none.

    Runs do not record them: each fold's model is opened, and predicts its rows again. Raises DataError if a model is
    damaged.
    """
    config, training = folds.config, folds.config.training
    chosen = {"device": training.device, "precision": training.precision, "threads": training.threads}
    found: dict[int, np.ndarray] = {}
    for number, run in enumerate(folds.runs, start=1):
        stop_if_interrupted()
        assembly = reopen(OpenRunConfig(cache_dir=config.cache_dir, run=str(run.root), **chosen))
        assert assembly.task.labels == folds.corpus.labels
        rows = np.flatnonzero(folds.folded.folds == number).tolist()
        for row, answer in zip(rows, answers_of(assembly, list(folds.folded.rows.take(rows))), strict=True):
            assert answer.word_probabilities is not None
            found[row] = answer.word_probabilities
    yield from (found[row] for row in range(len(folds.folded.rows)))


def write_answers(path: Path, table: pd.DataFrame) -> None:
    """Write a table whose file appears whole or not at all; texts are quoted, numbers are not."""
    write_table(path, list(table.columns), table.astype(object).itertuples(index=False, name=None))
