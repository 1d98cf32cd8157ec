"""Rows whose label is probably wrong, by confident learning: Northcutt, Jiang and Chuang, Confident learning, JAIR 70, 2021.

A row counts for a class if its probability of that class reaches the mean probability that rows labelled so have of it (equations 1
and 2), and for the likeliest of several. Rows that count for another class than their label are the off-diagonal of the confident
joint, and those are returned, the least plausible label first. The probabilities have to come from models that have not seen the
row: out of fold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class LabelErrors:
    """Rows whose label is probably wrong, ranked: their places int64 [errors], the likely class int64 [errors], the margins.

    The normalized margin is the probability of the label less that of the likeliest other class, float64 [errors], rising.
    """

    rows: np.ndarray
    likely: np.ndarray
    margins: np.ndarray


def find_label_errors(labels: np.ndarray, probabilities: np.ndarray) -> LabelErrors:
    """Return the rows off the diagonal of the confident joint; `labels` are class ids [rows], `probabilities` [rows, classes]."""
    every = np.arange(len(labels))
    n_classes = probabilities.shape[1]
    own = probabilities[every, labels]
    counts = np.bincount(labels, minlength=n_classes)
    thresholds = np.full(n_classes, np.inf)  # no row counts for a class that is no row's label
    np.divide(np.bincount(labels, own, n_classes), counts, out=thresholds, where=counts > 0)
    # One rounding must not keep a row from its own threshold: with a single row of a label, that is the row's probability.
    confident = probabilities >= thresholds - 1e-12
    likely = np.where(confident, probabilities, -1.0).argmax(1)
    others = probabilities.copy()
    others[every, labels] = -1.0
    margins = own - others.max(1)
    found = np.flatnonzero(confident.any(1) & (likely != labels))
    ranked = found[np.argsort(margins[found], kind="stable")]
    return LabelErrors(ranked, likely[ranked], margins[ranked])
