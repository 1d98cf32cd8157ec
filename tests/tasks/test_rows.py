"""Rows become batches without changing a token; a teacher's logits come with their own row."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.tasks.rows import ExampleRows, TaughtRows, followed_by
from encoderlab.tasks.task import part_targets
from tests.tasks.small_rows import CLS, SEP, format_of, store_of, text_rows, word_rows

PAD = 0
texts_of_ids = st.lists(st.integers(5, 60), max_size=12)
pairs_of_texts = st.lists(st.tuples(texts_of_ids, texts_of_ids), min_size=1, max_size=40)


@given(pairs=pairs_of_texts)
@settings(deadline=None)
def test_a_batch_holds_each_row_unchanged_and_masks_exactly_its_padding(pairs):
    labels = [row % 3 for row in range(len(pairs))]
    rows = text_rows([first for first, _ in pairs], [second for _, second in pairs], labels)
    batch = rows.gather(np.arange(len(pairs)), PAD)
    lengths = [len(first) + len(second) + 3 for first, second in pairs]
    assert (batch.attention_mask is None) == (len(set(lengths)) == 1)
    for row, (first, second) in enumerate(pairs):
        n = lengths[row]
        assert batch.input_ids[row, :n].tolist() == [CLS, *first, SEP, *second, SEP]
        assert batch.token_type_ids[row, :n].tolist() == [0] * (len(first) + 2) + [1] * (len(second) + 1)
        assert (batch.input_ids[row, n:] == PAD).all()
        if batch.attention_mask is not None:
            assert batch.attention_mask[row].tolist() == [True] * n + [False] * (max(lengths) - n)
    assert batch.labels.tolist() == labels
    assert batch.n_tokens == sum(lengths)
    assert rows.lengths.tolist() == lengths


def test_target_positions_and_labels_follow_their_tokens_into_the_batch():
    rows = word_rows([[5, 6, 7], [8, 9, 10, 11, 12]], [[0, 2], [1, 4]], [[1, 0], [2, 1]])
    batch = rows.gather(np.array([1, 0]), PAD)
    assert batch.input_ids.flatten()[batch.target_positions].tolist() == [9, 12, 5, 7]
    assert batch.token_labels.tolist() == [2, 1, 1, 0]
    assert batch.labels is None


def test_a_set_of_labels_becomes_a_one_for_each():
    targets = part_targets([(0, 2), (), (1,)], n_labels=3)
    batch = ExampleRows(store_of([[5]] * 3), format_of(8), targets).gather(np.array([2, 0, 1]), PAD)
    assert batch.labels.tolist() == [[0, 1, 0], [1, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize("of_words", [False, True])
def test_a_batch_with_an_unknown_label_has_no_labels(of_words):
    rows = word_rows([[5], [5]], [[0], [0]], [[1], None]) if of_words else text_rows([[5], [5]], labels=[1, None])
    batch = rows.gather(np.arange(2), PAD)
    assert batch.labels is None
    assert batch.token_labels is None
    known = rows.gather(np.array([0]), PAD)
    assert (known.token_labels if of_words else known.labels).tolist() == [1]


def test_the_share_of_truncated_rows_is_counted():
    assert text_rows([[5] * n for n in (3, 9, 10, 4)], max_length=10).truncated_share() == 0.5


def texts(n, first=0):
    return text_rows([[5] * ((first + row) % 3) for row in range(n)], labels=[row % 2 for row in range(n)])


def logits(n, classes=2):
    return list(np.arange(n * classes, dtype=np.float32).reshape(n, 1, classes))


@pytest.mark.parametrize("selected", [[0], [4, 1], [3, 2, 0]])
def test_each_row_has_its_own_logits(selected):
    rows = TaughtRows(texts(5), logits(5), 2.0, 0.7)
    batch = rows.prepare(rows.gather(np.array(selected), 0))
    expected = torch.from_numpy(np.concatenate([logits(5)[row] for row in selected]))
    assert torch.equal(batch.teacher.sequence_logits, expected)
    assert (batch.teacher.temperature, batch.teacher.weight) == (2.0, 0.7)


def test_words_have_teacher_logits_at_each_of_the_students_targets():
    rows = word_rows([[6, 7], [6]], [[0, 1], [0]], [[0, 1], [1]])
    teacher = np.split(np.arange(10, dtype=np.float32).reshape(5, 2), [3])  # it reads a word more of each
    taught = TaughtRows(rows, teacher, 1.0, 1.0)
    batch = taught.prepare(taught.gather(np.array([1, 0]), 0))
    assert batch.teacher.token_logits.tolist() == [[6, 7], [0, 1], [2, 3]]


def test_rows_follow_others_with_their_texts_and_targets():
    both = followed_by(texts(3), texts(2, first=1))
    assert len(both) == 5 and both.lengths.tolist() == [2, 3, 4, 3, 4]
    assert both.gather(np.arange(5), PAD).labels.tolist() == [0, 1, 0, 0, 1]
    words = followed_by(word_rows([[5, 6]], [[0, 1]], [[1, 2]]), word_rows([[7], [8]], [[0], [0]], [[3], [4]]))
    batch = words.gather(np.array([2, 0, 1]), PAD)
    assert batch.token_labels.tolist() == [4, 1, 2, 3]
    assert batch.input_ids.flatten()[batch.target_positions].tolist() == [8, 5, 6, 7]


def test_a_few_truncated_rows_are_counted_where_their_share_would_be_zero():
    from encoderlab.tasks.classification import ClassificationConfig
    from tests.runs.small_model import model_of

    task = model_of(ClassificationConfig(name="digits")).task
    longest = task.max_length
    few = ExampleRows(store_of([[5] * (longest + 9), *[[5]] * 4999]), task.format)
    some = ExampleRows(store_of([*[[5] * (longest + 9)] * 10, *[[5]] * 90]), task.format)
    assert task.reading_note("train", few).startswith("1 of the rows of train")
    assert task.reading_note("train", some).startswith("10.0% of the rows of train")
    assert task.reading_note("train", ExampleRows(store_of([[5]]), task.format)) == ""
