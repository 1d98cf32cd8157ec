"""Baselines of pretraining: each wins if its clue gives the answer away, and none does without a clue."""

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from encoderlab.baselines.pretraining import pair_baselines, pair_features, token_baselines


def pairs(n, *, seed, overlap_tells=False, length_tells=False, share_random=0.5):
    """Return `n` pairs; those of label 1 share no pieces (`overlap_tells`) or have a long second text (`length_tells`)."""
    random = np.random.default_rng(seed)
    labels = (random.random(n) < share_random).astype(int)
    first = [random.integers(0, 1000, 10) for _ in range(n)]
    second = []
    for a, label in zip(first, labels, strict=True):
        text = random.integers(1000, 2000, 20 if length_tells and label else 10)
        text[:4] = a[:4] if not (overlap_tells and label) else text[:4]
        second.append(text)
    return pair_features(first, second, labels)


def accuracies(**options):
    found = pair_baselines(pairs(2000, seed=1, **options), pairs(1000, seed=2, **options))
    return {name: figures["nsp_accuracy"] for name, figures in found.items()}


def test_without_a_clue_no_baseline_beats_chance():
    assert all(abs(accuracy - 0.5) < 0.06 for accuracy in accuracies().values())


def test_negative_pairs_without_shared_words_are_found_by_overlap():
    found = accuracies(overlap_tells=True)
    assert found["word_overlap"] > 0.99
    assert found["length"] < 0.6
    assert found["majority"] < 0.6


def test_longer_negative_pairs_are_found_by_length():
    found = accuracies(length_tells=True)
    assert found["length"] == 1.0
    assert found["majority"] < 0.6


def test_which_text_is_the_longer_one_is_a_clue_at_any_length():
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 3000)
    short = random.integers(5, 200, 3000)
    sizes = [(n, n + 3) if label else (n + 3, n) for n, label in zip(short, labels, strict=True)]
    texts = [(random.integers(0, 9000, a), random.integers(0, 9000, b)) for a, b in sizes]
    features = pair_features([a for a, _ in texts], [b for _, b in texts], labels)
    assert pair_baselines(features, features)["length"]["nsp_accuracy"] == 1.0


@pytest.mark.parametrize("n", [1, 2])
def test_the_smallest_corpus_has_baselines_too(n):
    some = pair_features([np.array([1])] * n, [np.array([2])] * n, list(range(n)))
    assert set(pair_baselines(some, some)) == {"majority", "word_overlap", "length"}


def test_overlap_is_the_share_of_the_shorter_texts_distinct_pieces():
    first = [np.array([1, 1, 2, 3, 4]), np.array([5, 6]), np.array([], dtype=int), np.array([7, 8])]
    second = [np.array([1, 9]), np.array([5, 5, 6, 7]), np.array([1]), np.array([9])]
    features = pair_features(first, second, [0, 1, 0, 1])
    assert features.overlap.tolist() == [0.5, 1.0, 0.0, 0.0]
    assert features.lengths.tolist() == [[5, 2], [2, 4], [0, 1], [2, 1]]
    assert features.labels.tolist() == [0, 1, 0, 1]


ids = st.lists(st.integers(0, 20), max_size=10).map(np.array)


def test_the_most_frequent_token_is_that_of_training():
    found = token_baselines(np.array([0, 3, 90, 7]), np.array([2, 2, 1, 3]))
    assert found["most_frequent_token"] == {"mlm_accuracy": 0.5, "token_id": 2}


def test_the_unigrams_loss_is_the_cross_entropy_of_smoothed_counts():
    found = token_baselines(np.array([0, 3, 90, 7]), np.array([2, 0]))["unigram"]
    loss = -(math.log(91 / 104) + math.log(1 / 104)) / 2
    assert found["mlm_loss"] == pytest.approx(loss)
    assert found["mlm_perplexity"] == pytest.approx(math.exp(loss))
