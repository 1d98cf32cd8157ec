"""Self-training: a linear model labels the texts it is surest of, and learns from them too.

In rounds, a logistic regression on an encoder's vectors labels unlabelled texts, more in each round, in the proportions
in which it predicts the classes, and is fitted to them and the labelled rows. That helps where classes are clusters of
texts, and harms where they are not. The labelled rows can tell: the regression must predict them well with and without
its own labels, and many rows no worse with them. `python -m benchmarks unlabelled` measures it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from encoderlab.runs.selection import STRENGTH

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

ROUNDS = 5
FOR_EACH_CLASS = 20  # texts that are labelled in the last round, in the mean
MOST_OF_TEXTS = 0.4  # the share of them that may be labelled
WEIGHT = 0.3  # of a text so labelled, beside a labelled row
LEAST_KAPPA = 0.3
TELLING_ROWS = 50  # from which on a lower kappa is more than chance
FOLDS = 5


@dataclass(frozen=True, slots=True)
class Labelled:
    """The vectors of labelled rows, [rows, features], and the class of each."""

    vectors: np.ndarray
    classes: np.ndarray

    def __len__(self) -> int:
        return len(self.classes)

    def take(self, rows: np.ndarray) -> Labelled:
        return Labelled(self.vectors[rows], self.classes[rows])

    def followed_by(self, other: Labelled) -> Labelled:
        """Return these rows and then the others."""
        vectors = np.concatenate([self.vectors, other.vectors])
        return Labelled(vectors, np.concatenate([self.classes, other.classes]))


@dataclass(frozen=True, slots=True)
class Judgement:
    """Cohen's kappa of the regression on labelled rows it has not learned from, without and with its own labels: 0 is
    chance, 1 no error. A few of these `n_rows` cannot tell the two apart.
    """

    without: float
    with_own_labels: float
    n_rows: int

    @property
    def favours_own_labels(self) -> bool:
        """Return whether the classes seem to be clusters of texts, and its own labels do no harm."""
        least = self.without if self.n_rows >= TELLING_ROWS else LEAST_KAPPA
        return self.without >= LEAST_KAPPA and self.with_own_labels >= least

    def __str__(self) -> str:
        return f"kappa {self.without:.2f}, with these labels {self.with_own_labels:.2f}"


def self_label(labelled: Labelled, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which of the unlabelled `others`, [texts, features], the regression labels, and the class of each."""
    model = fitted(labelled)
    most = min(FOR_EACH_CLASS * len(model.classes_), MOST_OF_TEXTS * len(others))
    for number in range(1, ROUNDS + 1):
        rows, given = _surest(model, others, most * number / ROUNDS)
        model = fitted(labelled, Labelled(others[rows], given))
    return rows, given


def _surest(model: LogisticRegression, others: np.ndarray, n: float) -> tuple[np.ndarray, np.ndarray]:
    """Return about `n` of the texts, with their classes: of each class those for which it is most probable, as many as
    its share of the predictions, but at least one.
    """
    probabilities = model.predict_proba(others)
    predicted = probabilities.argmax(1)
    rows = []
    for class_ in range(probabilities.shape[1]):
        of_class = np.flatnonzero(predicted == class_)
        n_of_class = max(round(n * len(of_class) / len(others)), 1)
        order = np.argsort(-probabilities[of_class, class_], kind="stable")
        rows.append(of_class[order[:n_of_class]])
    together = np.sort(np.concatenate(rows))
    return together, model.classes_[predicted[together]]


def fitted(labelled: Labelled, own: Labelled | None = None) -> LogisticRegression:
    """Return logistic regression fitted to labelled rows, and to others with its own labels."""
    from sklearn.linear_model import LogisticRegression

    weights = np.ones(len(labelled))
    if own is not None:
        labelled = labelled.followed_by(own)
        weights = np.concatenate([weights, np.full(len(own), WEIGHT)])
    return LogisticRegression(C=STRENGTH, max_iter=1000, tol=1e-3).fit(labelled.vectors, labelled.classes, weights)


def judged_on(tested: Labelled, labelled: Labelled, others: np.ndarray) -> Judgement:
    """Return how well the `tested` rows, such as those of validation, are predicted."""
    without, with_own_labels = _predicted(tested.vectors, labelled, others)
    return _judgement(tested.classes, without, with_own_labels)


def judged_by_folds(labelled: Labelled, others: np.ndarray, further: Labelled, seed: int) -> Judgement:
    """Return how well labelled rows are predicted by cross-validation; every fold also learns from the `further` ones.

    Each class must have two rows.
    """
    from sklearn.model_selection import StratifiedKFold

    classes = labelled.classes
    folds = min(FOLDS, int(np.unique(classes, return_counts=True)[1].min()))
    without = np.empty_like(classes)
    with_own_labels = np.empty_like(classes)
    for learned, tested in StratifiedKFold(folds, shuffle=True, random_state=seed).split(classes, classes):
        known = labelled.take(learned).followed_by(further)
        without[tested], with_own_labels[tested] = _predicted(labelled.vectors[tested], known, others)
    return _judgement(classes, without, with_own_labels)


def _predicted(tested: np.ndarray, labelled: Labelled, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what the regression predicts for the tested vectors, without and with its own labels."""
    rows, given = self_label(labelled, others)
    models = (fitted(labelled), fitted(labelled, Labelled(others[rows], given)))
    without, with_own_labels = (np.asarray(model.predict(tested)) for model in models)
    return without, with_own_labels


def _judgement(classes: np.ndarray, without: np.ndarray, with_own_labels: np.ndarray) -> Judgement:
    from sklearn.metrics import cohen_kappa_score

    kappas = [float(cohen_kappa_score(classes, predicted)) for predicted in (without, with_own_labels)]
    return Judgement(*kappas, n_rows=len(classes))
