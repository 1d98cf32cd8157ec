"""Sequences and windows: [CLS] a [SEP] or [CLS] a [SEP] b [SEP], the longer text truncated first, long ones read whole."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.data.token_store import tokenize_examples
from encoderlab.data.tokenizer_config import SymbolsConfig
from encoderlab.errors import SettingError
from encoderlab.tasks.classification import ClassificationConfig
from encoderlab.tasks.rows import followed_by
from encoderlab.tasks.sequences import Windowing, longest_first
from encoderlab.tasks.tagging import TaggingConfig
from tests.tasks.small_rows import CLS, SEP, text_rows

TOKENIZER = SymbolsConfig().build(lambda: [], Path())
PAD = 0
pieces = st.lists(st.integers(5, 22), max_size=40)
lengths = st.integers(0, 60)


def read(first, second=None, max_length=512):
    """Return the only row of a text, or of a pair, as a batch, and whether it is truncated."""
    rows = text_rows([first], None if second is None else [second], max_length=max_length)
    batch = rows.gather(np.array([0]), PAD)
    assert rows.lengths.tolist() == [batch.input_ids.shape[1]] == [batch.n_tokens]
    return batch.input_ids[0].tolist(), batch.token_type_ids[0].tolist(), bool(rows.truncated()[0])


def cut_piece_by_piece(first, second, room):
    """The rule of BERT's own code: drop the last piece of the longer text until both fit."""
    while first + second > max(room, 0):
        if first > second:
            first -= 1
        else:
            second -= 1
    return first, second


@given(first=lengths, second=lengths, room=st.integers(0, 130))
def test_truncating_at_once_equals_dropping_tokens_of_the_longer_text_one_by_one(first, second, room):
    kept = cut_piece_by_piece(first, second, room)
    assert longest_first(np.array(first), np.array(second), room) == kept
    _, segments, _ = read([5] * first, [6] * second, room + 3)
    assert (segments.count(0) - 2, segments.count(1) - 1) == kept


@given(first=pieces, max_length=st.integers(2, 45))
def test_a_text_is_enclosed_in_cls_and_sep_and_loses_only_its_end(first, max_length):
    ids, segments, truncated = read(first, max_length=max_length)
    assert ids == [CLS, *first[: max_length - 2], SEP]
    assert segments == [0] * len(ids)
    assert truncated == (len(first) > max_length - 2)


@given(first=pieces, second=pieces, max_length=st.integers(3, 90))
def test_a_pair_keeps_its_special_tokens_its_limit_and_its_segments(first, second, max_length):
    ids, segments, truncated = read(first, second, max_length)
    assert ids[0] == CLS
    assert ids[-1] == SEP
    assert ids.count(SEP) == 2
    assert len(ids) == len(segments) <= max_length
    border = ids.index(SEP) + 1
    assert segments == [0] * border + [1] * (len(ids) - border)
    assert ids[1 : border - 1] == first[: border - 2]
    assert ids[border:-1] == second[: len(ids) - border - 1]
    assert truncated == (len(first) + len(second) + 3 > max_length)


@pytest.mark.parametrize(
    ("task", "max_length", "shortest", "example"),
    [
        (ClassificationConfig(name="pairs"), 4, 5, TextExample("()", "[]")),
        (TaggingConfig(name="words"), 2, 3, WordsExample(("1", "2"))),
        (TaggingConfig(name="words", special_tokens=False), 0, 1, WordsExample(("1", "2"))),
    ],
)
def test_a_model_without_room_for_an_ordinary_token_is_refused(task, max_length, shortest, example):
    with pytest.raises(SettingError, match=f"model.max_length={max_length} leaves no room.*at least {shortest}"):
        task.build(TOKENIZER, ["a", "b"], max_length)
    rows = task.build(TOKENIZER, ["a", "b"], shortest).rows(tokenize_examples([example], TOKENIZER))
    ids = rows.gather(np.array([0]), PAD).input_ids[0].tolist()
    assert len(ids) == shortest
    assert {TOKENIZER.cls_id, TOKENIZER.sep_id}.issuperset(ids) is False


