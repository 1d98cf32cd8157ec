"""Windows against truncation: how many rows have several, and the lead from reading all of them."""

import numpy as np
import pytest

from encoderlab.data.examples import TextExample
from encoderlab.reports.training.windows import compared_with_truncation, windows_table
from encoderlab.runs.inference.inputs import encoded_rows
from encoderlab.tasks.config import ClassificationConfig, Windows
from tests.runs.small_assembly import assembly_of

LONG = ["0123456789" * 9, "01", "9876543210" * 2, "5"]
LABELS = np.array([0, 1, 1, 0])


@pytest.fixture
def compared(scores_of):
    def compare(windows=Windows.max, truncated=(1, 1, 1, 1)):
        assembly = assembly_of(ClassificationConfig(name="long", windows=windows, max_windows=3))
        rows = encoded_rows(assembly, [TextExample(text) for text in LONG])
        first = None if truncated is None else scores_of(LABELS, truncated)
        return compared_with_truncation(assembly.task, rows, scores_of(LABELS, LABELS), first, 0)

    return compare


def test_rows_with_several_windows_are_counted_and_both_readings_scored(compared):
    found = compared()["windows"]
    assert (found["rows"], found["rows_in_windows"], found["rows_truncated"], found["tokens"]) == (4, 2, 1, 12)
    assert found["pooling"] == "max" and 1 < found["mean_windows"] <= 3
    assert (found["all_windows"]["accuracy"], found["first_window"]["accuracy"]) == (1.0, 0.5)
    assert found["first_window"]["windows_lead_by"] == 0.5
    low, high = found["first_window"]["windows_lead_by_ci95"]
    assert low <= 0.5 <= high


def test_without_long_texts_or_windows_there_is_nothing_to_compare(compared):
    assert compared(truncated=None) == {} and compared(Windows.none) == {}
    assert windows_table({"main_figure": "accuracy"}) == []


def test_the_table_shows_both_with_the_lead(compared):
    heading, windows, first = windows_table({"main_figure": "accuracy"} | compared())
    assert heading[1] == "accuracy" and windows == ["all windows (this model)", "1.000", ""]
    assert first[1] == "0.500" and first[2].startswith("+0.500 (")
