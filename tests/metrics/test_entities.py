"""Entities are found as conlleval finds them, and decoded as the scheme allows."""

from itertools import product

import numpy as np
import pytest
import torch

from encoderlab.metrics.entities import ValidDecoder, entity_counts, entity_labels, repaired
from encoderlab.metrics.scores import precision_recall_f1


@pytest.mark.parametrize(
    ("names", "bioes"),
    [
        (["B-PER", "I-PER", "O"], False),
        (["I-PER", "O"], False),  # IOB1 without two neighbours of one type
        (["B-a-b", "O"], False),
        (["B", "I", "O"], False),
        (["B-x", "E-x", "O", "S-x"], True),
        (["B", "E", "I", "O", "S"], True),
    ],
)
def test_labels_with_prefixes_are_entity_labels(names, bioes):
    assert entity_labels(names).bioes is bioes


@pytest.mark.parametrize(
    "names", [[], ["NOUN", "O"], ["B-x", "I-x", "X"], ["B", "C"], ["O", "S"], ["S-Bahn", "O"], ["0", "1"]]
)
def test_other_labels_are_not(names):
    assert entity_labels(names) is None


LABELS = entity_labels(["O", "B-per", "I-per", "B-loc", "I-loc"])
OUT, B_PER, I_PER, B_LOC, I_LOC = range(5)


def figures_of(right, predicted):
    counts = entity_counts(LABELS, right, predicted).sum((0, 2))
    return {name: float(score[0]) for name, score in precision_recall_f1(counts[:, None]).items()}


def test_an_entity_is_correct_only_if_its_ends_and_type_are():
    right = [np.array([B_PER, I_PER, OUT, B_LOC])]
    assert entity_counts(LABELS, right, right).tolist() == [[[1, 1], [1, 1], [1, 1]]]
    too_short = [np.array([B_PER, OUT, OUT, B_LOC])]
    assert figures_of(right, too_short) == {"precision": 0.5, "recall": 0.5, "f1": 0.5}
    other_type = [np.array([B_LOC, I_LOC, OUT, B_LOC])]
    assert entity_counts(LABELS, right, other_type)[0, 0].tolist() == [1, 0], "types are sorted: loc, per"


def test_no_entity_extends_into_the_next_sentence_and_inside_labels_begin_one_where_there_is_none():
    ids = np.array([B_PER, I_PER, I_PER, OUT, OUT, I_PER, I_LOC, I_LOC])
    read = repaired(LABELS, ids, np.array([2, 2, 4]))
    assert read == ["B-per", "I-per", "B-per", "O", "O", "B-per", "B-loc", "I-loc"]


def valid_sequences(labels, n_words):
    """Return the sequences that are read as they are written."""
    paths = product(range(len(labels.names)), repeat=n_words)
    read = {path: repaired(labels, np.array(path), np.array([n_words])) for path in paths}
    return [path for path, names in read.items() if names == [labels.names[id_] for id_ in path]]


def best_by_trying_all(labels, log_probabilities):
    paths = valid_sequences(labels, len(log_probabilities))
    return list(max(paths, key=lambda path: sum(log_probabilities[word, id_] for word, id_ in enumerate(path))))


@pytest.mark.parametrize("names", [["O", "B-x", "I-x", "B-y", "I-y"], ["O", "B-x", "I-x", "E-x", "S-x", "S-y"]])
def test_decoding_finds_the_best_of_all_valid_sequences(names):
    torch.manual_seed(0)
    labels = entity_labels(names)
    lengths = [3, 0, 1, 4, 2]
    logits = torch.randn(sum(lengths), len(names)) * 2
    row = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    found = ValidDecoder(labels).decode(logits, row, len(lengths), longest=6).split(lengths)
    expected = [best_by_trying_all(labels, part.log_softmax(-1)) if len(part) else [] for part in logits.split(lengths)]
    assert [part.tolist() for part in found] == expected
    assert [part.argmax(-1).tolist() for part in logits.split(lengths)] != expected


def test_labels_without_a_valid_sequence_are_still_decoded():
    labels = entity_labels(["B-x", "E-x", "I-x"])  # no label for a sentence of one word
    found = ValidDecoder(labels).decode(torch.eye(3)[:1], torch.zeros(1, dtype=torch.long), n_rows=1, longest=1)
    assert found.tolist() in ([0], [1])
