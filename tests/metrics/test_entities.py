"""Scores of single tokens, at target positions only, and of entities: found as conlleval finds them, decoded as the scheme
allows.
"""

import json
import warnings
from itertools import product

import numpy as np
import pytest
import seqeval.metrics
import sklearn.metrics
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.batch import Batch, Prediction
from encoderlab.metrics import scores_of_predictions
from encoderlab.metrics.entities import TaggingMetrics, ValidDecoder, entity_labels, repaired


@pytest.mark.parametrize(
    ("names", "bioes"),
    [
        (["B-PER", "I-PER", "O"], False),
        (["I-PER", "O"], False),  # IOB1 without two neighbours of one type
        (["B-a-b", "O"], False),
        (["B", "I", "O"], False),
        (["B-x", "E-x", "O", "S-x"], True),
        (["B", "E", "I", "O", "S"], True),
        (["B-x", "I-x", "L-x", "O", "U-x"], True),  # BILUO, as spaCy writes it
        (["B-x", "O", "U-x"], True),
        (["B-x", "E-x", "M-x", "O", "W-x"], True),
        (["B", "E", "M", "S"], True),  # words of Chinese, without anything outside
    ],
)
def test_labels_with_prefixes_are_entity_labels(names, bioes):
    assert entity_labels(names).bioes is bioes


@pytest.mark.parametrize(
    "names", [[], ["NOUN", "O"], ["B-x", "I-x", "X"], ["B", "C"], ["O", "S"], ["S-Bahn", "O"], ["0", "1"]]
)
def test_other_labels_are_not(names):
    assert entity_labels(names) is None


@pytest.mark.parametrize("letters", ["BIES", "BILU", "BMEW", "BMES"])
def test_schemes_of_other_letters_mean_bioes_and_keep_their_own(letters):
    begin, middle, end, single = (f"{letter}-x" for letter in letters)
    names = ["O", begin, middle, end, single]
    labels = entity_labels(names)
    assert labels.prefixes == ("O", "B", "I", "E", "S")
    ids = np.array([names.index(name) for name in (begin, middle, end, "O", middle)])
    assert repaired(labels, ids, np.array([5])) == [begin, middle, end, "O", single]


LABELS = entity_labels(["O", "B-per", "I-per", "B-loc", "I-loc"])
OUT, B_PER, I_PER, _, I_LOC = range(5)


def test_no_entity_extends_into_the_next_sentence_and_inside_labels_begin_one_where_there_is_none():
    ids = np.array([B_PER, I_PER, I_PER, OUT, OUT, I_PER, I_LOC, I_LOC])
    read = repaired(LABELS, ids, np.array([2, 2, 4]))
    assert read == ["B-per", "I-per", "B-per", "O", "O", "B-per", "B-loc", "I-loc"]


def valid_sequences(names, n_words):
    """Return the sequences that are read as they are written."""
    paths = product(range(len(names)), repeat=n_words)
    read = {path: repaired(entity_labels(names), np.array(path), np.array([n_words])) for path in paths}
    return [path for path, valid in read.items() if valid == [names[id_] for id_ in path]]


def best_by_trying_all(names, log_probabilities):
    paths = valid_sequences(names, len(log_probabilities))
    return list(max(paths, key=lambda path: sum(log_probabilities[word, id_] for word, id_ in enumerate(path))))


@pytest.mark.parametrize(
    "names",
    [["O", "B-x", "I-x", "B-y", "I-y"], ["O", "B-x", "I-x", "E-x", "S-x", "S-y"], ["O", "B-x", "I-x", "L-x", "U-x"]],
)
def test_decoding_finds_the_best_of_all_valid_sequences(names):
    torch.manual_seed(0)
    labels = entity_labels(names)
    lengths = [3, 0, 1, 4, 2]
    logits = torch.randn(sum(lengths), len(names)) * 2
    row = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    found = ValidDecoder(labels).decode(logits, row, len(lengths), longest=6).split(lengths)
    expected = [best_by_trying_all(names, part.log_softmax(-1)) if len(part) else [] for part in logits.split(lengths)]
    assert [part.tolist() for part in found] == expected
    assert [part.argmax(-1).tolist() for part in logits.split(lengths)] != expected


def test_labels_without_a_valid_sequence_are_still_decoded():
    labels = entity_labels(["B-x", "E-x", "I-x"])  # no label for a sentence of one word
    found = ValidDecoder(labels).decode(torch.eye(3)[:1], torch.zeros(1, dtype=torch.long), n_rows=1, longest=1)
    assert found.tolist() in ([0], [1])


def batch_of(rows, labels):
    """Return sequences of labels, each after one position that is not a target, padded to the longest."""
    length = max(len(sequence) for sequence in labels) + 1
    ids = torch.zeros(len(rows), length, dtype=torch.long)
    positions = [i * length + place + 1 for i, sequence in enumerate(labels) for place in range(len(sequence))]
    answers = torch.tensor([label for sequence in labels for label in sequence], dtype=torch.int32)
    return Batch(
        ids, ids, None, torch.tensor(rows), torch.tensor(positions, dtype=torch.long), None, answers, ids.numel()
    )


def scores_of(labels, predicted, names, *, order=None, size=3, main_score="token_accuracy"):
    order = np.arange(len(labels)) if order is None else order
    metrics, kept = TaggingMetrics(names, main_score, lambda logits, batch: logits.argmax(-1)), []
    for start in range(0, len(labels), size):
        rows = order[start : start + size]
        answers = [answer for row in rows for answer in predicted[row]]
        logits = torch.eye(len(names))[torch.tensor(answers, dtype=torch.long)] * 3
        kept.append(metrics.columns(Prediction(token_logits=logits), batch_of(rows, [labels[row] for row in rows])))
    return metrics.scores(kept)


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
    assert (of_x["f1"], of_x["support"], of_y["f1_ci95"]) == (
        pytest.approx(0.7),
        20,
        [pytest.approx(20 / 23.84146, abs=1e-5), 1],
    )
    assert of_x["f1_ci95"][0] < 0.7 < of_x["f1_ci95"][1]
    lead, bounds = scores.lead_over([np.zeros(4, int)] * 20, seed=0)
    assert (lead, bounds) == (pytest.approx(0.85), pytest.approx([low, high]))
