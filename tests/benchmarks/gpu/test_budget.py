"""The time budget of the measurement on a GPU, with a clock that stands still between rows."""

import time

import pytest

from benchmarks.gpu.budget import Budget, Row, Rows
from benchmarks.processes import OutOfTimeError, finished, python
from encoderlab.errors import TrainingError
from tests.stand_ins import Clock


class Measuring(Clock):
    """Seconds that pass only while a row is measured."""

    def row(self, name, takes, kind="run"):
        """A row that takes so many seconds, and is ended when it has no more time."""

        def measure(seconds):
            self.now += min(takes, seconds)
            if takes > seconds:
                raise OutOfTimeError("Not finished")
            return {"seconds": takes}

        return Row(name, kind, measure)


def measured(total, *rows, clock):
    found = Rows()
    found.measure([clock.row(*row) for row in rows], Budget(total, clock))
    return [row["name"] for row in found.figures], found.dropped


def test_the_last_rows_are_dropped_and_named_when_time_runs_out():
    clock = Measuring()
    done, dropped = measured(100, ("a", 40), ("b", 40), ("c", 40), ("d", 40), clock=clock)
    assert (done, dropped) == (["a", "b"], ["c", "d"])
    assert clock.now == 80  # not started: 20 seconds are less than either took


def test_a_row_that_is_quicker_than_the_dropped_ones_is_still_measured():
    done, dropped = measured(100, ("a", 80, "compiled"), ("b", 80, "compiled"), ("c", 10, "eager"), clock=Measuring())
    assert (done, dropped) == (["a", "c"], ["b"])


def test_a_row_that_takes_longer_than_expected_is_ended_with_the_budget():
    clock = Measuring()
    done, dropped = measured(100, ("a", 40), ("b", 90), ("c", 1), clock=clock)
    assert (done, dropped) == (["a"], ["b", "c"])
    assert clock.now == 100


def test_a_failed_row_is_recorded_with_its_reason_and_the_others_continue():
    def fails(seconds):
        raise TrainingError("Out of memory")

    found = Rows()
    found.measure([Row("a", "run", fails), Measuring().row("b", 1)], Budget(100, Measuring()))
    assert found.failed == [{"name": "a", "reason": "Out of memory."}]
    assert [row["name"] for row in found.figures] == ["b"] and found.dropped == []


def test_a_process_is_ended_when_its_time_is_over():
    started = time.monotonic()
    with pytest.raises(OutOfTimeError, match="Not finished after 0 s"):
        finished(python("-c", "import time; time.sleep(600)"), seconds_at_most=0.05)
    assert time.monotonic() - started < 300
    assert finished(python("-c", "print(1)"), seconds_at_most=600).output == "1\n"
