"""Baselines for pretraining: predictions from counts and lengths, to compare the encoder with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

DEPTH = 4  # at most 16 leaves: enough for a threshold or a band, too few to memorise pairs
LEAF_SHARE = 0.01  # least share of a tree's training pairs in each leaf


@dataclass(frozen=True, slots=True)
class PairFeatures:
    """What can be seen of pairs without reading them: `labels` [pairs], `overlap` [pairs], and `lengths` in pieces,
    [pairs, 2].

    `overlap` is the share of one text's distinct pieces that the other text has too, of the text with fewer of them; 0
    if a text is empty.
    """

    labels: np.ndarray
    overlap: np.ndarray
    lengths: np.ndarray


def pair_features(
    first: Sequence[np.ndarray], second: Sequence[np.ndarray], labels: Sequence[int] | np.ndarray
) -> PairFeatures:
    """Return the features of pairs whose texts are given as piece ids, without special tokens."""
    pieces = [(set(a.tolist()), set(b.tolist())) for a, b in zip(first, second, strict=True)]
    overlap = [len(a & b) / max(min(len(a), len(b)), 1) for a, b in pieces]
    lengths = [(len(a), len(b)) for a, b in zip(first, second, strict=True)]
    return PairFeatures(
        np.asarray(labels, dtype=np.int64),
        np.asarray(overlap, dtype=np.float64),
        np.asarray(lengths, dtype=np.int64).reshape(-1, 2),
    )


def pair_baselines(train: PairFeatures, scored: PairFeatures) -> dict[str, dict[str, float]]:
    """Return `nsp_accuracy` on `scored` of three baselines fitted on `train`, by name; neither may be empty.

    `majority` predicts the label that is most frequent in training; `word_overlap` and `length` are small decision
    trees (Breiman et al. 1984), one over the fraction of common pieces, the other over both texts' lengths and their
    difference.
    """
    from sklearn.tree import DecisionTreeClassifier

    assert len(train.labels), "baselines are fitted on pairs"
    assert len(scored.labels), "baselines are scored on pairs"
    majority = np.bincount(train.labels).argmax()
    found = {"majority": majority == scored.labels}
    for name, columns in (("word_overlap", _overlap), ("length", _lengths)):
        share: Any = LEAF_SHARE  # scikit-learn has no types, and type checkers infer an integer from its default
        tree = DecisionTreeClassifier(max_depth=DEPTH, min_samples_leaf=share, random_state=0)
        found[name] = tree.fit(columns(train), train.labels).predict(columns(scored)) == scored.labels
    return {name: {"nsp_accuracy": float(right.mean())} for name, right in found.items()}


def token_baselines(counts: np.ndarray, target_labels: np.ndarray) -> dict[str, dict[str, Any]]:
    """Return the scores of predicting by token counts; `target_labels` [targets] are the true ids, at least one.

    `counts` [vocabulary] says how often each id occurs in training, without special ones. `most_frequent_token` always
    predicts the same id; `unigram` gives every id its share of the training tokens, after adding one to each count
    (Laplace) so that none is impossible. Its `mlm_loss` is in nats per token.
    """
    assert len(target_labels), "baselines are scored on target tokens"
    most_frequent = int(counts.argmax())
    chances = (counts + 1) / (counts.sum() + len(counts))
    loss = float(-np.log(chances[target_labels]).mean())
    return {
        "most_frequent_token": {
            "mlm_accuracy": float((target_labels == most_frequent).mean()),
            "token_id": most_frequent,
        },
        "unigram": {"mlm_loss": loss, "mlm_perplexity": float(np.exp(loss))},
    }


def _overlap(pairs: PairFeatures) -> np.ndarray:
    return pairs.overlap[:, None]


def _lengths(pairs: PairFeatures) -> np.ndarray:
    return np.column_stack([pairs.lengths, pairs.lengths[:, 0] - pairs.lengths[:, 1]])
