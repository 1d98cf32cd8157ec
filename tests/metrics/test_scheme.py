"""Which labels are BIO or BIOES, and which of their sequences are valid."""

import pytest

from encoderlab.metrics.entities import entity_labels

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
