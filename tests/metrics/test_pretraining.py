"""Scores of pretraining: over all target tokens at once, with rows as clusters, over pairs if there are any, and of a
student's vectors.
"""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from encoderlab.batch import Batch, Prediction, TeacherOutputs
from encoderlab.metrics.pretraining import PretrainingMetrics, TeacherVectorsMetrics

VOCABULARY = 11
KEYS = {"n", "loss", "mlm_loss", "mlm_accuracy", "mlm_perplexity", "target_tokens", "mlm_accuracy_ci95"}


def batch_of(rows, labels, pairs=None):
    """Return rows with these target ids, each preceded by one position that is not a target."""
    length = max(map(len, labels)) + 1
    ids = torch.zeros(len(rows), length, dtype=torch.long)
    positions = [i * length + place + 1 for i, row in enumerate(labels) for place in range(len(row))]
    answers = torch.tensor([label for row in labels for label in row], dtype=torch.long)
    pairs = None if pairs is None else torch.tensor(pairs, dtype=torch.int32)
    return Batch(
        ids, ids, None, torch.tensor(rows), torch.tensor(positions, dtype=torch.long), pairs, answers, ids.numel()
    )


def scores_of(labels, logits, pairs=None, pair_logits=None, *, order=None, size=3):
    """Score `logits`: for each row, [its target tokens, vocabulary]."""
    order = list(range(len(labels))) if order is None else order
    metrics, kept = PretrainingMetrics(None if pairs is None else "next"), []
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        token_logits = torch.cat([logits[row].reshape(-1, VOCABULARY) for row in rows])
        sequence_logits = None if pairs is None else pair_logits[rows]
        batch = batch_of(rows, [labels[row] for row in rows], None if pairs is None else [pairs[row] for row in rows])
        kept.append(metrics.columns(Prediction(sequence_logits, token_logits), batch))
    return metrics.scores(kept)


def drawn(seed, sizes):
    random = torch.Generator().manual_seed(seed)
    labels = [torch.randint(VOCABULARY, (size,), generator=random).tolist() for size in sizes]
    logits = [torch.randn(size, VOCABULARY, generator=random) for size in sizes]
    pairs = torch.randint(2, (len(sizes),), generator=random).tolist()
    return labels, logits, pairs, torch.randn(len(sizes), 2, generator=random)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=12).filter(any), st.integers(0, 99), st.integers(1, 5), st.data()
)
def test_figures_are_computed_over_all_targets_at_once_however_batched(sizes, seed, size, data):
    labels, logits, pairs, pair_logits = drawn(seed, sizes)
    order = data.draw(st.permutations(range(len(sizes))))
    scores = scores_of(labels, logits, pairs, pair_logits, order=order, size=size)
    flat, answers = torch.cat(logits), torch.tensor(sum(labels, []))
    mlm, nsp = cross_entropy(flat, answers).item(), cross_entropy(pair_logits, torch.tensor(pairs)).item()
    assert scores.values["mlm_loss"] == pytest.approx(mlm, abs=1e-5)
    assert scores.values["mlm_perplexity"] == pytest.approx(math.exp(mlm), rel=1e-4)
    assert scores.values["mlm_accuracy"] == pytest.approx((flat.argmax(-1) == answers).float().mean().item())
    assert scores.values["nsp_loss"] == pytest.approx(nsp, abs=1e-5)
    assert scores.values["nsp_accuracy"] == pytest.approx(np.mean(pair_logits.argmax(-1).numpy() == pairs))
    assert scores.values["loss"] == pytest.approx(mlm + nsp, abs=1e-5)
    assert scores.values["target_tokens"] == sum(sizes)
    assert (scores.n, scores.n_targets.tolist()) == (len(sizes), sizes)
    assert scores.hits.tolist() == [
        int((x.argmax(-1) == torch.tensor(y)).sum()) for x, y in zip(logits, labels, strict=True)
    ]
    assert scores.token_labels.tolist() == sum(labels, [])
    assert scores.pairs_right.tolist() == (pair_logits.argmax(-1).numpy() == pairs).tolist()


def test_scores_are_json_with_the_keys_of_the_contract():
    paired = scores_of(*drawn(0, [3, 2, 4])).with_intervals(seed=1)
    assert json.loads(json.dumps(paired.as_dict())) == paired.as_dict()
    assert set(paired.as_dict()) == KEYS | {"nsp_loss", "nsp_accuracy", "nsp_accuracy_ci95"}
    assert paired.main_score == "mlm_accuracy"


def sure(labels, right):
    """Return logits that predict all tokens of a row if `right` says so, and none otherwise."""
    rows = [
        torch.tensor(row) if ok else (torch.tensor(row) + 1) % VOCABULARY for row, ok in zip(labels, right, strict=True)
    ]
    return [torch.eye(VOCABULARY)[row] * 5 for row in rows]


def test_the_interval_over_tokens_resamples_whole_rows():
    # 200 rows of 20 tokens, right or wrong throughout: 200 facts, not 4,000.
    right = np.random.default_rng(1).random(200) < 0.7
    labels = [[1] * 20] * 200
    pairs = torch.zeros(200, dtype=torch.long)
    pair_logits = torch.eye(2)[torch.tensor(~right, dtype=torch.long)]
    intervals = scores_of(labels, sure(labels, right), pairs.tolist(), pair_logits).with_intervals(seed=0).intervals
    share, half = right.mean(), 1.96 * math.sqrt(0.7 * 0.3 / 200)
    assert intervals["mlm_accuracy"] == pytest.approx([share - half, share + half], abs=0.015)
    assert intervals["nsp_accuracy"] == pytest.approx(intervals["mlm_accuracy"], abs=0.015)


LENGTH, WIDTH = 3, 4
DRAW = torch.Generator().manual_seed(0)
STUDENT, TEACHER = (torch.randn(5, LENGTH, WIDTH, generator=DRAW) for _ in range(2))


def columns_of(rows, student=STUDENT):
    ids = torch.zeros(len(rows), LENGTH, dtype=torch.long)
    of_tokens = torch.arange(len(rows) * LENGTH)
    teacher = TeacherOutputs(sequence_vectors=TEACHER[rows].mean(1), token_vectors=TEACHER[rows].flatten(0, 1))
    batch = Batch(ids, ids, None, torch.tensor(rows), of_tokens, None, None, ids.numel(), teacher=teacher)
    vectors = Prediction(sequence_vectors=student[rows].mean(1), token_vectors=student[rows].flatten(0, 1))
    return TeacherVectorsMetrics().columns(vectors, batch)


def test_the_figures_are_the_mean_cosines_of_texts_and_of_tokens():
    found = TeacherVectorsMetrics().scores([columns_of([0, 1, 2, 3, 4])])
    token = torch.cosine_similarity(STUDENT, TEACHER, dim=-1).mean().item()
    sequence = torch.cosine_similarity(STUDENT.mean(1), TEACHER.mean(1), dim=-1).mean().item()
    assert found.values == pytest.approx(
        {"loss": 2 - token - sequence, "sequence_cosine": sequence, "token_cosine": token}, abs=1e-5
    )
    low, high = found.with_intervals(0).as_dict()["sequence_cosine_ci95"]
    assert low < found.values["sequence_cosine"] < high


def test_batches_in_another_order_give_the_same_rows():
    whole = TeacherVectorsMetrics().scores([columns_of([0, 1, 2, 3, 4])])
    parts = TeacherVectorsMetrics().scores([columns_of([3, 4]), columns_of([2, 0, 1])])
    assert parts.rows.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(whole.cosines, parts.cosines, rtol=1e-5)
