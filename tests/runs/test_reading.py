"""Notes on texts longer than the model's limit: their fraction, and the limit with its setting."""

from types import SimpleNamespace

import numpy as np
import pytest

from encoderlab.runs.corpus import reading_note, reading_notes
from encoderlab.tasks.rows import ExampleRows
from encoderlab.tasks.sequences import Windowing

TRUNCATING = SimpleNamespace(windows=None, max_length=8, limit="model.max_length=8 tokens")
WINDOWED = SimpleNamespace(windows=Windowing("mean", 3), max_length=8, limit="")


class Counted(ExampleRows):
    """Rows known only by their numbers of windows and which of them are truncated."""

    def __init__(self, windows, truncated):
        self.known = np.array(windows), np.array(truncated)

    def __len__(self):
        return len(self.known[0])

    def windows(self):
        return self.known[0]

    def truncated(self):
        return self.known[1]


def test_each_split_with_truncated_rows_is_named():
    rows = {"train": Counted([1] * 4, [0, 1, 0, 0]), "test": Counted([1] * 2, [0, 0])}
    assert reading_notes(rows, TRUNCATING) == ["25.0% of the rows of train were truncated to model.max_length=8 tokens"]


@pytest.mark.parametrize(
    ("rows", "note"),
    [
        (Counted([1, 1], [0, 0]), []),
        (
            Counted([1, 3], [0, 0]),
            ["50.0% of the rows were read in windows of 8 tokens, 3.0 on average (task.windows)"],
        ),
        (
            Counted([2, 3], [0, 1]),
            [
                "100.0% of the rows were read in windows of 8 tokens, 2.5 on average (task.windows); "
                "1 still longer: 3 evenly spaced windows of each (task.max_windows)"
            ],
        ),
    ],
)
def test_rows_that_need_several_windows_are_counted(rows, note):
    assert reading_note(rows, WINDOWED) == note
