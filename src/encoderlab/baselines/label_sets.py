"""Sets of labels without an encoder: the most frequent label, and a logistic regression on words for each label."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from encoderlab.baselines.linear import N_TOP, Baseline, cannot_read, joined, tfidf, timed, too_many_cells
from encoderlab.data.examples import Split
from encoderlab.metrics.label_sets import label_set_figures
from encoderlab.metrics.thresholds import DEFAULT, fit_thresholds

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

MOST_CELLS = 20_000_000  # rows times labels: beyond this the regressions would take longer than many a training run


def for_label_sets(train: Split, scored: Split, held_out: Split | None, n_labels: int) -> dict[str, Baseline]:
    """Return `majority`, which always predicts the most frequent label, and `tfidf_logreg`, one regression per label.

    Its thresholds are fitted on the `held_out` rows as a model's are (0.5 without them). Figures are those of
    `metrics.label_sets.label_set_figures`, and `seconds`.
    """
    marks, labels = (marks_of(split, n_labels) for split in (train, scored))
    figures = partial(label_set_figures, labels)

    def majority() -> np.ndarray:
        return np.tile(np.arange(n_labels) == marks.sum(0).argmax(), (len(scored), 1))

    if reason := cannot_fit(train, n_labels):
        return {"majority": timed(majority, figures), "tfidf_logreg": Baseline(skipped=reason)}
    linear = _OneForEach()

    def answer() -> np.ndarray:
        linear.fit(_texts(train), marks)
        thresholds = np.full(n_labels, DEFAULT)
        if held_out is not None:
            thresholds = fit_thresholds(
                linear.probabilities(_texts(held_out)), marks_of(held_out, n_labels), shared=False
            )
        return linear.probabilities(_texts(scored)) >= thresholds

    fitted = timed(answer, figures)
    return {"majority": timed(majority, figures), "tfidf_logreg": replace(fitted, top_features=linear.top_features())}


def cannot_fit(train: Split, n_labels: int) -> str:
    """Return why the regressions cannot or should not be fitted; "" if they can."""
    return too_many_cells(len(train), n_labels, MOST_CELLS) or cannot_read(train)


class _OneForEach:
    """One logistic regression on TF-IDF per label; a label that all rows or none have gets a constant."""

    def fit(self, texts: list[str], marks: np.ndarray) -> None:
        from scipy.sparse import csr_matrix
        from sklearn.linear_model import LogisticRegression
        from threadpoolctl import threadpool_limits

        self.words = tfidf()
        features = csr_matrix(self.words.fit_transform(texts))
        self.constant = marks.mean(0)
        self.models: dict[int, LogisticRegression] = {}
        with threadpool_limits(1):
            for label in np.flatnonzero((self.constant > 0) & (self.constant < 1)).tolist():
                model = LogisticRegression(C=10, solver="liblinear", random_state=0)
                self.models[label] = model.fit(features, marks[:, label])

    def probabilities(self, texts: list[str]) -> np.ndarray:
        """Return the probabilities, [texts, labels]."""
        features = self.words.transform(texts)
        found = np.tile(self.constant, (len(texts), 1))
        for label, model in self.models.items():
            found[:, label] = model.predict_proba(features)[:, 1]
        return found

    def top_features(self) -> dict[int, list[str]]:
        """Return the features with the largest weights for each label."""
        names = np.asarray(self.words.get_feature_names_out())
        weights = {label: np.asarray(model.coef_)[0] for label, model in self.models.items()}
        best = {label: np.argsort(-row, kind="stable")[:N_TOP] for label, row in weights.items()}
        return {
            label: [str(names[place]) for place in places if weights[label][place] > 0]
            for label, places in best.items()
        }


def _texts(split: Split) -> list[str]:
    return [joined(example) for example in split.of_texts()]


def marks_of(split: Split, n_labels: int) -> np.ndarray:
    """Return which labels each row has: bool [rows, labels]."""
    marks = np.zeros((len(split), n_labels), bool)
    for row, example in enumerate(split.of_texts()):
        marks[row, list(example.label) if isinstance(example.label, tuple) else []] = True
    return marks
