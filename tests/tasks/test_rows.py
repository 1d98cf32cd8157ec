"""Rows become batches without changing a token; a teacher's logits come with their own row."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.batch import Encoded, HeadSizes
from encoderlab.tasks.rows import TaughtRows, concatenated, hold_encoded
from tests.stand_ins import encoded

PAD = 0


def held(examples, has_token_targets=False):
    return hold_encoded(
        examples, 50, HeadSizes(token_classes=2) if has_token_targets else HeadSizes(sequence_classes=2)
    )


lengths_of_rows = st.lists(st.integers(1, 12), min_size=1, max_size=40)


@given(lengths=lengths_of_rows)
@settings(deadline=None)
def test_a_batch_holds_each_row_unchanged_and_masks_exactly_its_padding(lengths):
    examples = encoded(lengths)
    batch = held(examples).gather(np.arange(len(lengths)), PAD)
    assert (batch.attention_mask is None) == (len(set(lengths)) == 1)
    for row, example in enumerate(examples):
        n = len(example.input_ids)
        assert batch.input_ids[row, :n].tolist() == example.input_ids
        assert batch.token_type_ids[row, :n].tolist() == example.token_type_ids
        assert (batch.input_ids[row, n:] == PAD).all()
        if batch.attention_mask is not None:
            assert batch.attention_mask[row].tolist() == [True] * n + [False] * (max(lengths) - n)
    assert batch.labels.tolist() == [example.label for example in examples]
    assert batch.n_tokens == sum(lengths)


def test_target_positions_and_labels_follow_their_tokens_into_the_batch():
    examples = [
        Encoded([5, 6, 7], [0] * 3, token_labels={0: 1, 2: 0}),
        Encoded([8, 9, 10, 11, 12], [0] * 5, token_labels={1: 2, 4: 1}),
    ]
    batch = held(examples, has_token_targets=True).gather(np.array([1, 0]), PAD)
    assert batch.input_ids.flatten()[batch.target_positions].tolist() == [9, 12, 5, 7]
    assert batch.token_labels.tolist() == [2, 1, 1, 0]
    assert batch.labels is None


@pytest.mark.parametrize("has_token_targets", [False, True])
def test_a_batch_with_an_unknown_label_has_no_labels(has_token_targets):
    examples = [Encoded([5], [0], label=label, token_labels={0: label}) for label in (1, None)]
    batch = held(examples, has_token_targets).gather(np.arange(2), PAD)
    assert batch.labels is None
    assert batch.token_labels is None


def test_the_share_of_truncated_rows_is_counted():
    assert held(encoded([3, 9, 10, 4])).truncated_share() == 0.5


def texts(n, first=0):
    encoded = [Encoded([1] * (2 + (first + i) % 3), [0] * (2 + (first + i) % 3), label=i % 2) for i in range(n)]
    return hold_encoded(encoded, 10, HeadSizes(sequence_classes=2))


def logits(n, classes=2):
    return list(np.arange(n * classes, dtype=np.float32).reshape(n, 1, classes))


@pytest.mark.parametrize("chosen", [[0], [4, 1], [3, 2, 0]])
def test_each_row_has_its_own_logits(chosen):
    rows = TaughtRows(texts(5), logits(5), 2.0, 0.7)
    batch = rows.prepare(rows.gather(np.array(chosen), 0))
    assert torch.equal(
        batch.teacher.sequence_logits, torch.from_numpy(np.concatenate([logits(5)[row] for row in chosen]))
    )
    assert (batch.teacher.temperature, batch.teacher.weight) == (2.0, 0.7)


def test_words_have_teacher_logits_at_each_of_the_students_targets():
    encoded = [Encoded([1, 2, 3], [0] * 3, token_labels={1: 0, 2: 1}), Encoded([1, 2], [0] * 2, token_labels={1: 1})]
    teacher = np.split(np.arange(10, dtype=np.float32).reshape(5, 2), [3])  # it reads a word more of each
    rows = TaughtRows(hold_encoded(encoded, 10, HeadSizes(token_classes=2)), teacher, 1.0, 1.0)
    batch = rows.prepare(rows.gather(np.array([1, 0]), 0))
    assert batch.teacher.token_logits.tolist() == [[6, 7], [0, 1], [2, 3]]


def test_rows_without_labels_follow_those_with_labels():
    both = concatenated([texts(3), texts(2, first=1)])
    assert len(both) == 5 and both.lengths.tolist() == [2, 3, 4, 3, 4]
