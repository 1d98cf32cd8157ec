"""Sequences and windows: [CLS] a [SEP] or [CLS] a [SEP] b [SEP], the longer text truncated first, long ones read whole."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.batch import HeadSizes
from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.data.tokenizers import SymbolsConfig
from encoderlab.errors import SettingError
from encoderlab.runs.task import build_task
from encoderlab.tasks.config import ClassificationConfig, TaggingConfig
from encoderlab.tasks.rows import concatenated, hold_encoded
from encoderlab.tasks.task import Windowing, in_windows, join, longest_first

TOKENIZER = SymbolsConfig().build(lambda: [], Path())
CLS, SEP, PAD = TOKENIZER.cls_id, TOKENIZER.sep_id, TOKENIZER.pad_id
pieces = st.lists(st.integers(5, 22), max_size=40)
lengths = st.integers(0, 60)


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
    segments = join(TOKENIZER, [5] * first, [6] * second, room + 3).token_type_ids
    assert (segments.count(0) - 2, segments.count(1) - 1) == kept


@given(first=pieces, max_length=st.integers(2, 45), label=st.one_of(st.none(), st.integers(0, 5)))
def test_a_text_is_enclosed_in_cls_and_sep_and_loses_only_its_end(first, max_length, label):
    encoded = join(TOKENIZER, first, None, max_length, label)
    assert encoded.input_ids == [CLS, *first[: max_length - 2], SEP]
    assert encoded.token_type_ids == [0] * len(encoded.input_ids)
    assert encoded.truncated == (len(first) > max_length - 2)
    assert encoded.label == label
    assert encoded.token_labels is None


@given(first=pieces, second=pieces, max_length=st.integers(3, 90))
def test_a_pair_keeps_its_special_tokens_its_limit_and_its_segments(first, second, max_length):
    encoded = join(TOKENIZER, first, second, max_length)
    ids, segments = encoded.input_ids, encoded.token_type_ids
    assert ids[0] == CLS
    assert ids[-1] == SEP
    assert ids.count(SEP) == 2
    assert len(ids) == len(segments) <= max_length
    border = ids.index(SEP) + 1
    assert segments == [0] * border + [1] * (len(ids) - border)
    assert ids[1 : border - 1] == first[: border - 2]
    assert ids[border:-1] == second[: len(ids) - border - 1]
    assert encoded.truncated == (len(first) + len(second) + 3 > max_length)


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
        build_task(task, TOKENIZER, ["a", "b"], max_length)
    encoded = build_task(task, TOKENIZER, ["a", "b"], shortest).encode([example])[0]
    assert len(encoded.input_ids) == shortest
    assert {CLS, SEP}.issuperset(encoded.input_ids) is False


HEADS = HeadSizes(sequence_classes=2, window_pooling="mean")
windowings = st.builds(Windowing, st.just("mean"), st.integers(2, 9))


@given(windows=windowings, room=st.integers(2, 40), more=st.integers(1, 300))
def test_windows_go_from_end_to_end_and_skip_tokens_only_beyond_their_limit(windows, room, more):
    starts = windows.starts(room + more, room)
    assert starts[0] == 0 and starts[-1] == more and 2 <= len(starts) <= windows.most
    steps = np.diff(starts)
    assert (steps > 0).all() and np.ptp(steps) <= 1
    if len(starts) < windows.most:
        assert steps.max() <= max(int(room * 0.75), 1) <= room


def long_and_short(most=3, max_length=8):
    """The rows of a text of 14 tokens in windows of 6, and of one of 4."""
    windows = Windowing("mean", most)
    ids = list(range(5, 19))
    encoded = [in_windows(TOKENIZER, ids, max_length, windows, 1), join(TOKENIZER, ids[:4], None, max_length, 0)]
    return hold_encoded(encoded, 50, HEADS), encoded


def test_each_window_is_enclosed_in_cls_and_sep_and_knows_its_row():
    rows, _ = long_and_short()
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
    rows, _ = long_and_short()
    batch = rows.gather(np.array([0, 1, 0]), PAD)
    first, last = batch.halves()
    assert (first.input_ids.shape[0], first.row_of_sequence.tolist(), first.n_tokens) == (3, [0, 0, 0], 24)
    assert (last.input_ids.shape[0], last.row_of_sequence.tolist(), last.n_tokens) == (4, [0, 1, 1, 1], 30)
    assert (len(first), len(last), last.labels.tolist()) == (1, 2, [0, 1])
    assert batch.without_rows().row_of_sequence is None
    assert batch.to(torch.device("meta")).row_of_sequence.device.type == "meta"


def test_a_text_longer_than_all_windows_is_truncated_and_marked_so():
    rows, (encoded, _) = long_and_short(most=2, max_length=7)
    assert encoded.window_starts == (0, 9) and encoded.truncated
    assert rows.truncated().tolist() == [1, 0]
    assert concatenated([rows, rows]).windows().tolist() == [2, 1, 2, 1]
