"""The choice of a linear model's setting by cross-validation on a sample of the training rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from encoderlab.linear.model import (
    MOST_FEATURES,
    Kind,
    Row,
    Setting,
    fitted_features,
    fitted_weights,
    predictions_of,
    quietly,
)
from encoderlab.linear.ngrams import NGrams

CANDIDATES = (
    NGrams("word", 1, 1, sublinear=False),
    NGrams("word", 1, 2),
    NGrams("char_wb", 2, 5),
)
STRENGTHS = (10.0, 1.0, 100.0)  # the first one is used to choose n-grams
FOLDS = 3
MOST_CELLS = 20_000  # rows times outputs
MOST_CHARACTERS = 2_000_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A setting and its score over the folds: accuracy, micro F1 of several labels, or R² of numbers."""

    setting: Setting
    score: float


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidates, and how many rows they were compared on; the best one comes first."""

    candidates: Sequence[Candidate]
    n_rows: int

    @property
    def setting(self) -> Setting:
        """Return the best candidate's setting."""
        return self.candidates[0].setting


def choose(kind: Kind, rows: Sequence[Row], targets: np.ndarray, n_outputs: int) -> Choice:
    """Return the candidates by their score in cross-validation on rows and their targets, as `fit` has them.

    N-grams are compared at the first of the strengths, and the strengths with the best n-grams. Rows that cannot be
    divided leave one candidate, whose score is NaN. Raises ValueError if no text holds a character.
    """
    sample = _sampled(rows, n_outputs)
    rows = [rows[number] for number in sample]
    targets = targets[sample]
    folds = list(_folds(kind, targets))
    if not folds:
        return Choice([Candidate(Setting(CANDIDATES[-1]), float("nan"))], len(rows))
    candidates: list[Candidate] = []
    features = {}
    for ngrams in CANDIDATES:
        setting = Setting(ngrams, STRENGTHS[0])
        try:
            _, features[ngrams] = fitted_features(setting, rows, MOST_FEATURES)
        except ValueError:  # texts of brackets have no words
            continue
        candidates.append(_scored(kind, features[ngrams], targets, n_outputs, setting, folds))
    best = max(candidates, key=lambda candidate: candidate.score).setting
    for strength in STRENGTHS[1:]:
        setting = replace(best, strength=strength)
        candidates.append(_scored(kind, features[best.ngrams], targets, n_outputs, setting, folds))
    return Choice(sorted(candidates, key=lambda candidate: -candidate.score), len(rows))


def _sampled(rows: Sequence[Row], n_outputs: int) -> np.ndarray:
    """Return the positions of as many rows, evenly spaced, as are compared in seconds."""
    n_characters = sum(len(text) for row in rows for text in row)
    most = min(MOST_CELLS // n_outputs, len(rows) * MOST_CHARACTERS // max(n_characters, 1))
    return np.unique(np.linspace(0, len(rows) - 1, min(len(rows), max(most, 1))).astype(np.int64))


def _folds(kind: Kind, targets: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows to fit on and those to score on; of classes, each fold has about the same share of each."""
    from sklearn.model_selection import KFold, StratifiedKFold

    n_folds = min(FOLDS, int(np.bincount(targets).max()) if kind == "label" else len(targets))
    if n_folds >= 2:
        divided = StratifiedKFold if kind == "label" else KFold
        with quietly():
            yield from divided(n_folds, shuffle=True, random_state=0).split(targets, targets)


def _scored(
    kind: Kind,
    features: csr_array,
    targets: np.ndarray,
    n_outputs: int,
    setting: Setting,
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
) -> Candidate:
    """Return the setting with the score of what each fold predicts of the rows that it was not fitted to."""
    outputs = np.zeros((len(targets), n_outputs))
    for fitted, held_out in folds:
        weights, intercept = fitted_weights(kind, features[fitted], targets[fitted], n_outputs, setting.strength)
        outputs[held_out] = features[held_out] @ weights + intercept
    return Candidate(setting, _score(kind, targets, predictions_of(kind, outputs)))


def _score(kind: Kind, targets: np.ndarray, predicted: np.ndarray) -> float:
    if kind == "label":
        return float((targets == predicted).mean())
    if kind == "label_set":
        return float(2 * (targets & predicted).sum() / max(targets.sum() + predicted.sum(), 1))
    return float(1 - ((targets - predicted) ** 2).sum() / max(((targets - targets.mean()) ** 2).sum(), 1e-12))
