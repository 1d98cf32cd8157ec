"""A score of one's own: a function of labels and predictions, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from encoderlab.errors import SettingError
from encoderlab.system.own_functions import OwnFunction

RESAMPLES = 200  # of the rows: a function may take milliseconds


@dataclass(frozen=True, slots=True)
class OwnScore:
    """A function that is called with the labels and the predictions of all rows: arrays of names, of numbers or, for
    sets of labels, of truth values [rows, labels]; of words, lists of lists of names.
    """

    function: OwnFunction

    @property
    def name(self) -> str:
        """Return the name of the score in reports."""
        return self.function.name

    def of(self, labels: Any, predicted: Any) -> float:
        """Return the score. Raises SettingError if the function fails, or returns no finite number."""
        try:
            score = float(self.function.call(labels, predicted))
        except Exception as error:  # of any kind: the function is the user's
            problem = f"task.score={self.function.dotted} fails: {type(error).__name__}: {error}"
            raise SettingError(problem, remedy="It is called with the labels and the predictions of all rows") from None
        if not np.isfinite(score):
            raise SettingError(f"task.score={self.function.dotted} returned {score}", allowed="a finite number")
        return score

    def drawn(self, labels: Any, sides: Sequence[Any], seed: int) -> np.ndarray:
        """Return the scores of bootstrap splits of the rows, for each side's predictions: [RESAMPLES, sides]."""
        n = len(labels)
        random = np.random.default_rng(seed)
        scores = np.empty((RESAMPLES, len(sides)))
        for split in range(RESAMPLES):
            rows = random.integers(0, n, n)
            drawn_labels = _rows_of(labels, rows)
            scores[split] = [self.of(drawn_labels, _rows_of(side, rows)) for side in sides]
        return scores


def _rows_of(values: Any, rows: np.ndarray) -> Any:
    """Return some rows of an array or a list."""
    return values[rows] if isinstance(values, np.ndarray) else [values[row] for row in rows]
