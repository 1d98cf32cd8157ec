"""Scores over a whole split: collected batch by batch, computed once at the end, with intervals that say how sure they are."""

from encoderlab.metrics.classification import ClassificationMetrics
from encoderlab.metrics.pretraining import PretrainingMetrics, PretrainingScores
from encoderlab.metrics.scores import Metrics, Scores, SplitScores
from encoderlab.metrics.tagging import TaggingMetrics

__all__ = ["ClassificationMetrics", "Metrics", "PretrainingMetrics", "PretrainingScores", "Scores", "SplitScores", "TaggingMetrics"]
