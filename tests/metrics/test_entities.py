"""Entities are found as conlleval finds them, and decoded as the scheme allows."""

from itertools import product

import numpy as np
import pytest
import torch

from encoderlab.metrics.entities import ENTITY_SCORES, ValidDecoder, entity_counts, entity_labels, spans_of

BIO = entity_labels(["B-loc", "I-loc", "B-per", "I-per", "O"])
BIOES = entity_labels(["B-x", "E-x", "I-x", "O", "S-x", "S-y"])


@pytest.mark.parametrize(
    ("names", "scheme"),
    [
        (["B-PER", "I-PER", "O"], "BIO"),
        (["I-PER", "O"], "BIO"),  # IOB1 without two neighbours of one type
        (["B-a-b", "O"], "BIO"),
        (["B", "I", "O"], "BIO"),
        (["B-x", "E-x", "O", "S-x"], "BIOES"),
        (["B", "E", "I", "O", "S"], "BIOES"),
    ],
)
def test_labels_with_prefixes_are_entity_labels(names, scheme):
    assert entity_labels(names).scheme == scheme


@pytest.mark.parametrize(
    "names", [[], ["NOUN", "O"], ["B-x", "I-x", "X"], ["B", "C"], ["O", "S"], ["S-Bahn", "O"], ["0", "1"]]
)
def test_other_labels_are_not(names):
    assert entity_labels(names) is None


def may_follow(labels, first, second):
    return labels.may_follow(labels.names.index(first), labels.names.index(second))


@pytest.mark.parametrize(
    ("labels", "first", "second", "valid"),
    [
        (BIO, "B-loc", "I-loc", True),
        (BIO, "I-loc", "I-loc", True),
        (BIO, "I-loc", "B-loc", True),
        (BIO, "B-loc", "O", True),
        (BIO, "O", "I-loc", False),
        (BIO, "B-per", "I-loc", False),
        (BIOES, "B-x", "E-x", True),
        (BIOES, "B-x", "O", False),
        (BIOES, "I-x", "S-y", False),
        (BIOES, "E-x", "S-y", True),
        (BIOES, "S-x", "I-x", False),
    ],
)
def test_labels_follow_only_what_the_scheme_allows(labels, first, second, valid):
    assert may_follow(labels, first, second) is valid


def test_sentences_begin_and_end_only_as_the_scheme_allows():
    assert [name for id_, name in enumerate(BIO.names) if not BIO.may_begin(id_)] == ["I-loc", "I-per"]
    assert all(BIO.may_end(id_) for id_ in range(5))
    assert [name for id_, name in enumerate(BIOES.names) if BIOES.may_begin(id_)] == ["B-x", "O", "S-x", "S-y"]
    assert [name for id_, name in enumerate(BIOES.names) if BIOES.may_end(id_)] == ["E-x", "O", "S-x", "S-y"]


LABELS = entity_labels(["O", "B-per", "I-per", "B-loc", "I-loc"])
OUT, B_PER, I_PER, B_LOC, I_LOC = range(5)


def figures_of(right, predicted):
    counts = entity_counts(LABELS, right, predicted).sum((0, 2))
    return {name: float(score(counts)) for name, score in ENTITY_SCORES.items()}


def test_an_entity_is_correct_only_if_its_ends_and_type_are():
    right = [np.array([B_PER, I_PER, OUT, B_LOC])]
    assert entity_counts(LABELS, right, right).tolist() == [[[1, 1], [1, 1], [1, 1]]]
    too_short = [np.array([B_PER, OUT, OUT, B_LOC])]
    assert figures_of(right, too_short) == {"entity_precision": 0.5, "entity_recall": 0.5, "entity_f1": 0.5}
    other_type = [np.array([B_LOC, I_LOC, OUT, B_LOC])]
    assert entity_counts(LABELS, right, other_type)[0, 0].tolist() == [1, 0], "types are sorted: loc, per"


def test_no_entity_extends_into_the_next_sentence():
    spans = spans_of(LABELS, np.array([B_PER, I_PER, I_PER, OUT]), np.array([2, 2]))
    assert spans.begins.tolist() == [True, False, True, False]
    assert spans.end[[0, 2]].tolist() == [2, 3]


def test_an_inside_label_with_nothing_to_continue_begins_an_entity():
    spans = spans_of(LABELS, np.array([OUT, I_PER, I_LOC, I_LOC]), np.array([4]))
    assert spans.begins.tolist() == [False, True, True, False]
    assert spans.end[[1, 2]].tolist() == [2, 4]


def best_by_trying_all(labels, log_probabilities):
    """Return the valid sequence with the largest sum, found by trying all."""
    ids = range(len(labels.names))
    n_words = len(log_probabilities)

    def valid(path):
        links = all(labels.may_follow(a, b) for a, b in zip(path, path[1:], strict=False))
        return labels.may_begin(path[0]) and labels.may_end(path[-1]) and links

    paths = [path for path in product(ids, repeat=n_words) if valid(path)]
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


def test_a_batch_without_words_has_no_predictions():
    decoder = ValidDecoder(entity_labels(["B-x", "I-x", "O"]))
    assert decoder.decode(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long), n_rows=2, longest=3).tolist() == []
