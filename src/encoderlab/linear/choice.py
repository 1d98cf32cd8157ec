"""The choice of a linear model's setting by cross-validation on a sample of the training rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np
from scipy.sparse import csr_array
from scipy.special import log_expit, softmax

from encoderlab.linear.model import (
    Kind,
    Row,
    Setting,
    fitted_features,
    fitted_weights,
    predictions_of,
    quietly,
)
from encoderlab.linear.ngrams import Counts, NGrams
from encoderlab.metrics.calibration import calibrated_loss

CANDIDATES = (
    NGrams("token", 1, 1),
    NGrams("token", 1, 2),
    NGrams("char_wb", 2, 5),
    NGrams("token", 1, 2, beside=NGrams("char_wb", 2, 5)),
)
FIRST_STRENGTH: dict[Kind, float] = {"label": 10.0, "label_set": 10.0, "number": 1.0}  # n-grams are compared at it
STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
FOLDS = 5
FOLDS_OF_MANY = 3  # two thirds of these rows are as good to fit to
MANY_ROWS = 2_500
# What is compared on, to take seconds: the least of these.
MOST_ROWS = 3_000
MOST_CELLS = 100_000  # rows times classes
MOST_CHARACTERS = 2_000_000
MOST_FEATURES = 20_000
MOST_LABELS = 20  # of sets of labels, the most frequent
MOST_SPELLED = 10_000_000  # characters of training texts whose character n-grams fit into memory
TOLERANCE = 3e-4
FASTER_WHEN_DENSE = 100  # how many times as fast a product is of matrices whose zeros are stored
COLUMNS_AT_ONCE = 4_000
_MANY_CLASSES = 8
_SCORES: dict[Kind, str] = {"label": "accuracy", "label_set": "f1_micro", "number": "pearson"}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A setting and its score over the folds: accuracy, micro F1 of several labels, or the correlation of numbers.

    The loss is the mean negative log probability of the true classes or labels, or the mean squared error. It decides,
    because it also counts how sure a model is: accuracies on some hundred rows are often equal. Of classes it is the
    loss at the best temperature: n-grams differ in their best strength, and one that is too small mainly makes all
    probabilities too even.
    """

    setting: Setting
    score: float
    loss: float


@dataclass(frozen=True, slots=True)
class RankedCandidates:
    """The candidates, the one with the least loss first, and how many rows they were compared on."""

    candidates: Sequence[Candidate]
    n_rows: int
    score_name: str

    @property
    def setting(self) -> Setting:
        """Return the best candidate's setting."""
        return self.candidates[0].setting


def choose(kind: Kind, rows: Sequence[Row], targets: np.ndarray, n_outputs: int) -> RankedCandidates:
    """Return the candidates by their loss in cross-validation on rows and their targets, as `fit` has them.

    All n-grams are compared at one strength, those of pairs in both ways that the two texts can be read. The best are
    then tried with other strengths. Rows that cannot be divided leave one candidate, whose scores are NaN. Raises
    ValueError if no text holds a character.
    """
    is_pair = len(rows[0]) > 1
    is_short = sum(len(text) for row in rows for text in row) <= MOST_SPELLED
    all_ngrams = CANDIDATES if is_short else CANDIDATES[:2]
    strength = FIRST_STRENGTH[kind]
    trial = _Trial.of(kind, rows, targets, n_outputs)
    if not trial.folds:
        ngrams = CANDIDATES[2] if is_short else CANDIDATES[1]
        only = Candidate(Setting(ngrams, strength, is_pair), float("nan"), float("nan"))
        return RankedCandidates([only], len(trial.rows), _SCORES[kind])

    # The n-grams: texts of marks hold no words.
    candidates: list[Candidate] = []
    for ngrams in all_ngrams:
        with suppress(ValueError):
            candidates.append(trial.score(Setting(ngrams, strength)))
            if is_pair and ngrams.beside is None:  # two kinds at once are too many to compare texts by
                candidates.append(trial.score(Setting(ngrams, strength, compared=True)))
    if not candidates:
        raise ValueError("no text holds an n-gram")
    best = min(candidates, key=_loss)

    # The strength: larger ones as long as the loss falls; if it does not, smaller ones.
    start = STRENGTHS.index(strength)
    for strengths in (STRENGTHS[start + 1 :], STRENGTHS[:start][::-1]):
        for other in strengths:
            candidates.append(trial.score(replace(best.setting, strength=other)))
            if candidates[-1].loss >= best.loss:
                break
            best = candidates[-1]
        if best.setting.strength > strength:
            break

    return RankedCandidates(sorted(candidates, key=_loss), len(trial.rows), _SCORES[kind])


def _loss(candidate: Candidate) -> float:
    return candidate.loss


