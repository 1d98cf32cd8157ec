"""Scores by the length of the text: short ones say too little, and long ones are cut or seldom seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from encoderlab.metrics.intervals import interval_of_share

if TYPE_CHECKING:
    from encoderlab.metrics import Scores

MOST_BINS = 6


def scores_by_length(lengths: np.ndarray, scores: Scores, seed: int) -> list[dict[str, Any]]:
    """`low` and `high` (both in the bin), `n`, the main `score` in each bin of lengths, and its 95% interval as `ci95`.

    `lengths` are those of the scored rows, [n]. The bins hold about as many rows each; there are fewer than six where many rows are
    of one length. Intervals of whole texts are Wilson's (1927), which have a width where all answers are right too; those of
    tagging draw sentences, as in `encoderlab.metrics.intervals`.
    """
    edges = np.unique(np.quantile(lengths, np.linspace(0, 1, MOST_BINS + 1), method="lower"))
    bin_of = np.minimum(np.searchsorted(edges, lengths, side="right") - 1, max(len(edges) - 2, 0))
    return [_scored(lengths, scores, np.flatnonzero(bin_of == place), seed) for place in range(max(len(edges) - 1, 1))]


def _scored(lengths: np.ndarray, scores: Scores, rows: np.ndarray, seed: int) -> dict[str, Any]:
    bounds = {"low": int(lengths[rows].min()), "high": int(lengths[rows].max()), "n": len(rows)}
    if isinstance(scores.labels, np.ndarray):
        hits = int((scores.labels[rows] == scores.predicted[rows]).sum())
        return {**bounds, "score": hits / len(rows), "ci95": _wilson(hits, len(rows))}
    asked = np.array([len(scores.labels[row]) for row in rows])
    right = np.array([int((scores.labels[row] == scores.predicted[row]).sum()) for row in rows])
    if not asked.sum():  # sentences without a word
        return {**bounds, "score": None, "ci95": None}
    return {**bounds, "score": float(right.sum() / asked.sum()), "ci95": interval_of_share(right, asked, seed)}


def _wilson(hits: int, n: int) -> list[float]:
    from scipy.stats import binomtest

    found = binomtest(hits, n).proportion_ci(method="wilson")
    return [float(found.low), float(found.high)]
