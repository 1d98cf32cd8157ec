"""Two models' predictions pooled into one: (1 - weight) x the first's logits + weight x the second's.

Of classes this is the logarithmic opinion pool, the weighted geometric mean of both distributions (Genest and Zidek
1986, "Combining Probability Distributions", section 3); of several labels the same for each of them; of numbers the
weighted mean. A weight of 1/2 gives equal parts, one of 2/3 twice the second. A scale follows: the inverse of the
temperature of `metrics.calibration`.

Weight and scale have the least loss on held-out rows, which is convex in the two models' factors (Wolpert 1992,
"Stacked Generalization").
"""

from __future__ import annotations

from typing import Literal, TypeVar

import numpy as np
from torch import Tensor

Logits = TypeVar("Logits", np.ndarray, Tensor)
Kind = Literal["label", "label_set", "number"]  # a class of each row, a set of labels, a number


def pooled(first: Logits, second: Logits, weight: float) -> Logits:
    """Return the pool of both models' logits or numbers, [rows, outputs]."""
    return (1 - weight) * first + weight * second


def losses_of(kind: Kind, logits: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the loss of each row, [rows]: cross entropy of its class, the mean over its labels, or the squared error.

    `targets` are class ids, [rows], marks of labels, [rows, labels], or numbers, [rows].
    """
    from scipy.special import log_expit, log_softmax

    if kind == "label":
        return -log_softmax(logits, axis=1)[np.arange(len(logits)), targets]
    if kind == "label_set":
        return -np.where(targets, log_expit(logits), log_expit(-logits)).mean(1)
    return (logits[:, 0] - targets) ** 2


def fitted_weight(kind: Kind, first: np.ndarray, second: np.ndarray, targets: np.ndarray) -> float:
    """Return the weight of the second model, from 0 to 1, with which the pool has the least loss at its best scale."""
    one, other = _factors(kind, [first, second], targets)
    return float(other / (one + other)) if one + other > 0 else 0.0


def fitted_scale(kind: Kind, logits: np.ndarray, targets: np.ndarray) -> float:
    """Return the factor of the logits or numbers with the least loss."""
    return float(_factors(kind, [logits], targets)[0])


def _factors(kind: Kind, models: list[np.ndarray], targets: np.ndarray) -> np.ndarray:
    """Return the factor of each model's logits, none below 0, with which their sum has the least loss: [models]."""
    from scipy.optimize import minimize, nnls
    from scipy.special import log_expit, log_softmax

    if kind == "number":
        factors, _ = nnls(np.stack([model[:, 0] for model in models], axis=1), targets)
        return factors

    def loss_and_slopes(factors: np.ndarray) -> tuple[float, np.ndarray]:
        total = np.tensordot(factors, np.stack(models), 1)
        expected, n = _smoothed(kind, total.shape, targets)
        if kind == "label":
            log_chances = log_softmax(total, axis=1)
            loss = -(expected * log_chances).sum() / n
        else:
            log_chances = log_expit(total)
            loss = -(expected * log_chances + (1 - expected) * log_expit(-total)).sum() / n
        error = (np.exp(log_chances) - expected) / n
        return float(loss), np.array([(error * model).sum() for model in models])

    start = np.full(len(models), 1 / len(models))
    return minimize(loss_and_slopes, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(models)).x


def _smoothed(kind: Kind, shape: tuple[int, ...], targets: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the expected probabilities, [rows, outputs], and the number of predictions: of n rows, as if one more were
    wrong (see `calibration.fit_temperature`).
    """
    n, outputs = shape
    if kind == "label":
        expected = np.full(shape, 1 / (n + 2) / max(outputs - 1, 1))
        expected[np.arange(n), targets] = (n + 1) / (n + 2)
        return expected, n
    return np.where(targets, (n + 1) / (n + 2), 1 / (n + 2)), n * outputs
