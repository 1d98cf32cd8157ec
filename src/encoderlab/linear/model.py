"""A linear model of the n-grams of texts: classes, several labels or numbers.

It is a value of plain parts: a `Setting`, n-grams and arrays, which a folder can hold without a pickle. Fitting needs
scikit-learn, predicting does not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit, softmax

from encoderlab.linear.ngrams import Counts, NGrams, TfIdf

Row = tuple[str, ...]  # a text, or the two texts of a pair
Kind = Literal["label", "label_set", "number"]  # a class of each row, a set of labels, a number
MOST_FEATURES = 100_000  # the most frequent ones; scores as well as all of them, and bounds the memory
MOST_WEIGHTS = 20_000_000  # features times outputs
MANY_CLASSES = 20
MANY_CELLS = 200_000  # rows times so many classes, from which on a stochastic solver is faster
STOCHASTIC_TOLERANCE = 5e-3  # of a weight's change in a pass over the rows, beside the largest weight
DUAL_TOLERANCE = 0.5  # of the gradient of the dual problem
NEVER = 20.0  # how far the logit of a class without training rows is below the others


@dataclass(frozen=True, slots=True)
class Setting:
    """What a linear model reads, and how much its weights may grow.

    The `strength` is the C of logistic regression, the inverse of the penalty of squared weights. The texts of a pair
    are read one after the other, or `compared`.
    """

    ngrams: NGrams
    strength: float = 10.0
    compared: bool = False

    def __str__(self) -> str:
        return f"{self.ngrams}{', both texts compared' if self.compared else ''}, C={self.strength:g}"

    def n_features(self, n_ngrams: int) -> int:
        """Return how many features these n-grams make: those of compared texts are three for each, and the cosine."""
        return 3 * n_ngrams + 1 if self.compared else n_ngrams


@dataclass(frozen=True, slots=True)
class LinearModel:
    """A fitted model: `weights`, float32 [features, outputs], and `intercept`, float32 [outputs].

    There is an output for each class or label, or one for a number. The features of a text are its n-grams; those of
    compared texts are what both hold, what the first and what the second holds beyond that, [n-grams] each, and their
    cosine.
    """

    kind: Kind
    setting: Setting
    tfidf: TfIdf
    weights: np.ndarray
    intercept: np.ndarray

    def outputs(self, rows: Sequence[Row]) -> np.ndarray:
        """Return the logits of classes or labels, or the numbers: float32 [rows, outputs]."""
        return np.asarray(_features(self.tfidf, self.setting, rows) @ self.weights) + self.intercept

    def probabilities(self, rows: Sequence[Row]) -> np.ndarray:
        """Return each class's or label's probability, [rows, outputs]. Numbers have none."""
        assert self.kind != "number", "numbers have no probabilities"
        outputs = self.outputs(rows)
        return softmax(outputs, axis=1) if self.kind == "label" else expit(outputs)

    def predictions(self, rows: Sequence[Row]) -> np.ndarray:
        """Return the most probable class of each row or its number, [rows], or marks of labels, [rows, labels]."""
        return predictions_of(self.kind, self.outputs(rows))

    def description(self) -> dict[str, Any]:
        """Return all but the arrays, as JSON has it; the vocabulary is a list of n-grams, one for each column."""
        return {"kind": self.kind, "setting": asdict(self.setting), "vocabulary": list(self.tfidf.vocabulary)}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays by name."""
        return {"idf": self.tfidf.idf, "weights": self.weights, "intercept": self.intercept}

    @classmethod
    def from_parts(cls, description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> LinearModel:
        """Return the model that `description` and `arrays` were made of.

        Raises KeyError, TypeError or ValueError if they are not those of a model.
        """
        setting = dict(description["setting"])
        setting["ngrams"] = NGrams.from_description(setting["ngrams"])
        names = description["vocabulary"]
        if not isinstance(names, list) or not {*map(type, names)} <= {str}:
            raise TypeError("the vocabulary is not a list of n-grams")
        vocabulary = {name: column for column, name in enumerate(names)}
        tfidf = TfIdf(setting["ngrams"], vocabulary, arrays["idf"])
        model = cls(description["kind"], Setting(**setting), tfidf, arrays["weights"], arrays["intercept"])
        n_outputs = len(model.intercept)
        shapes = [(len(vocabulary),), (model.setting.n_features(len(names)), n_outputs), (n_outputs,)]
        own_shapes = [model.tfidf.idf.shape, model.weights.shape, model.intercept.shape]
        if own_shapes != shapes or len(vocabulary) != len(names):
            raise ValueError(f"the arrays of a linear model have shapes that do not suit {len(names)} n-grams")
        return model


def predictions_of(kind: Kind, outputs: np.ndarray) -> np.ndarray:
    """Return what outputs, [rows, outputs], predict: class ids, marks of labels, or numbers."""
    if kind == "label":
        return outputs.argmax(1)
    return outputs > 0 if kind == "label_set" else outputs[:, 0]


def fit(
    kind: Kind,
    rows: Sequence[Row],
    targets: np.ndarray,
    n_outputs: int,
    setting: Setting,
    *,
    most_features: int = MOST_FEATURES,
) -> LinearModel:
    """Return the model fitted to rows and their targets: class ids, [rows], marks, [rows, labels], or numbers, [rows].

    `n_outputs` counts the classes or labels, of which training may lack some; of numbers it is 1. Of n-grams, the
    `most_features` frequent ones are read. Raises ValueError if no text holds an n-gram.
    """
    tfidf, features = fitted_features(setting, rows, min(most_features, MOST_WEIGHTS // n_outputs))
    weights, intercept = fitted_weights(kind, features, targets, n_outputs, setting.strength)
    return LinearModel(kind, setting, tfidf, weights.astype(np.float32), intercept.astype(np.float32))


def fitted_features(
    setting: Setting,
    rows: Sequence[Row],
    most_features: int,
    counted: Callable[[NGrams, Iterable[str]], Counts] = NGrams.counted,
) -> tuple[TfIdf, csr_array]:
    """Return the most frequent n-grams of the rows, and their features. Raises ValueError if no text holds any."""
    texts = [row[side] for side in (0, 1) for row in rows] if setting.compared else _joined(rows)
    tfidf, features = TfIdf.of_counts(setting.ngrams, counted(setting.ngrams, texts), most_features)
    if not len(tfidf.idf):
        raise ValueError("no text holds an n-gram")
    return tfidf, _compared(features[: len(rows)], features[len(rows) :]) if setting.compared else features


def _features(tfidf: TfIdf, setting: Setting, rows: Sequence[Row]) -> csr_array:
    """Return the features of rows, float32 [rows, features]."""
    if not setting.compared:
        return tfidf.features(_joined(rows))
    first, second = (tfidf.features(row[side] for row in rows) for side in (0, 1))
    return _compared(first, second)


def _joined(rows: Sequence[Row]) -> Iterator[str]:
    return (" ".join(row) for row in rows)


def _compared(first: csr_array, second: csr_array) -> csr_array:
    """Return what both texts hold, what only the first and only the second holds, and their cosine.

    Read one after the other, two texts do not show where they differ. On validation rows, compared ones have a
    correlation of 0.74 instead of 0.51 (SICK), and accuracies of 0.76 instead of 0.71 (QQP) and 0.53 instead of 0.42
    (MNLI).
    """
    n_rows, width = cast("tuple[int, int]", first.shape)
    # The n-grams of both texts of a row, ordered: one that both hold is there twice, that of the first text first.
    keys = np.concatenate([_keys(first), _keys(second)])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    values = np.concatenate([first.data, second.data])[order]
    block = 1 + (order >= len(first.data))
    rows, columns = np.divmod(keys, width)
    shared = np.flatnonzero(keys[1:] == keys[:-1])

    both = np.minimum(values[shared], values[shared + 1])
    cosine = np.bincount(rows[shared], values[shared] * values[shared + 1], n_rows).astype(np.float32)
    values[shared] -= both
    values[shared + 1] -= both

    features = np.concatenate([both, values, cosine])
    row = np.concatenate([rows[shared], rows, np.arange(n_rows)])
    column = np.concatenate([columns[shared], block * width + columns, np.full(n_rows, 3 * width)])
    kept = np.flatnonzero(features)
    kept = kept[np.argsort(row[kept] * (3 * width + 1) + column[kept])]
    indptr = np.append(0, np.cumsum(np.bincount(row[kept], minlength=n_rows)))
    shape = (n_rows, 3 * width + 1)
    return csr_array((features[kept], column[kept].astype(np.int32), indptr.astype(np.int32)), shape)


def _keys(features: csr_array) -> np.ndarray:
    """Return a number of the row and the column of each value."""
    rows = np.repeat(np.arange(len(features.indptr) - 1), np.diff(features.indptr))
    return rows * _width(features) + features.indices


def fitted_weights(
    kind: Kind,
    features: csr_array | np.ndarray,
    targets: np.ndarray,
    n_outputs: int,
    strength: float,
    tolerance: float = 1e-5,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights, [features, outputs], and the intercept, [outputs], of a linear model.

    The gradient of a multinomial regression's loss ends below the `tolerance`, unless its solver is stochastic.
    """
    with quietly():
        if kind == "number":
            return _of_numbers(features, targets, strength)
        if kind == "label_set":
            return _of_labels(features, targets, strength)
        return _of_classes(features, targets, n_outputs, strength, tolerance)


def _of_numbers(
    features: csr_array | np.ndarray, numbers: np.ndarray, strength: float
) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.linear_model import Ridge

    model = Ridge(alpha=1 / strength).fit(features, numbers)
    return model.coef_[:, None], np.array([model.intercept_])


def _of_labels(features: csr_array | np.ndarray, marks: np.ndarray, strength: float) -> tuple[np.ndarray, np.ndarray]:
    """Fit a regression for each label; one that all or none of the rows have is a constant.

    LIBLINEAR takes a third of the time on the dual problem (Yu et al. 2011), and ends within a thousandth of the
    optimum: `benchmarks/results/linear_baseline.md`.
    """
    from sklearn.linear_model import LogisticRegression

    dual = LogisticRegression(
        C=strength, solver="liblinear", dual=True, tol=DUAL_TOLERANCE, max_iter=1000, random_state=0
    )
    weights = np.zeros((_width(features), marks.shape[1]))
    intercept = np.where(marks.all(0), NEVER, -NEVER)
    for label in np.flatnonzero(marks.any(0) & ~marks.all(0)):
        model = dual.fit(features, marks[:, label])
        weights[:, label], intercept[label] = model.coef_[0], model.intercept_[0]
    return weights, intercept


def _of_classes(
    features: csr_array | np.ndarray, classes: np.ndarray, n_classes: int, strength: float, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Fit multinomial regression; a class without rows has a logit below that of the others.

    L-BFGS, scikit-learn's default, keeps 240 bytes for each weight and takes two to three times as long as Newton's
    method with conjugate gradients, which keeps 50. With many classes and rows Newton's method takes a minute, and SAGA
    (Defazio et al. 2014) some seconds: `benchmarks/results/linear_baseline.md`.
    """
    from sklearn.linear_model import LogisticRegression

    solver = "newton-cg"
    if n_classes >= MANY_CLASSES and len(classes) * n_classes > MANY_CELLS:
        solver, tolerance = "saga", STOCHASTIC_TOLERANCE
    regression = LogisticRegression(C=strength, solver=solver, tol=tolerance, max_iter=1000, random_state=0)
    model = regression.fit(features, classes)
    coefficients, constants = model.coef_, model.intercept_
    if len(coefficients) == 1:  # scikit-learn has the difference of two classes
        coefficients = np.concatenate([-coefficients, coefficients]) / 2
        constants = np.concatenate([-constants, constants]) / 2
    weights = np.zeros((_width(features), n_classes))
    intercept = np.full(n_classes, constants.min() - NEVER)
    weights[:, model.classes_], intercept[model.classes_] = coefficients.T, constants
    return weights, intercept


def _width(features: csr_array | np.ndarray) -> int:
    _, width = cast("tuple[int, int]", features.shape)
    return width


@contextmanager
def quietly() -> Iterator[None]:
    """Use one thread, because solvers' vectors are too short for more (two busy cores took 22 s where one takes 3), and
    ignore warnings about labels that all rows or none have, which get a constant, and classes of fewer rows than folds.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Label")
        warnings.filterwarnings("ignore", "The least populated class")
        yield
