"""Scores over a whole split, computed once from all batches, with intervals that say how certain they are."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from encoderlab.metrics.entities import TaggingScores
from encoderlab.metrics.scores import PredictionScores
from encoderlab.metrics.texts import LabelSetScores, NumberScores, classification_scores


def scores_of_predictions(
    labels: Any, predicted: Any, names: Sequence[str], main_score: str, positive: int = 1, beta: float | None = None
) -> PredictionScores:
    """Return the scores of predictions without probabilities, such as a baseline's: a list with an array of class ids
    for each sentence, class ids [n], sets of labels bool [n, labels], or numbers [n]. `names` are the labels',
    `positive` is the class that F1 and F-`beta` of two are about.
    """
    if isinstance(labels, list):
        return TaggingScores.from_predictions(labels, list(predicted), label_names=list(names), main_score=main_score)
    predicted = np.asarray(predicted)
    if labels.dtype.kind in "iu":
        return classification_scores(
            labels, predicted, names, main_score, positive, beta=beta if len(names) == 2 else None
        )
    if labels.dtype == bool:
        return LabelSetScores.from_predictions(labels, predicted, label_names=list(names), main_score=main_score)
    return NumberScores.from_predictions(labels, predicted, main_score=main_score)
