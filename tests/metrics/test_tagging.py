"""Scores of single tokens: at the asked places only, sequences kept whole and in the split's order."""

import json

import numpy as np
import pytest
import sklearn.metrics
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.batch import Batch, Prediction
from encoderlab.errors import TrainingError
from encoderlab.metrics import TaggingMetrics


def batch_of(rows, labels):
    """Sequences of labels, with a place in front that is not asked, padded to the longest."""
    length = max(len(sequence) for sequence in labels) + 1
    ids = torch.zeros(len(rows), length, dtype=torch.long)
    asked = [i * length + place + 1 for i, sequence in enumerate(labels) for place in range(len(sequence))]
    answers = torch.tensor([label for sequence in labels for label in sequence], dtype=torch.int32)
    return Batch(ids, ids, None, torch.tensor(rows), torch.tensor(asked, dtype=torch.long), None, answers, ids.numel())


def scores_of(labels, predicted, names, *, order=None, size=3):
    order = np.arange(len(labels)) if order is None else order
    metrics = TaggingMetrics(names)
    for start in range(0, len(labels), size):
        rows = order[start : start + size]
        answers = [answer for row in rows for answer in predicted[row]]
        logits = torch.eye(len(names))[torch.tensor(answers, dtype=torch.long)] * 3
        metrics.add(Prediction(token_logits=logits), batch_of(rows, [labels[row] for row in rows]))
    return metrics.scores()


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_figure_is_scikit_learns_over_all_asked_places(data):
    answer = st.tuples(st.integers(0, 2), st.integers(0, 2))
    pairs = data.draw(st.lists(st.lists(answer, max_size=5), min_size=1, max_size=12).filter(any))
    labels, predicted = [[a for a, _ in s] for s in pairs], [[b for _, b in s] for s in pairs]
    order = np.array(data.draw(st.permutations(range(len(pairs)))))
    scores = scores_of(labels, predicted, ["x", "y", "z"], order=order)
    flat, flat_predicted = sum(labels, []), sum(predicted, [])
    assert [sequence.tolist() for sequence in scores.labels] == labels
    assert [sequence.tolist() for sequence in scores.predicted] == predicted
    assert scores.n == len(pairs)
    assert scores.figures["token_accuracy"] == pytest.approx(sklearn.metrics.accuracy_score(flat, flat_predicted))
    assert scores.figures["accuracy"] == pytest.approx(np.mean([a == b for a, b in zip(labels, predicted, strict=True) if a]))
    expected = sklearn.metrics.f1_score(flat, flat_predicted, average="macro", zero_division=0)
    assert scores.figures["f1_macro"] == pytest.approx(expected)
    assert np.sum(scores.confusion) == len(flat)


def test_loss_is_the_mean_over_places_and_not_over_batches():
    logits = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    metrics = TaggingMetrics(["a", "b"])
    metrics.add(Prediction(token_logits=logits[:2]), batch_of([1], [[0, 0]]))
    metrics.add(Prediction(token_logits=logits[2:]), batch_of([0], [[0]]))
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor([0, 0, 0])).item()
    assert metrics.scores().figures["loss"] == pytest.approx(expected)


def test_a_sequence_without_asked_places_stays_in_line_and_is_not_scored():
    scores = scores_of([[0], [], [1, 1]], [[0], [], [1, 0]], ["a", "b"])
    assert [len(sequence) for sequence in scores.predicted] == [1, 0, 2]
    assert scores.figures["accuracy"] == 0.5


def test_scores_are_json_with_the_keys_of_the_contract():
    scores = scores_of([[0, 1], [1]], [[0, 1], [0]], ["a", "b"]).with_intervals(seed=1).as_dict()
    assert json.loads(json.dumps(scores)) == scores
    keys = {"n", "loss", "accuracy", "token_accuracy", "f1_macro", "f1_weighted", "per_class", "confusion"}
    assert keys | {"accuracy_ci95", "token_accuracy_ci95", "f1_macro_ci95", "f1_weighted_ci95"} == set(scores)


def test_answers_that_are_no_numbers_are_refused():
    metrics = TaggingMetrics(["a", "b"])
    metrics.add(Prediction(token_logits=torch.full((2, 2), float("nan"))), batch_of([0], [[0, 1]]))
    with pytest.raises(TrainingError, match="not finite numbers in 2 of 2 places"):
        metrics.scores()


def test_our_own_mistakes_are_assertions():
    with pytest.raises(AssertionError, match="nothing was added"):
        TaggingMetrics(["a"]).scores()
    with pytest.raises(AssertionError, match="no place was asked"):
        scores_of([[]], [[]], ["a", "b"])
    with pytest.raises(AssertionError, match="added twice"):
        scores_of([[0], [1]], [[0], [1]], ["a", "b"], order=np.array([1, 1]))
    with pytest.raises(AssertionError, match="head for tokens"):
        TaggingMetrics(["a"]).add(Prediction(), batch_of([0], [[0]]))
