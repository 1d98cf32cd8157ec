"""The size and the speed of teacher and student."""

from encoderlab.runs.distillation.side_by_side import size_and_speed, timed


def test_a_model_takes_four_bytes_per_parameter():
    assert size_and_speed(11_500_000, 1234.56) == {
        "parameters": 11_500_000,
        "megabytes": 46.0,
        "texts_per_second": 1234.6,
    }
    assert size_and_speed(10, None)["texts_per_second"] is None


def test_timed_work_is_done_once_and_its_result_returned():
    calls = []
    answer, speed = timed(7, lambda: calls.append("done") or "answer")
    assert (answer, calls) == ("answer", ["done"])
    assert speed > 0
