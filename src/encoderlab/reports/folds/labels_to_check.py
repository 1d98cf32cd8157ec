"""The labels of a cross-validation's rows that are probably wrong, ranked, in a table for every kind of label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.metrics.label_errors import (
    LabelErrors,
    find_label_errors,
    find_label_set_errors,
    find_number_errors,
)
from encoderlab.reports.folds.answers import PROBABILITY
from encoderlab.runs.folders.finished import SEPARATOR

if TYPE_CHECKING:
    import pandas as pd

    from encoderlab.data.examples import Split

_CONFIDENT = "a model that has not seen the {unit} is as confident in {other} as it usually is when that is right"


@dataclass(frozen=True, slots=True)
class LabelsToCheck:
    """Labels that are probably wrong, the least plausible first, among `of` judged ones.

    A row of `table` has its place (`file` if there are several, `line`, `fold`; a word also `sentence`, `word_number`
    and `word`), its texts, `label`, and what that probably is instead, `predicted`. Classes have the `probability` of
    that, the `probability_of_label`, and the `margin` between them. Numbers have the residual in robust standard
    deviations, `deviations`. In sets of labels one label is judged at a time, and `change` says which. `judged` names
    in the plural what was judged, and `because` says what makes it probably wrong.
    """

    table: pd.DataFrame
    of: int
    judged: str
    because: str


def check_labels(
    rows: Split, table: pd.DataFrame, names: Sequence[str], of_words: Iterator[np.ndarray]
) -> LabelsToCheck:
    """Return the labels to check of `rows`, whose predictions are in `table` (see `out_of_fold_answers`); `names` are
    the labels'.

    `of_words` yields the probabilities of the words of each row of a tagging task, [words, labels]; truncated words
    have none.
    """
    if "words" in rows.table.schema.names:
        return _words(rows, table, names, of_words)
    if rows.target == "number":
        return _numbers(table)
    return _label_sets(rows, table, names) if rows.target == "label_set" else _classes(table, names)


def _classes(table: pd.DataFrame, names: Sequence[str]) -> LabelsToCheck:
    ids = {name: place for place, name in enumerate(names)}
    labels, probabilities = np.array([ids[label] for label in table["label"]]), _probabilities(table, names)
    errors = find_label_errors(labels, probabilities)
    found = _listed(table, errors.rows).assign(**_answers(errors, labels, probabilities, names))
    return LabelsToCheck(found, len(table), "labels", _CONFIDENT.format(unit="row", other="another label"))


def _label_sets(rows: Split, table: pd.DataFrame, names: Sequence[str]) -> LabelsToCheck:
    """Judge each label of each row by itself, as given or not given."""
    probabilities = _probabilities(table, names)
    given = np.zeros(probabilities.shape, dtype=bool)
    for place, example in enumerate(rows.of_texts()):
        assert isinstance(example.label, tuple)
        given[place, list(example.label)] = True
    errors = find_label_set_errors(given, probabilities)
    wrong = given[errors.rows, errors.labels]
    of_label = probabilities[errors.rows, errors.labels]
    changed = given[errors.rows]
    changed[np.arange(len(changed)), errors.labels] ^= True
    found = _listed(table, errors.rows).assign(
        predicted=[SEPARATOR.join(names[label] for label in np.flatnonzero(one).tolist()) for one in changed],
        change=[
            f"{'remove' if is_given else 'add'} {names[label]}"
            for is_given, label in zip(wrong, errors.labels, strict=True)
        ],
        probability=_rounded(np.where(wrong, 1 - of_label, of_label)),
        probability_of_label=_rounded(np.where(wrong, of_label, 1 - of_label)),
        margin=_rounded(errors.margins),
    )
    because = _CONFIDENT.format(unit="row", other="the opposite")
    return LabelsToCheck(found, given.size, "labels (given to a row or not)", because)


def _words(rows: Split, table: pd.DataFrame, names: Sequence[str], of_words: Iterator[np.ndarray]) -> LabelsToCheck:
    """Judge each word by itself."""
    chances = list(of_words)
    lengths = np.array([len(of_row) for of_row in chances])
    given = [example.labels or () for example in rows.of_words()]
    labels = np.concatenate([np.asarray(ids[:length], np.int64) for ids, length in zip(given, lengths, strict=True)])
    probabilities = np.concatenate(chances)
    errors = find_label_errors(labels, probabilities)
    sentences = np.repeat(np.arange(len(rows)), lengths)[errors.rows]
    words = errors.rows - (np.cumsum(lengths) - lengths)[sentences]
    found = _listed_words(rows, table, sentences, words).assign(
        label=[names[place] for place in labels[errors.rows]], **_answers(errors, labels, probabilities, names)
    )
    return LabelsToCheck(found, len(labels), "words' labels", _CONFIDENT.format(unit="sentence", other="another label"))


def _numbers(table: pd.DataFrame) -> LabelsToCheck:
    errors = find_number_errors(table["label"].to_numpy(float), table["predicted"].to_numpy(float))
    predicted = table["predicted"].iloc[errors.rows].to_numpy(float)
    found = _listed(table, errors.rows).assign(predicted=predicted, deviations=errors.distances.round(2))
    because = (
        "they are further from the prediction of a model that has not seen the row than 3.5 standard deviations, as estimated from "
        "the median absolute residual"
    )
    return LabelsToCheck(found, len(table), "numbers", because)


def _probabilities(table: pd.DataFrame, names: Sequence[str]) -> np.ndarray:
    """Return the probability of each label: float64 [rows, labels]."""
    return np.stack([table[f"{PROBABILITY}{name}"].to_numpy(float) for name in names], axis=1)


def _answers(
    errors: LabelErrors, labels: np.ndarray, probabilities: np.ndarray, names: Sequence[str]
) -> dict[str, Any]:
    """Return the columns about the probable labels of `errors`."""
    return {
        "predicted": [names[place] for place in errors.likely],
        "probability": _rounded(probabilities[errors.rows, errors.likely]),
        "probability_of_label": _rounded(probabilities[errors.rows, labels[errors.rows]]),
        "margin": _rounded(errors.margins),
    }


def _rounded(probabilities: np.ndarray) -> np.ndarray:
    return probabilities.astype(np.float64).round(6)


def _listed(table: pd.DataFrame, rows: np.ndarray) -> pd.DataFrame:
    """Return the place, the texts and the label of some rows."""
    shown = [name for name in ("file", "line", "fold", "sentence", "text", "text_pair", "label") if name in table]
    return table.iloc[rows][shown].reset_index(drop=True)


def _listed_words(rows: Split, table: pd.DataFrame, sentences: np.ndarray, words: np.ndarray) -> pd.DataFrame:
    """Return the place of some words: that of their sentence, its number in its file, and theirs in the sentence, all
    from 1.
    """
    numbers = table.groupby("file").cumcount() + 1 if "file" in table else np.arange(1, len(table) + 1)
    found = _listed(table.assign(sentence=numbers), sentences)
    texts = [example.words[word] for example, word in zip(rows.take(sentences.tolist()).of_words(), words, strict=True)]
    after = list(found.columns).index("sentence") + 1
    found.insert(after, "word_number", words + 1)
    found.insert(after + 1, "word", texts)
    return found
