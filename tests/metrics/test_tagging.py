"""Scores of single tokens: at target positions only, with sequences whole and in the split's order."""

import json
import warnings

import numpy as np
import pytest
import seqeval.metrics
import sklearn.metrics
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.batch import Batch, Prediction
from encoderlab.metrics import scores_of_predictions
from encoderlab.metrics.entities import TaggingMetrics


def batch_of(rows, labels):
    """Return sequences of labels, each after one position that is not a target, padded to the longest."""
    length = max(len(sequence) for sequence in labels) + 1
    ids = torch.zeros(len(rows), length, dtype=torch.long)
    positions = [i * length + place + 1 for i, sequence in enumerate(labels) for place in range(len(sequence))]
    answers = torch.tensor([label for sequence in labels for label in sequence], dtype=torch.int32)
    return Batch(
        ids, ids, None, torch.tensor(rows), torch.tensor(positions, dtype=torch.long), None, answers, ids.numel()
    )


def metrics_of(names, main_score="token_accuracy"):
    return TaggingMetrics(names, main_score, lambda logits, batch: logits.argmax(-1))


def scores_of(labels, predicted, names, *, order=None, size=3, main_score="token_accuracy"):
    order = np.arange(len(labels)) if order is None else order
    metrics = metrics_of(names, main_score)
    for start in range(0, len(labels), size):
        rows = order[start : start + size]
        answers = [answer for row in rows for answer in predicted[row]]
        logits = torch.eye(len(names))[torch.tensor(answers, dtype=torch.long)] * 3
        metrics.keep(metrics.columns(Prediction(token_logits=logits), batch_of(rows, [labels[row] for row in rows])))
    return metrics.scores()


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_figure_equals_scikit_learns_over_all_target_positions(data):
    answer = st.tuples(st.integers(0, 2), st.integers(0, 2))
    pairs = data.draw(st.lists(st.lists(answer, max_size=5), min_size=1, max_size=12).filter(any))
    labels, predicted = [[a for a, _ in s] for s in pairs], [[b for _, b in s] for s in pairs]
    order = np.array(data.draw(st.permutations(range(len(pairs)))))
    scores = scores_of(labels, predicted, ["x", "y", "z"], order=order)
    flat, flat_predicted = sum(labels, []), sum(predicted, [])
    assert [sequence.tolist() for sequence in scores.labels] == labels
    assert [sequence.tolist() for sequence in scores.predicted] == predicted
    assert scores.n == len(pairs)
    assert scores.values["token_accuracy"] == pytest.approx(sklearn.metrics.accuracy_score(flat, flat_predicted))
    assert scores.values["accuracy"] == pytest.approx(
        np.mean([a == b for a, b in zip(labels, predicted, strict=True) if a])
    )
    expected = sklearn.metrics.f1_score(flat, flat_predicted, average="macro", zero_division=0)
    assert scores.values["f1_macro"] == pytest.approx(expected)
    assert np.sum(scores.confusion) == len(flat)


def test_a_sequence_without_targets_keeps_its_place_and_is_not_scored():
    scores = scores_of([[0], [], [1, 1]], [[0], [], [1, 0]], ["a", "b"])
    assert [len(sequence) for sequence in scores.predicted] == [1, 0, 2]
    assert scores.values["accuracy"] == 0.5


def test_scores_are_json_with_the_keys_of_the_contract():
    scores = scores_of([[0, 1], [1]], [[0, 1], [0]], ["a", "b"]).with_intervals(seed=1).as_dict()
    assert json.loads(json.dumps(scores)) == scores
    keys = {"n", "loss", "accuracy", "token_accuracy", "f1_macro", "f1_weighted", "per_class", "confusion"}
    assert keys | {"accuracy_ci95", "token_accuracy_ci95", "f1_macro_ci95", "f1_weighted_ci95"} == set(scores)


def test_whole_sentences_are_resampled():
    # 100 sentences of 20 words, each right or wrong throughout: 100 facts, not 2,000.
    right = np.random.default_rng(3).random(100) < 0.8
    scores = scores_of_predictions(
        [np.zeros(20, int)] * 100, [np.full(20, 0 if ok else 1) for ok in right], ["a", "b"], "token_accuracy"
    )
    low, high = scores.with_intervals(seed=0).intervals["token_accuracy"]
    share = right.mean()
    reach = 1.96 * np.sqrt(share * (1 - share) / 100)
    assert [low, high] == pytest.approx([share - reach, share + reach], abs=0.02)


def test_the_lead_over_a_baseline_counts_the_target_words():
    labels = [np.array([0, 0, 0]), np.array([1]), np.array([], dtype=int)]
    predicted = [np.array([0, 0, 0]), np.array([0]), np.array([], dtype=int)]
    scores = scores_of_predictions(labels, predicted, ["a", "b"], "token_accuracy")
    other = [np.array([0, 1, 1, 0, 0]), np.array([1]), np.array([1])]  # of all words, also of those that were cut off
    lead, (low, high) = scores.lead_over(other, seed=0)
    assert lead == pytest.approx(1 / 4)
    assert (low, high) == (pytest.approx(-1), pytest.approx(2 / 3))


BIO, BIOES = ["O", "B-x", "I-x", "B-y", "I-y"], ["O", *(f"{prefix}-{kind}" for kind in "xy" for prefix in "BIES")]


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([BIO, BIOES]))
def test_entities_are_counted_as_by_seqeval(data, names):
    pair = st.tuples(*[st.integers(0, len(names) - 1)] * 2)
    pairs = data.draw(st.lists(st.lists(pair, min_size=1, max_size=8), min_size=1, max_size=6))
    labels, predicted = ([np.array([one[side] for one in sentence]) for sentence in pairs] for side in (0, 1))
    scores = scores_of_predictions(labels, predicted, names, "entity_f1")
    theirs = [[[names[id_] for id_ in sentence] for sentence in side] for side in (labels, predicted)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # seqeval warns where there is nothing to divide by
        expected = seqeval.metrics.classification_report(*theirs, output_dict=True, zero_division=0)
    total = expected.pop("micro avg")
    for figure, name in (("precision", "precision"), ("recall", "recall"), ("f1", "f1-score")):
        assert scores.values[f"entity_{figure}"] == pytest.approx(total[name])
        for kind, figures in scores.per_entity.items():
            assert figures[figure] == pytest.approx(expected.get(kind, {name: 0})[name])
    assert sum(figures["support"] for figures in scores.per_entity.values()) == total["support"]


def test_entity_f1_leads_the_report_with_an_interval_over_sentences_and_one_for_each_type():
    labels, predicted = [[1, 2, 0, 3]] * 20, [[1, 2, 0, 3]] * 14 + [[1, 0, 0, 3]] * 6
    scores = scores_of(labels, predicted, BIO, main_score="entity_f1").with_intervals(seed=0)
    assert scores.main_score == "entity_f1" and scores.values["entity_f1"] == pytest.approx(2 * 34 / 80)
    low, high = scores.as_dict()["entity_f1_ci95"]
    assert 0.7 < low < 0.85 < high < 1
    of_x, of_y = scores.per_entity["x"], scores.per_entity["y"]
    assert (of_x["f1"], of_x["support"], of_y["f1_ci95"]) == (pytest.approx(0.7), 20, [1, 1])
    assert of_x["f1_ci95"][0] < 0.7 < of_x["f1_ci95"][1]
    lead, bounds = scores.lead_over([np.zeros(4, int)] * 20, seed=0)
    assert (lead, bounds) == (pytest.approx(0.85), pytest.approx([low, high]))
