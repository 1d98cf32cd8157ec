"""Scores by the length of the text: short texts say too little, and long ones are truncated or rare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from encoderlab.metrics import AnswerScores

MOST_BINS = 6


def scores_by_length(lengths: np.ndarray, scores: AnswerScores, seed: int) -> list[dict[str, Any]]:
    """Return `low` and `high` (both in the bin), `n`, the main `score` in each bin of lengths, and its 95% interval as
    `ci95`.

    `lengths` are those of the scored rows, [n]. The bins hold about equally many rows; there are fewer than six if many
    rows are of one length.
    """
    edges = np.unique(np.quantile(lengths, np.linspace(0, 1, MOST_BINS + 1), method="lower"))
    bin_of = np.minimum(np.searchsorted(edges, lengths, side="right") - 1, max(len(edges) - 2, 0))
    return [_scored(lengths, scores, np.flatnonzero(bin_of == place), seed) for place in range(max(len(edges) - 1, 1))]


def _scored(lengths: np.ndarray, scores: AnswerScores, places: np.ndarray, seed: int) -> dict[str, Any]:
    score, interval = scores.score_on(places, seed)
    return {
        "low": int(lengths[places].min()),
        "high": int(lengths[places].max()),
        "n": len(places),
        "score": score,
        "ci95": interval,
    }
