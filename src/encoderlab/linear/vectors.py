"""Linear models on the vectors of an encoder: logistic regression of classes, ridge regression of numbers.

They are a baseline of reports, the head of a model, and what labels or selects further texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.linear.model import Kind, quietly

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

STRENGTH = 10.0  # C of a logistic regression, for vectors of length 1
STRENGTHS = (1.0, 10.0, 100.0, 1000.0)  # that are tried
RIDGE_STRENGTHS = (0.1, *STRENGTHS)
MOST_ITERATIONS = 1000
TUNING_CELLS = 200_000  # rows times labels that the strength is chosen on
FOLDS = 5
NEVER = 20.0  # how far the logit of a class without rows is below the others


def logistic_regression(
    vectors: np.ndarray, classes: np.ndarray, weights: np.ndarray | None = None
) -> LogisticRegression:
    """Return a model fitted to vectors of length 1, [rows, features], their classes and their weights (None: 1)."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=STRENGTH, max_iter=MOST_ITERATIONS, tol=1e-3).fit(vectors, classes, weights)


def tuned_on_vectors(kind: Kind, vectors: np.ndarray, targets: np.ndarray, n_labels: int) -> Any:
    """Return a model of this kind of target fitted to vectors, [rows, features], its strength chosen by
    cross-validation.
    """
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.multiclass import OneVsRestClassifier

    model: Any = LogisticRegression(C=STRENGTH, max_iter=MOST_ITERATIONS)
    if kind == "label_set":
        model = OneVsRestClassifier(model)
    if kind == "number":
        model = RidgeCV(alphas=[1 / strength for strength in RIDGE_STRENGTHS])
    with quietly():
        if kind != "number":  # ridge regression chooses its own
            choose_strength(model, vectors, targets, n_labels)
        return model.fit(vectors, targets)


def head_of_classes(
    features: np.ndarray,
    classes: np.ndarray,
    n_classes: int,
    *,
    strength: float,
    class_weights: dict[int, float] | None,
    row_weights: np.ndarray | None,
    tuned: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a head that reads `features`, [rows, features], as they are: weights [known, features], biases [known] and
    the known classes, those that have rows. If it is `tuned`, its strength is chosen by cross-validation.
    """
    from sklearn.linear_model import LogisticRegression

    # The features are centred and scaled, so that the strength of the regularization means the same everywhere.
    mean = features.mean(0)
    scale = 1 / np.sqrt(features.var(0).sum())
    scaled = (features - mean) * scale
    regression = LogisticRegression(C=strength, max_iter=MOST_ITERATIONS, class_weight=class_weights)
    with quietly():
        if tuned:
            choose_strength(regression, scaled, classes, n_classes, row_weights)
        regression.fit(scaled, classes, row_weights)

    # The head reads the features as they are.
    weight = regression.coef_ * scale
    bias = regression.intercept_ - weight @ mean
    if len(weight) == 1:  # of two classes, it has the difference
        weight = np.concatenate([-weight, weight]) / 2
        bias = np.concatenate([-bias, bias]) / 2
    return weight, bias, regression.classes_


def choose_strength(
    model: Any, vectors: np.ndarray, targets: np.ndarray, n_labels: int, weights: np.ndarray | None = None
) -> None:
    """Set the strength of a logistic regression by cross-validation, on a part of many rows, which may have weights.

    `targets` holds class ids, [rows], or 0 or 1 for each label, [rows, labels], with a regression for each. With a
    label of a single row, the model keeps its strength.
    """
    from sklearn.model_selection import GridSearchCV

    name = "C"
    scoring = "neg_log_loss"
    if targets.ndim == 2:
        name = "estimator__C"
        scoring = "f1_micro"

    some = evenly_spaced(len(targets), TUNING_CELLS // max(n_labels, 1))
    rarest = np.unique(targets[some], return_counts=True)[1].min() if targets.ndim == 1 else len(some)
    folds = min(FOLDS, rarest)
    if folds >= 2:
        search = GridSearchCV(model, {name: STRENGTHS}, scoring=scoring, cv=folds)
        weighted = {} if weights is None else {"sample_weight": weights[some]}
        search.fit(vectors[some], targets[some], **weighted)
        model.set_params(**search.best_params_)


def evenly_spaced(n: int, most: int) -> np.ndarray:
    """Return at most `most` of the positions 0 to n - 1, evenly spaced."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))
