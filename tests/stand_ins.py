"""Stand-ins shared by several test files: a clock, and encoded rows."""

import numpy as np

from encoderlab.batch import Encoded


class Clock:
    """A clock that moves only when a test moves it."""

    def __init__(self, now=0.0):
        self.now = now

    def __call__(self):
        return self.now


def encoded(lengths, seed=0):
    """Return random rows of these lengths with labels 0, 1, 2 in turn; the last third of each row is its second text."""
    draw = np.random.default_rng(seed)
    return [
        Encoded(draw.integers(1, 50, n).tolist(), [0] * (n - n // 3) + [1] * (n // 3), label=i % 3, truncated=n > 8)
        for i, n in enumerate(lengths)
    ]
