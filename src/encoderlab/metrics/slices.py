"""Scores of parts of a split, by the values of a column: where a model is weaker than its score says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from encoderlab.metrics import scores_of_predictions
from encoderlab.metrics.intervals import bootstrap_totals, middle
from encoderlab.metrics.scores import PredictionScores, is_lower_better

MOST_VALUES = 30  # of a column that are scored, the most frequent ones
OTHERS = "(others)"  # the rows of further values, together
LEAST_ROWS = 10  # of a value that may be called the weakest: fewer are mostly chance


def scores_by_value(scores: PredictionScores, values: Sequence[str], seed: int) -> dict[str, Any]:
    """Return the main score of the rows of each value, with `n` and its 95% interval, and which value is the
    `weakest`, None if all are level or no two have LEAST_ROWS. It is behind all other rows by `behind_by`, whose
    interval is that of a bootstrap in which both parts are drawn by themselves. `values` are those of the scored rows.
    """
    counts = Counter(values)
    named = {value for value, _ in counts.most_common(MOST_VALUES)}
    shown = np.array([value if value in named else OTHERS for value in values], object)
    own_order = [*(value for value, _ in counts.most_common(MOST_VALUES)), OTHERS]
    name = scores.main_score
    by_value = {}
    for value in own_order:
        rows = np.flatnonzero(shown == value)
        if len(rows):
            part = _on_rows(scores, rows).with_intervals(seed)
            by_value[value] = {"n": part.n, name: part.values[name], f"{name}_ci95": part.intervals.get(name)}
    many = [value for value, own in by_value.items() if own["n"] >= LEAST_ROWS and value != OTHERS]
    worst = max if is_lower_better(name) else min
    differ = len({by_value[value][name] for value in many}) > 1
    weakest = worst(many, key=lambda value: by_value[value][name]) if differ else None
    facts = {"values": by_value, "weakest": weakest}
    return facts if weakest is None else facts | _behind(scores, shown == weakest, seed)


def _behind(scores: PredictionScores, is_weak: np.ndarray, seed: int) -> dict[str, Any]:
    """Return how far the marked rows, [rows], are behind the others in the main score, with its 95% interval."""
    name = scores.main_score
    drawn = []
    for number, marks in enumerate((~is_weak, is_weak)):
        part = _on_rows(scores, np.flatnonzero(marks))
        drawn.append(part.scores_of(bootstrap_totals(*part.kinds(), seed + number)[:, 0])[name])
    behind = (drawn[0] - drawn[1]) * (-1.0 if is_lower_better(name) else 1.0)
    return {"behind_by": float(behind[0]), "behind_by_ci95": middle(behind[1:])}


def _on_rows(scores: PredictionScores, rows: np.ndarray) -> PredictionScores:
    """Return the scores of some of the scored rows, given their places."""
    labels = _taken(scores.labels, rows)
    predicted = _taken(scores.predicted, rows)
    names = getattr(scores, "label_names", [])
    positive = getattr(scores, "positive", None)
    return scores_of_predictions(labels, predicted, names, scores.main_score, 1 if positive is None else positive)


def _taken(side: Any, rows: np.ndarray) -> Any:
    return [side[row] for row in rows.tolist()] if isinstance(side, list) else side[rows]
