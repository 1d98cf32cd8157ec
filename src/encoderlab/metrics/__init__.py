"""Scores over a whole split: collected batch by batch, computed once at the end, with intervals that say how certain
they are.
"""

from encoderlab.metrics.classification import ClassificationMetrics, Scores
from encoderlab.metrics.label_sets import LabelSetMetrics, LabelSetScores
from encoderlab.metrics.pretraining import PretrainingMetrics, PretrainingScores
from encoderlab.metrics.regression import NumberScores, RegressionMetrics
from encoderlab.metrics.scores import Metrics, PredictionScores, SplitScores
from encoderlab.metrics.tagging import TaggingMetrics, TaggingScores

__all__ = [
    "ClassificationMetrics",
    "LabelSetMetrics",
    "LabelSetScores",
    "Metrics",
    "NumberScores",
    "PredictionScores",
    "PretrainingMetrics",
    "PretrainingScores",
    "RegressionMetrics",
    "Scores",
    "SplitScores",
    "TaggingMetrics",
    "TaggingScores",
]