@dataclass(frozen=True, slots=True)
class _Trial:
    """Rows of the training set, and how they are divided: what candidates are compared on."""

    kind: Kind
    rows: Sequence[Row]
    targets: np.ndarray
    n_outputs: int
    folds: Sequence[tuple[np.ndarray, np.ndarray]]  # rows to fit on, and those to score on
    # Of the settings scored so far, whether texts are compared or not
    features_of: dict[tuple[NGrams, bool], csr_array | np.ndarray]
    counts_of: dict[tuple[NGrams, bool], Counts]

    @classmethod
    def of(cls, kind: Kind, rows: Sequence[Row], targets: np.ndarray, n_outputs: int) -> _Trial:
        """Return as many of the rows, evenly spaced, as are compared in seconds."""
        if kind == "label_set":  # all labels of sets are alike, and a few take less time
            targets = targets[:, np.sort(np.argsort(-targets.sum(0), kind="stable")[:MOST_LABELS])]
            n_outputs = targets.shape[1]
        n_characters = sum(len(text) for row in rows for text in row)
        most = min(MOST_ROWS, MOST_CELLS // n_outputs, len(rows) * MOST_CHARACTERS // max(n_characters, 1))
        sample = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), max(most, 1))).astype(np.int64))
        targets = targets[sample]
        return cls(kind, [rows[at] for at in sample], targets, n_outputs, list(_folds(kind, targets)), {}, {})

    def score(self, setting: Setting) -> Candidate:
        """Return the setting with the scores of what is predicted of each fold by a model of the others.

        Raises ValueError if no text holds an n-gram.
        """
        key = (setting.ngrams, setting.compared)
        if key not in self.features_of:
            counted = partial(self._counted, compared=setting.compared)
            _, features = fitted_features(setting, self.rows, MOST_FEATURES, counted)
            is_costly = self.n_outputs >= _MANY_CLASSES or features.nnz > len(self.rows) ** 2
            self.features_of[key] = _rotated(features) if is_costly and self.kind == "label" else features
        features = self.features_of[key]
        outputs = np.zeros((len(self.rows), self.n_outputs))
        for fitted, held_out in self.folds:
            weights, intercept = fitted_weights(
                self.kind, features[fitted], self.targets[fitted], self.n_outputs, setting.strength, TOLERANCE
            )
            outputs[held_out] = features[held_out] @ weights + intercept
        scored = np.concatenate([held_out for _, held_out in self.folds])
        return Candidate(setting, *_scores(self.kind, self.targets[scored], outputs[scored]))

    def _counted(self, ngrams: NGrams, texts: Iterable[str], *, compared: bool) -> Counts:
        """Return how often each n-gram occurs in the texts, which are counted once for each kind of n-grams."""
        key = (ngrams, compared)
        if key not in self.counts_of:
            if ngrams.beside is None:
                self.counts_of[key] = ngrams.counted(texts)
            else:
                texts = list(texts)
                kinds = (replace(ngrams, beside=None), ngrams.beside)
                own, beside = (self._counted(kind, texts, compared=compared) for kind in kinds)
                self.counts_of[key] = own.with_beside(beside)
        return self.counts_of[key]


def _folds(kind: Kind, targets: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows to fit on and those to score on; of classes, each fold has about the same share of each."""
    from sklearn.model_selection import KFold, StratifiedKFold

    most = FOLDS if len(targets) < MANY_ROWS else FOLDS_OF_MANY
    n_folds = min(most, int(np.bincount(targets).max()) if kind == "label" else len(targets))
    if n_folds < 2 or (kind == "label" and len(np.unique(targets)) < 2):
        return
    divided = StratifiedKFold if kind == "label" else KFold
    with quietly():
        for fitted, held_out in divided(n_folds, shuffle=True, random_state=0).split(targets, targets):
            if kind != "label" or len(np.unique(targets[fitted])) > 1:
                yield fitted, held_out


def _rotated(features: csr_array) -> np.ndarray:
    """Return features with the same products of rows, but no more columns than rows: [rows, rows].

    Regression with a penalty of squared weights depends on these products alone, and predicts the same. Fewer columns
    cost a fraction of the time where classes are many or texts are long.
    """
    products = _products(features).astype(np.float64)
    products[np.diag_indices_from(products)] += 1e-6  # copies of a row make it singular
    return np.linalg.cholesky(products).astype(np.float32)


def _products(features: csr_array) -> np.ndarray:
    """Return the products of all rows: float32 [rows, rows]."""
    n_rows, n_columns = cast("tuple[int, int]", features.shape)
    n_pairs = int((np.bincount(features.indices, minlength=n_columns) ** 2).sum())
    if n_pairs * FASTER_WHEN_DENSE < n_rows**2 * n_columns:
        return (features @ features.T).toarray()
    products = np.zeros((n_rows, n_rows), np.float32)
    by_column = features.tocsc()
    for start in range(0, n_columns, COLUMNS_AT_ONCE):
        some = by_column[:, start : start + COLUMNS_AT_ONCE].toarray()
        products += some @ some.T
    return products


def _scores(kind: Kind, targets: np.ndarray, outputs: np.ndarray) -> tuple[float, float]:
    """Return a score and a loss, as a `Candidate` has them."""
    predicted = predictions_of(kind, outputs)
    if kind == "label":
        return float((targets == predicted).mean()), calibrated_loss(softmax(outputs, axis=1), targets)
    if kind == "label_set":
        losses = -np.where(targets, log_expit(outputs), log_expit(-outputs))
        f1 = 2 * (targets & predicted).sum() / max(targets.sum() + predicted.sum(), 1)
        return float(f1), float(losses.mean())
    varies = targets.std() > 0 and predicted.std() > 0
    correlation = np.corrcoef(targets, predicted)[0, 1] if varies else 0.0
    return float(correlation), float(((targets - predicted) ** 2).mean())
