"""Long texts in windows: every token is read, a row stays together, and the first windows are what truncation would
keep.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.batch import HeadSizes
from encoderlab.data.examples import TextExample
from encoderlab.data.tokenizers import SymbolsConfig
from encoderlab.errors import DataError
from encoderlab.runs.task import build_task
from encoderlab.tasks.config import ClassificationConfig, MultilabelConfig, RegressionConfig, Windows
from encoderlab.tasks.rows import hold_encoded, joined
from encoderlab.tasks.sequences import Windowing, in_windows, join

TOKENIZER = SymbolsConfig().build(lambda: [], Path())
CLS, SEP, PAD = TOKENIZER.cls_id, TOKENIZER.sep_id, TOKENIZER.pad_id
HEADS = HeadSizes(sequence_classes=2, window_pooling="mean")
windowings = st.builds(Windowing, st.just("mean"), st.floats(0, 0.95), st.integers(2, 9))


@given(windows=windowings, room=st.integers(2, 40), more=st.integers(1, 300))
def test_windows_go_from_end_to_end_and_skip_tokens_only_beyond_their_limit(windows, room, more):
    starts = windows.starts(room + more, room)
    assert starts[0] == 0 and starts[-1] == more and 2 <= len(starts) <= windows.most
    steps = np.diff(starts)
    assert (steps > 0).all() and np.ptp(steps) <= 1
    if len(starts) < windows.most:
        assert steps.max() <= max(int(room * (1 - windows.overlap)), 1) <= room


def long_and_short(most=3, max_length=8):
    """The rows of a text of 14 tokens in windows of 6, and of one of 4."""
    windows = Windowing("mean", 0.25, most)
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


def test_a_batch_of_short_rows_is_the_same_as_without_windows():
    rows, encoded = long_and_short()
    batch = rows.gather(np.array([1]), PAD)
    plain = hold_encoded(encoded[1:], 50, replace(HEADS, window_pooling=None)).gather(np.array([0]), PAD)
    assert batch.row_of_sequence is None and torch.equal(batch.input_ids, plain.input_ids)


def test_halves_and_unlabelled_batches_keep_the_windows_of_a_row_together():
    rows, _ = long_and_short()
    batch = rows.gather(np.array([0, 1, 0]), PAD)
    first, last = batch.halves()
    assert (first.input_ids.shape[0], first.row_of_sequence.tolist(), first.n_tokens) == (3, [0, 0, 0], 24)
    assert (last.input_ids.shape[0], last.row_of_sequence.tolist(), last.n_tokens) == (4, [0, 1, 1, 1], 30)
    assert (len(first), len(last), last.labels.tolist()) == (1, 2, [0, 1])
    assert batch.without_answers().row_of_sequence is None
    assert batch.to(torch.device("meta")).row_of_sequence.device.type == "meta"


def test_the_first_windows_are_the_rows_of_a_task_that_truncates():
    rows, _ = long_and_short()
    cut = hold_encoded([join(TOKENIZER, list(range(5, 5 + n)), None, 8, n > 9) for n in (14, 4)], 50, HEADS)
    first = rows.first_windows()
    mine, theirs = (some.gather(np.array([0, 1]), PAD) for some in (first, cut))
    for name in ("input_ids", "token_type_ids", "attention_mask", "labels"):
        assert torch.equal(getattr(mine, name), getattr(theirs, name))
    assert mine.row_of_sequence is None
    assert first.truncated().tolist() == cut.truncated().tolist() == [1, 0]
    assert rows.truncated().tolist() == [0, 0]


def test_a_text_longer_than_all_windows_is_truncated_and_marked_so():
    rows, (encoded, _) = long_and_short(most=2, max_length=7)
    assert encoded.window_starts == (0, 9) and encoded.truncated
    assert rows.truncated().tolist() == [1, 0]
    assert joined([rows, rows]).windows().tolist() == [2, 1, 2, 1]


TASKS = {
    "classification": (ClassificationConfig, 1, {}),
    "multilabel": (MultilabelConfig, (0, 1), {}),
    "regression": (RegressionConfig, 2.0, {"mean": 0.0, "deviation": 1.0}),
}


@pytest.mark.parametrize("name", TASKS)
def test_every_task_on_texts_can_read_windows_and_refuses_pairs(name):
    config, label, settings = TASKS[name]
    task = build_task(config(name=name, windows=Windows.max, **settings), TOKENIZER, ["a", "b"], 8)
    cutting = build_task(config(name=name, **settings), TOKENIZER, ["a", "b"], 8)
    (encoded,) = task.encode([TextExample("123456789", None, label)])
    assert len(encoded.window_starts) == 2 and not encoded.truncated and encoded.label is not None
    assert task.heads.window_pooling == "max" and cutting.heads.window_pooling is None
    assert task.key != cutting.key
    assert len(cutting.encode([TextExample("123456789", None, label)])[0].input_ids) == 8
    with pytest.raises(
        DataError, match=r"task.windows=max reads single texts in windows.*pairs.*Set task.windows=none"
    ):
        task.encode([TextExample("12", "34", label)])