windowings = st.builds(Windowing, st.just("mean"), st.integers(2, 9))


@given(windows=windowings, room=st.integers(2, 40), more=st.integers(1, 300))
def test_windows_go_from_end_to_end_and_skip_tokens_only_beyond_their_limit(windows, room, more):
    starts = windows.starts(np.array([room + more]), room)
    assert starts[0] == 0 and starts[-1] == more and 2 <= len(starts) <= windows.most
    steps = np.diff(starts)
    assert (steps > 0).all() and np.ptp(steps) <= 1
    if len(starts) < windows.most:
        assert steps.max() <= max(int(room * 0.75), 1) <= room


@given(windows=windowings, room=st.integers(2, 12), n_tokens=st.lists(st.integers(0, 90), min_size=1, max_size=8))
def test_windows_of_many_texts_are_those_of_each_and_a_truncated_text_is_one_that_they_do_not_cover(
    windows, room, n_tokens
):
    together = windows.starts(np.array(n_tokens), room)
    alone = [windows.starts(np.array([n]), room) for n in n_tokens]
    assert together.tolist() == np.concatenate(alone).tolist()
    texts = [list(range(5, 5 + n)) for n in n_tokens]
    rows = text_rows(texts, max_length=room + 2, windows=windows)
    batch = rows.gather(np.arange(len(texts)), PAD)
    assert rows.lengths.sum() == batch.n_tokens
    of_row = np.arange(len(texts)) if batch.row_of_sequence is None else batch.row_of_sequence.numpy()
    for row, text in enumerate(texts):
        seen = set(batch.input_ids[of_row == row].flatten().tolist()) - {CLS, SEP, PAD}
        assert rows.truncated()[row] == (seen != set(text))


def long_and_short(most=3, max_length=8):
    """The rows of a text of 14 tokens in windows of 6, and of one of 4."""
    ids = list(range(5, 19))
    return text_rows([ids, ids[:4]], labels=[1, 0], max_length=max_length, windows=Windowing("mean", most))


def test_each_window_is_enclosed_in_cls_and_sep_and_knows_its_row():
    rows = long_and_short()
    batch = rows.gather(np.array([1, 0]), PAD)
    assert batch.input_ids.tolist() == [
        [CLS, 5, 6, 7, 8, SEP, PAD, PAD],
        [CLS, *range(5, 11), SEP],
        [CLS, *range(9, 15), SEP],
        [CLS, *range(13, 19), SEP],
    ]
    assert batch.row_of_sequence.tolist() == [0, 1, 1, 1] and len(batch) == 2
    assert (batch.rows.tolist(), batch.labels.tolist(), batch.n_tokens) == ([1, 0], [0, 1], 6 + 3 * 8)
    assert rows.lengths.tolist() == [24, 6] and rows.windows().tolist() == [3, 1]


def test_halves_and_unlabelled_batches_keep_the_windows_of_a_row_together():
    rows = long_and_short()
    batch = rows.gather(np.array([0, 1, 0]), PAD)
    first, last = batch.halves()
    assert (first.input_ids.shape[0], first.row_of_sequence.tolist(), first.n_tokens) == (3, [0, 0, 0], 24)
    assert (last.input_ids.shape[0], last.row_of_sequence.tolist(), last.n_tokens) == (4, [0, 1, 1, 1], 30)
    assert (len(first), len(last), last.labels.tolist()) == (1, 2, [0, 1])
    assert batch.without_rows().row_of_sequence is None
    assert batch.to(torch.device("meta")).row_of_sequence.device.type == "meta"


def test_a_text_longer_than_all_windows_is_truncated_and_marked_so():
    rows = long_and_short(most=2, max_length=7)
    batch = rows.gather(np.array([0]), PAD)
    assert batch.input_ids[:, 1].tolist() == [5, 5 + 9]
    assert rows.truncated().tolist() == [1, 0]
    assert followed_by(rows, rows).windows().tolist() == [2, 1, 2, 1]
