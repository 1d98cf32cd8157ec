"""Stand-ins shared by several test files: a clock, and rows of random tokens."""

import numpy as np

from encoderlab.data.token_store import memory_store
from encoderlab.tasks.rows import ExampleRows, Targets
from encoderlab.tasks.sequences import SequenceFormat


class Clock:
    """A clock that moves only when a test moves it."""

    def __init__(self, now=0.0):
        self.now = now

    def __call__(self):
        return self.now


def rows_of(texts, windows=None, max_length=2**30):
    """Return rows of these ids, without special tokens, with the labels 0, 1, 2 in turn."""
    lengths = np.array([len(ids) for ids in texts], np.int64)
    store = memory_store({"first": "uint16"}, [{"first": (np.concatenate([*texts, []]).astype("uint16"), lengths)}])
    labels = np.arange(len(texts)) % 3
    format = SequenceFormat((), (), (), max_length, windows)
    return ExampleRows(store, format, Targets(labels >= 0, of_rows=labels))


def random_rows(lengths, seed=0):
    """Return rows of random tokens of these lengths."""
    draw = np.random.default_rng(seed)
    return rows_of([draw.integers(1, 50, n) for n in lengths])
