"""The choice of a linear model's setting by cross-validation on a sample of the training rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array
from scipy.special import log_expit, log_softmax

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
    NGrams("word", 1, 1),
    NGrams("word", 1, 2),
    NGrams("token", 1, 2),
    NGrams("char_wb", 2, 5),
)
STRENGTHS = (10.0, 1.0, 100.0)  # n-grams are compared at the first
FOLDS = 3
MOST_CELLS = 100_000  # rows times outputs
MOST_ROWS = 5_000
MOST_CHARACTERS = 1_000_000
MOST_SPELLED = 10_000_000  # characters of training texts whose character n-grams fit into memory
TOLERANCE = 3e-4


@dataclass(frozen=True, slots=True)
class Candidate:
    """A setting and its scores over the folds: accuracy, micro F1 of several labels, or R² of numbers; and the loss,
    the mean negative log probability of the true class or labels, or the mean squared error.
    """

    setting: Setting
    score: float
    loss: float

    def rank(self) -> float:
        """Return a number that is larger for a better candidate."""
        return self.score


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidates, the best one first, and how many rows they were compared on."""

    candidates: Sequence[Candidate]
    n_rows: int

    @property
    def setting(self) -> Setting:
        """Return the best candidate's setting."""
        return self.candidates[0].setting


def choose(kind: Kind, rows: Sequence[Row], targets: np.ndarray, n_outputs: int) -> Choice:
    """Return the candidates by their score in cross-validation on rows and their targets, as `fit` has them.

    N-grams are compared at the first of the strengths, those of pairs with both texts compared; then, with the best
    n-grams, the other strengths, and pairs read as one text. Rows that cannot be divided leave one candidate, whose
    scores are NaN. Raises ValueError if no text holds a character.
    """
    is_pair = len(rows[0]) > 1
    is_short = sum(len(text) for row in rows for text in row) <= MOST_SPELLED
    all_ngrams = [ngrams for ngrams in CANDIDATES if is_short or ngrams.analyzer != "char_wb"]
    sample = _sampled(rows, n_outputs)
    rows = [rows[number] for number in sample]
    targets = targets[sample]
    folds = list(_folds(kind, targets))
    if not folds:
        return Choice([Candidate(Setting(all_ngrams[-1], compared=is_pair), float("nan"), float("nan"))], len(rows))

    candidates: list[Candidate] = []
    features_of: dict[NGrams, csr_array] = {}
    for ngrams in all_ngrams:
        setting = Setting(ngrams, STRENGTHS[0], is_pair)
        try:
            _, features_of[ngrams] = fitted_features(setting, rows, MOST_FEATURES)
        except ValueError:  # texts of digits may hold no words
            continue
        candidates.append(_scored(kind, features_of[ngrams], targets, n_outputs, setting, folds))
    if not candidates:
        raise ValueError("no text holds an n-gram")
    best = max(candidates, key=Candidate.rank).setting
    for strength in STRENGTHS[1:]:
        setting = replace(best, strength=strength)
        candidates.append(_scored(kind, features_of[best.ngrams], targets, n_outputs, setting, folds))
    if is_pair:
        setting = replace(best, compared=False)
        _, features = fitted_features(setting, rows, MOST_FEATURES)
        candidates.append(_scored(kind, features, targets, n_outputs, setting, folds))
    return Choice(sorted(candidates, key=Candidate.rank, reverse=True), len(rows))


def _sampled(rows: Sequence[Row], n_outputs: int) -> np.ndarray:
    """Return the positions of as many rows, evenly spaced, as are compared in seconds."""
    n_characters = sum(len(text) for row in rows for text in row)
    most = min(MOST_ROWS, MOST_CELLS // n_outputs, len(rows) * MOST_CHARACTERS // max(n_characters, 1))
    return np.unique(np.linspace(0, len(rows) - 1, min(len(rows), max(most, 1))).astype(np.int64))


def _folds(kind: Kind, targets: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows to fit on and those to score on; of classes, each fold has about the same share of each."""
    from sklearn.model_selection import KFold, StratifiedKFold

    n_folds = min(FOLDS, int(np.bincount(targets).max()) if kind == "label" else len(targets))
    if n_folds < 2 or (kind == "label" and len(np.unique(targets)) < 2):
        return
    divided = StratifiedKFold if kind == "label" else KFold
    with quietly():
        for fitted, held_out in divided(n_folds, shuffle=True, random_state=0).split(targets, targets):
            if kind != "label" or len(np.unique(targets[fitted])) > 1:
                yield fitted, held_out


def _scored(
    kind: Kind,
    features: csr_array,
    targets: np.ndarray,
    n_outputs: int,
    setting: Setting,
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
) -> Candidate:
    """Return the setting with the scores of what each fold predicts of the rows that it was not fitted to."""
    held_out_rows = np.concatenate([held_out for _, held_out in folds])
    outputs = np.zeros((len(targets), n_outputs))
    for fitted, held_out in folds:
        weights, intercept = fitted_weights(
            kind, features[fitted], targets[fitted], n_outputs, setting.strength, TOLERANCE
        )
        outputs[held_out] = features[held_out] @ weights + intercept
    return Candidate(setting, *_scores(kind, targets[held_out_rows], outputs[held_out_rows]))


def _scores(kind: Kind, targets: np.ndarray, outputs: np.ndarray) -> tuple[float, float]:
    """Return a score and a loss, as a `Candidate` has them."""
    predicted = predictions_of(kind, outputs)
    if kind == "label":
        losses = -log_softmax(outputs, axis=1)[np.arange(len(targets)), targets]
        return float((targets == predicted).mean()), float(losses.mean())
    if kind == "label_set":
        losses = -np.where(targets, log_expit(outputs), log_expit(-outputs))
        f1 = 2 * (targets & predicted).sum() / max(targets.sum() + predicted.sum(), 1)
        return float(f1), float(losses.mean())
    squares = (targets - predicted) ** 2
    return float(1 - squares.mean() / max(targets.var(), 1e-12)), float(squares.mean())
