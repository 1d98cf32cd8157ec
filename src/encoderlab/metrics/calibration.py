"""Calibration: whether predictions with a confidence of 80% are right 80% of the time, and what a temperature corrects.

The error is the expected calibration error (ECE) of Guo et al. 2017, "On Calibration of Modern Neural Networks", eq. 3:
predictions are sorted into 15 bins of equal width by their confidence (the probability of the prediction), and the
distance between a bin's mean confidence and its accuracy is averaged over the bins, each weighted by its predictions.

The temperature is fitted on validation rows, never on those that are scored. Log probabilities stand for logits, which
they equal up to a constant per row.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

N_BINS = 15
_MOST_CELLS = (
    2_000_000  # probabilities the temperature is fitted on: it is one number, and more rows would not change it
)
_TEMPERATURES = (0.05, 20.0)
_LEAST = 1e-300  # a probability that has underflowed has no logarithm


def calibration(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Return the figures of `of_confidences`, and `brier` and `loss` of all `probabilities` [n, classes]; `labels` are
    ids [n].

    `brier` is Brier's score (1950), the squared distance between the probabilities and the one-hot label, summed over
    the classes and averaged over the rows: 0 is perfect, 2 the worst. `loss` is the mean cross entropy in nats.
    """
    of_label = probabilities[np.arange(len(labels)), labels]
    return {
        **of_confidences(probabilities.max(-1), probabilities.argmax(-1) == labels),
        "brier": float(np.mean((probabilities**2).sum(-1) - 2 * of_label + 1)),
        "loss": float(-np.log(np.maximum(of_label, _LEAST)).mean()),
    }


def of_confidences(confidences: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """Return `ece`, the ECE to be expected by chance alone, and the bins that it was computed from; both arrays are
    [answers].

    `ece_by_luck` is about the ECE that a perfectly calibrated model with these confidences would show on so few
    answers: the mean absolute value of a normal distribution with each bin's variance. `reliability` lists the bins
    that hold any answer: `low`, `high`, `n`, and the mean `confidence` and `accuracy` in them.
    """
    bin_of = np.minimum((confidences * N_BINS).astype(np.int64), N_BINS - 1)
    counts = np.bincount(bin_of, minlength=N_BINS)
    sums = {
        name: np.bincount(bin_of, weights=values, minlength=N_BINS)
        for name, values in (
            ("confidence", confidences),
            ("right", right),
            ("variance", confidences * (1 - confidences)),
        )
    }
    gaps = np.abs(sums["confidence"] - sums["right"]).sum()
    return {
        "bins": N_BINS,
        "ece": float(gaps / len(right)),
        "ece_by_luck": float(math.sqrt(2 / math.pi) * np.sqrt(sums["variance"]).sum() / len(right)),
        "reliability": [
            {
                "low": place / N_BINS,
                "high": (place + 1) / N_BINS,
                "n": int(counts[place]),
                "confidence": float(sums["confidence"][place] / counts[place]),
                "accuracy": float(sums["right"][place] / counts[place]),
            }
            for place in counts.nonzero()[0]
        ],
    }


def fit_temperature(probabilities: np.ndarray, labels: np.ndarray) -> float | None:
    """Return the temperature, 0.05 to 20, at which `probabilities` [n, classes] have the least loss (Guo et al. 2017,
    section 4.2).

    Above 1 it makes a model less confident; the predictions stay the same. None if the best is outside that range,
    because too few rows were wrong, or right. Of very many rows, some at equal distances are used.
    """
    from scipy.optimize import minimize_scalar

    every = math.ceil(probabilities.size / _MOST_CELLS)
    probabilities, labels = probabilities[::every], labels[::every]
    rows = np.arange(len(labels))

    def loss(log_temperature: float) -> float:
        of_label = at_temperature(probabilities, math.exp(log_temperature))[rows, labels]
        return float(-np.log(np.maximum(of_label, _LEAST)).mean())

    bounds = tuple(math.log(temperature) for temperature in _TEMPERATURES)
    found = math.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x)
    return found if _TEMPERATURES[0] * 1.01 < found < _TEMPERATURES[1] / 1.01 else None


def at_temperature(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Return softmax(logits / temperature), [n, classes]; log probabilities are logits up to a constant that softmax
    ignores.
    """
    logits = np.log(np.maximum(probabilities, _LEAST)) / temperature
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)
