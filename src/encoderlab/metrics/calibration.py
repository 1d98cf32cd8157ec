"""From probabilities to predictions one can rely on: whether those with a confidence of 80% are right 80% of the time,
what a temperature corrects, and the thresholds from which labels are predicted, fitted for F1 or for a precision.

The error is the expected calibration error (ECE) of Guo et al. 2017, "On Calibration of Modern Neural Networks", eq. 3:
predictions are sorted into 15 bins of equal width by their confidence (the probability of the prediction), and the
distance between a bin's mean confidence and its accuracy is averaged over the bins, each weighted by its predictions.

Temperature and thresholds are fitted on validation rows, never on those that are scored. Log probabilities stand for
logits, which they equal up to a constant per row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from encoderlab.metrics.intervals import wilson

N_BINS = 15
MIN_BIN_ROWS = 10  # with fewer, a bin's accuracy says too little to be shown
LEAST_ROWS = 50  # of validation, below which a temperature says more about them than about the model
_MOST_CELLS = 2_000_000  # probabilities the temperature is fitted on: more would not change one number
_TEMPERATURES = (0.05, 20.0)
_LEAST = 1e-300  # a probability that has underflowed has no logarithm
DEFAULT = 0.5  # if there are no rows to fit it on
LEAST_POSITIVES = 10  # with fewer, a label's own F1 says too little, and it gets the threshold of all labels together


def calibration(confidences: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """Return `ece`, and in `reliability` the bins that hold any prediction; both arrays are [predictions].

    `accuracy_ci95` of a bin is Wilson's interval, None if it holds fewer than MIN_BIN_ROWS.
    """
    import pandas as pd

    table: Any = pd.DataFrame({"confidence": confidences, "accuracy": right})
    bin_of_each = np.minimum((confidences * N_BINS).astype(np.int64), N_BINS - 1)
    groups = table.groupby(bin_of_each)
    bins = groups.mean().assign(n=groups.size())
    bins = bins.assign(low=bins.index / N_BINS, high=(bins.index + 1) / N_BINS)
    gaps = (bins["confidence"] - bins["accuracy"]).abs()
    reliability = bins.to_dict("records")
    for row in reliability:
        has_enough = row["n"] >= MIN_BIN_ROWS
        row["accuracy_ci95"] = wilson(row["accuracy"], row["n"]) if has_enough else None
    return {
        "bins": N_BINS,
        "ece": float((bins["n"] * gaps).sum() / len(right)),
        "reliability": reliability,
    }


def fit_temperature(probabilities: np.ndarray, labels: np.ndarray) -> float | None:
    """Return the temperature, 0.05 to 20, at which `probabilities` [n, classes] have the least loss (Guo et al. 2017,
    section 4.2).

    A row's label counts as right by (n + 1) / (n + 2), as if one more of n rows were wrong (Platt 1999, section 2.2):
    without a mistake among few rows, the least loss would be that of certainty. Above 1 the temperature makes a model
    less confident; the predictions stay the same. None if the best is outside that range. Of very many rows, evenly
    spaced ones are used.
    """
    from scipy.optimize import minimize_scalar

    every = math.ceil(probabilities.size / _MOST_CELLS)
    probabilities = probabilities[::every]
    labels = labels[::every]
    n, classes = probabilities.shape
    targets = np.full((n, classes), 1 / (n + 2) / (classes - 1))
    targets[np.arange(n), labels] = (n + 1) / (n + 2)

    def loss(log_temperature: float) -> float:
        scaled = at_temperature(probabilities, math.exp(log_temperature))
        return -float((targets * np.log(np.maximum(scaled, _LEAST))).sum(-1).mean())

    bounds = tuple(math.log(temperature) for temperature in _TEMPERATURES)
    temperature = math.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x)
    return temperature if _TEMPERATURES[0] * 1.01 < temperature < _TEMPERATURES[1] / 1.01 else None


def calibrated_loss(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Return the cross entropy of `probabilities` [n, classes] at the temperature that fits them: what a model knows,
    however confident it is.
    """
    return cross_entropy_of(at_temperature(probabilities, fit_temperature(probabilities, labels) or 1.0), labels)


def cross_entropy_of(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean cross entropy, in nats, of `probabilities` [n, classes] given the class ids `labels` [n]."""
    return -float(np.log(np.maximum(probabilities[np.arange(len(labels)), labels], _LEAST)).mean())


def at_temperature(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Return softmax(logits / temperature), [n, classes]."""
    logits = np.log(np.maximum(probabilities, _LEAST)) / temperature
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def fit_thresholds(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return a threshold for each label, [labels], from the `probabilities` and the 0 or 1 of each label, both [rows,
    labels].

    Each label with at least LEAST_POSITIVES rows has the threshold of its own best F1, and the others have the one of
    the best micro F1 (SCutFBR.1's idea: Yang 2001, "A Study of Thresholding Strategies for Text Categorization",
    section 2.3).
    """
    fitted = np.full(labels.shape[1], best_threshold(probabilities.ravel(), labels.ravel()))
    for label in np.flatnonzero(labels.sum(0) >= LEAST_POSITIVES):
        fitted[label] = best_threshold(probabilities[:, label], labels[:, label])
    return fitted


def best_threshold(probabilities: np.ndarray, labels: np.ndarray, precision: float | None = None) -> float:
    """Return the threshold with the best F1; with a `precision`, the lowest that has it, and so the highest recall, or
    the most precise one if none has it.

    It is midway between the two probabilities that it separates. DEFAULT if no row has the label.
    """
    if not labels.any():
        return DEFAULT
    order = np.argsort(-probabilities, kind="stable")
    ranked = probabilities[order].astype(np.float64)
    following = np.append(ranked[1:], 0.0)
    # Between every two different probabilities, descending: how many rows with the label are above, and how many in all
    is_last = np.arange(len(ranked)) == len(ranked) - 1
    boundaries = np.flatnonzero((ranked != following) | is_last)
    hits = np.cumsum(labels[order])[boundaries]
    above = boundaries + 1
    if precision is None:
        f1 = 2 * hits / (above + labels.sum())
        best = f1.argmax()
    else:
        precise = np.flatnonzero(hits / above >= precision)
        best = precise[-1] if len(precise) else (hits / above).argmax()
    return float((ranked[boundaries] + following[boundaries])[best] / 2)


@dataclass(frozen=True, slots=True)
class ThresholdRule:
    """How the threshold of one label is found: it is `known`, or chosen for a `precision`, or else for the best F1."""

    known: float | None = None
    precision: float | None = None

    def on(self, probabilities: np.ndarray, labels: np.ndarray) -> float:
        """Return the threshold by this rule on rows with the `probabilities` and the 0 or 1 of the label, [rows]."""
        if self.known is not None:
            return self.known
        return best_threshold(probabilities, labels, self.precision)
