"""Labels that are probably wrong: confident learning, and for numbers the largest residuals.

Confident learning (Northcutt, Jiang and Chuang, JAIR 70, 2021): a row counts for a class if its probability of that
class reaches the mean probability that rows labelled so have of it (equations 1 and 2), and for the likeliest of
several. Rows that count for another class than their label are the off-diagonal of the confident joint. They are
returned, the least plausible label first, except rows whose label is the likeliest class: a rare class has a low
threshold, and these rows are merely uncertain.

The words of sentences are rows of their own (Wang and Mueller, arXiv 2210.03920). In sets of labels, each label is a
question with two classes, given and not given (Thyagarajan, Snorrason, Northcutt and Mueller, arXiv 2211.13895). All
predictions have to come from models that have not seen the row: out of fold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FAR = 3.5  # robust standard deviations: the outliers of Iglewicz and Hoaglin, How to detect and handle outliers, 1993
_DEVIATION_OF_MEDIAN = 1.4826  # a normal distribution's standard deviation, in median absolute deviations


@dataclass(frozen=True, slots=True)
class LabelErrors:
    """Rows whose label is probably wrong, ranked: their places int64 [errors], the likely class int64 [errors], the
    margins.

    The normalized margin is the probability of the label less that of the likeliest other class, float64 [errors],
    rising.
    """

    rows: np.ndarray
    likely: np.ndarray
    margins: np.ndarray


@dataclass(frozen=True, slots=True)
class LabelSetErrors:
    """Labels that are probably missing from a row, or wrongly given, ranked: rows and labels int64 [errors], the
    margins.

    The margin is the probability that the label is as it is (given or not) less that of the opposite, float64 [errors],
    rising.
    """

    rows: np.ndarray
    labels: np.ndarray
    margins: np.ndarray


@dataclass(frozen=True, slots=True)
class NumberErrors:
    """Rows whose number is probably wrong, ranked: their places int64 [errors], and residuals in robust standard
    deviations.

    A residual is the label less the prediction; `distances` float64 [errors] are signed, their absolute values fall.
    """

    rows: np.ndarray
    distances: np.ndarray


def find_label_errors(labels: np.ndarray, probabilities: np.ndarray) -> LabelErrors:
    """Return the rows whose label is probably wrong; `labels` are class ids [rows], `probabilities` [rows, classes]."""
    every = np.arange(len(labels))
    n_classes = probabilities.shape[1]
    own = probabilities[every, labels]
    counts = np.bincount(labels, minlength=n_classes)
    thresholds = np.full(n_classes, np.inf)  # no row counts for a class that no row is labelled with
    np.divide(np.bincount(labels, own, n_classes), counts, out=thresholds, where=counts > 0)
    # Rounding must not keep a row from its own threshold: with a single row of a label, that is the row's probability.
    confident = probabilities >= thresholds - 1e-12
    likely = np.where(confident, probabilities, -1.0).argmax(1)
    others = probabilities.copy()
    others[every, labels] = -1.0
    margins = own - others.max(1)
    found = np.flatnonzero(confident.any(1) & (likely != labels) & (margins < 0))
    ranked = found[np.argsort(margins[found], kind="stable")]
    return LabelErrors(ranked, likely[ranked], margins[ranked])


def find_label_set_errors(given: np.ndarray, probabilities: np.ndarray) -> LabelSetErrors:
    """Return what `find_label_errors` finds for each label by itself; `given` is bool, `probabilities` float, [rows,
    labels].
    """
    rows, labels, margins = [], [], []
    for label, (given_to, of_label) in enumerate(zip(given.T, probabilities.T, strict=True)):
        found = find_label_errors(given_to.astype(np.int64), np.stack([1 - of_label, of_label], axis=1))
        rows.append(found.rows)
        labels.append(np.full(len(found.rows), label))
        margins.append(found.margins)
    ranked = np.argsort(np.concatenate(margins), kind="stable")
    return LabelSetErrors(np.concatenate(rows)[ranked], np.concatenate(labels)[ranked], np.concatenate(margins)[ranked])


def find_number_errors(labels: np.ndarray, predicted: np.ndarray) -> NumberErrors:
    """Return the rows whose residual is more than 3.5 robust standard deviations from the median residual; both are
    [rows].

    The robust standard deviation is 1.4826 times the median absolute deviation, which a few wrong labels do not change.
    There are no errors if it is zero.
    """
    residuals = labels - predicted
    residuals = residuals - np.median(residuals)
    deviation = _DEVIATION_OF_MEDIAN * np.median(np.abs(residuals))
    distances = np.divide(residuals, deviation, out=np.zeros(len(residuals)), where=deviation > 0)
    found = np.flatnonzero(np.abs(distances) > FAR)
    ranked = found[np.argsort(-np.abs(distances[found]), kind="stable")]
    return NumberErrors(ranked, distances[ranked])
