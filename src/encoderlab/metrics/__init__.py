"""Scores over a whole split: collected batch by batch, computed once at the end, with intervals that say how certain
they are.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from encoderlab.metrics.scores import PredictionScores
from encoderlab.metrics.tagging import tagging_scores
from encoderlab.metrics.texts import classification_scores, label_set_scores, number_scores


def scores_of_predictions(
    labels: Any, predicted: Any, names: Sequence[str], main: str, positive: int = 1
) -> PredictionScores:
    """Return the scores of predictions without probabilities, such as a baseline's: a list with an array of class ids
    for each sentence, class ids [n], sets of labels bool [n, labels], or numbers [n]. `names` are the labels',
    `positive` is the class that F1 of two is about.
    """
    if isinstance(labels, list):
        return tagging_scores(labels, list(predicted), names, main)
    predicted = np.asarray(predicted)
    if labels.dtype.kind in "iu":
        return classification_scores(labels, predicted, names, main, positive)
    if labels.dtype == bool:
        return label_set_scores(labels, predicted, names, main)
    return number_scores(labels, predicted, main)
