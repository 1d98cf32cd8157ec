"""Rows with a teacher's logits: each row gets its own, whatever the batch."""

import numpy as np
import pytest
import torch

from encoderlab.batch import Encoded, HeadSizes
from encoderlab.distillation.task import TeacherLogits
from encoderlab.tasks.rows import TaughtRows, hold_encoded, joined


def texts(n, first=0):
    encoded = [Encoded([1] * (2 + (first + i) % 3), [0] * (2 + (first + i) % 3), label=i % 2) for i in range(n)]
    return hold_encoded(encoded, 10, HeadSizes(sequence_classes=2))


def logits(n, classes=2):
    return TeacherLogits(np.arange(n * classes, dtype=np.float32).reshape(n, classes), np.arange(n + 1))


@pytest.mark.parametrize("chosen", [[0], [4, 1], [3, 2, 0]])
def test_each_row_has_its_own_logits(chosen):
    rows = TaughtRows(texts(5), logits(5), 2.0, 0.7)
    batch = rows.prepare(rows.gather(np.array(chosen), 0))
    assert torch.equal(batch.targets.sequence_logits, torch.from_numpy(logits(5).values[chosen]))
    assert (batch.targets.temperature, batch.targets.sequence_weight) == (2.0, 0.7)


def test_words_have_teacher_logits_at_each_of_the_students_targets():
    encoded = [Encoded([1, 2, 3], [0] * 3, token_labels={1: 0, 2: 1}), Encoded([1, 2], [0] * 2, token_labels={1: 1})]
    teacher = TeacherLogits(
        np.arange(10, dtype=np.float32).reshape(5, 2), np.array([0, 3, 5])
    )  # it reads a word more of each
    rows = TaughtRows(hold_encoded(encoded, 10, HeadSizes(token_classes=2)), teacher, 1.0, 1.0)
    batch = rows.prepare(rows.gather(np.array([1, 0]), 0))
    assert batch.targets.token_logits.tolist() == [[6, 7], [0, 1], [2, 3]]


def test_rows_without_labels_follow_those_with_labels():
    both, found = joined([texts(3), texts(2, first=1)]), logits(3).followed_by(logits(2))
    assert len(both) == 5 and both.lengths.tolist() == [2, 3, 4, 3, 4]
    assert found.of(np.array([4]), np.array([1])).tolist() == [[2.0, 3.0]]


def test_halves_of_a_batch_keep_their_targets():
    rows = TaughtRows(texts(4), logits(4), 1.0, 1.0)
    first, last = rows.prepare(rows.gather(np.arange(4), 0)).halves()
    assert torch.equal(
        torch.cat([first.targets.sequence_logits, last.targets.sequence_logits]), torch.from_numpy(logits(4).values)
    )
