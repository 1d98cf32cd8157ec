"""Scores over a whole split: collected batch by batch, computed once at the end, with intervals that say how certain
they are.
"""

from encoderlab.metrics.classification import ClassificationMetrics
from encoderlab.metrics.label_sets import LabelSetMetrics, LabelSetScores
from encoderlab.metrics.pretraining import PretrainingMetrics, PretrainingScores
from encoderlab.metrics.regression import NumberScores, RegressionMetrics
from encoderlab.metrics.scores import AnswerScores, Metrics, Scores, SplitScores
from encoderlab.metrics.tagging import TaggingMetrics, TaggingScores

__all__ = [
    "AnswerScores",
    "ClassificationMetrics",
    "LabelSetMetrics",
    "LabelSetScores",
    "Metrics",
    "NumberScores",
    "PretrainingMetrics",
    "PretrainingScores",
    "RegressionMetrics",
    "Scores",
    "SplitScores",
    "TaggingMetrics",
    "TaggingScores",
]
