"""Constrained decoding: the best of all valid sequences, sentence by sentence."""

from itertools import product

import pytest
import torch

from encoderlab.metrics.entities import ValidDecoder, entity_labels


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
