"""Invalid sequences: reported with their first invalid word, and repaired without changing what conlleval reads."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.metrics.entities import entity_counts, entity_labels, first_invalid, repaired

SCHEMES = [
    entity_labels(["O", "B-x", "I-x", "B-y", "I-y"]),
    entity_labels(["O", *(f"{prefix}-{kind}" for kind in "xy" for prefix in "BIES")]),
]


@given(st.data(), st.sampled_from(SCHEMES))
def test_repaired_sequences_are_valid_and_contain_the_same_entities(data, labels):
    label = st.integers(0, len(labels.names) - 1)
    sentences = [
        np.array(ids, np.int64) for ids in data.draw(st.lists(st.lists(label, max_size=6), min_size=1, max_size=4))
    ]
    flat, lengths = np.concatenate(sentences), np.array([len(ids) for ids in sentences])
    again = np.array([labels.names.index(name) for name in repaired(labels, flat, lengths)], np.int64)
    assert first_invalid(labels, again, lengths) is None
    counts = entity_counts(labels, sentences, np.split(again, np.cumsum(lengths)[:-1]))
    assert (counts[:, 0] == counts[:, 1]).all() and (counts[:, 0] == counts[:, 2]).all()
    if first_invalid(labels, flat, lengths) is None:
        assert again.tolist() == flat.tolist()


def test_the_first_invalid_word_is_named_with_the_one_before_it():
    bio, bioes = SCHEMES
    assert first_invalid(bio, np.array([0, 1, 2, 4]), np.array([3, 1])) == (3, "at the start of the sentence")
    assert first_invalid(bio, np.array([0, 1, 4, 2]), np.array([0, 4])) == (2, "after 'B-x'")
    assert first_invalid(bioes, np.array([0, 1]), np.array([2])) == (1, "at the end of the sentence")
    assert first_invalid(bio, np.array([-1, -1]), np.array([2])) is None
