"""How a failure of one process is recorded for the others, and how processes are named."""

from encoderlab.system.failures import Failure, name_processes

HOSTS = ("anna", "anna", "berta", "berta")


def test_a_failure_is_read_back_from_the_store_unchanged():
    failure = Failure(3, 2, "There is no data.")
    assert Failure.from_json(failure.to_json().encode()) == failure


def test_processes_are_named_after_their_machines():
    assert name_processes([3], HOSTS) == "berta (process 3 of 4)"
    assert name_processes([2, 3], HOSTS) == "berta (processes 2 and 3 of 4)"
    assert name_processes([2, 0], HOSTS) == "anna (process 0 of 4), berta (process 2 of 4)"
