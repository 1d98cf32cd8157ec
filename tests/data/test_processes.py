"""Work divided among processes: the same results as one process, in order, or one clear error."""

import os
import subprocess
import sys

import pytest

from encoderlab.data import processes
from encoderlab.data.processes import available_workers, parallel_map
from encoderlab.errors import DataError

WORK = """
import os, signal, sys, time
from encoderlab.errors import DataError

def square(number):
    return number * number

def worker(number):
    time.sleep(0.001)
    return number, os.getpid()

def refuse(number):
    if number == 3:
        raise DataError("3 is refused", allowed="other numbers")
    return number

def slow_first(number):
    time.sleep(0.2 * (number == 0))
    return number

class DiesIn:
    def __init__(self, parent):
        self.parent = parent
    def __call__(self, number):
        if os.getpid() != self.parent and number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return number
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Write a module that is only on this process's search path."""
    (tmp_path / "shared_work.py").write_text(WORK)
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__("shared_work")
    del sys.modules["shared_work"]


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_items_whichever_process_computed_them(work, workers):
    assert list(parallel_map(work.square, range(50), workers)) == [number * number for number in range(50)]
    assert list(parallel_map(work.slow_first, range(5), workers)) == list(range(5))
    assert list(parallel_map(work.square, [], workers)) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_errors_of_the_work_or_the_items_are_raised_here(work, workers):
    with pytest.raises(DataError) as refused:
        list(parallel_map(work.refuse, range(10), workers))
    assert str(refused.value) == "3 is refused. Allowed: other numbers."
    with pytest.raises(DataError, match="^3 is refused"):
        list(parallel_map(work.square, map(work.refuse, range(10)), workers))


def test_a_killed_worker_is_reported_in_one_line(work):
    with pytest.raises(DataError, match="^A process that was preparing the data was killed or crashed. Free memory"):
        list(parallel_map(work.DiesIn(os.getpid()), range(10), 2))


def test_a_worker_imports_nothing_from_the_folder_it_is_started_in(tmp_path):
    (tmp_path / "queue.py").write_text("raise ImportError('not the queue of the library')")
    code = "from encoderlab.data.processes import parallel_map; print(list(parallel_map(abs, range(4), 2)))"
    assert subprocess.check_output([sys.executable, "-P", "-c", code], cwd=tmp_path, text=True) == "[0, 1, 2, 3]\n"


def test_workers_end_when_the_results_are_abandoned(work):
    found = parallel_map(work.worker, range(1000), 2)
    worker = next(found)[1]
    assert worker != os.getpid()
    found.close()
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_one_process_of_many_starts_no_workers(monkeypatch):
    assert 1 <= available_workers() <= (os.cpu_count() or 1)
    monkeypatch.setattr(processes.multiprocessing, "parent_process", lambda: object())
    assert available_workers() == 1


def test_only_the_first_process_of_a_machine_starts_workers(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)), raising=False)
    for local_rank, workers in (("0", 4), ("1", 1), ("2", 1)):
        monkeypatch.setenv("LOCAL_RANK", local_rank)
        assert available_workers() == workers
