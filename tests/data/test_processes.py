"""Work shared out to helping processes: the results of one process, in their order, or one clear error."""

import os
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest

from encoderlab.data import processes
from encoderlab.data.processes import helpers_at_hand, shared_out
from encoderlab.errors import DataError

WORK = """
import os, signal, sys, time
from encoderlab.errors import DataError

def square(number):
    print("what is printed is no answer")
    return number * number

def worker(number):
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
    """A module that only this process's search path leads to."""
    (tmp_path / "shared_work.py").write_text(WORK)
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__("shared_work")
    del sys.modules["shared_work"]


@pytest.mark.parametrize("helpers", [0, 1, 2])
def test_results_come_in_the_order_of_the_items_whoever_made_them(work, helpers):
    assert list(shared_out(work.square, range(50), helpers)) == [number * number for number in range(50)]
    assert list(shared_out(work.slow_first, range(5), helpers)) == list(range(5))
    assert list(shared_out(work.square, [], helpers)) == []


def test_the_helpers_do_their_share_and_this_process_does_its_own(work):
    workers = [pid for _, pid in shared_out(work.worker, range(200), 1)]
    assert workers[0] != os.getpid()
    assert os.getpid() in workers
    assert len(set(workers)) == 2


@pytest.mark.parametrize("helpers", [0, 1])
def test_what_the_work_raises_is_raised_here(work, helpers):
    with pytest.raises(DataError) as refused:
        list(shared_out(work.refuse, range(10), helpers))
    assert str(refused.value) == "3 is refused. Allowed: other numbers."


def test_a_killed_helper_is_said_in_one_line(work):
    with pytest.raises(DataError, match="^A process that helped to prepare the data was killed, or broke down. Free memory"):
        list(shared_out(work.DiesIn(os.getpid()), range(10), 1))


def test_a_helper_that_cannot_be_started_is_said_in_one_line_and_nobody_waits_for_it(work, monkeypatch):
    def refused(*arguments, **options):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refused)
    with pytest.raises(DataError, match=r"could not be started \(Resource temporarily unavailable\). Free memory"):
        list(shared_out(work.square, range(10), 1))


def test_a_helper_imports_nothing_from_the_folder_it_is_started_in(work, tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "queue.py").write_text("raise ImportError('not the queue of the library')")
    monkeypatch.chdir(folder)
    assert list(shared_out(work.square, range(4), 1)) == [0, 1, 4, 9]


def test_no_more_items_are_read_than_a_few_ahead_of_the_results(work, monkeypatch):
    monkeypatch.setattr(processes, "_RESULTS_AHEAD", 4)
    read = []
    results = shared_out(work.slow_first, (read.append(number) or number for number in count()), 1)
    for number in range(20):
        assert next(results) == number
        assert len(read) <= number + 1 + 4 + 1
    results.close()


def test_helpers_end_with_the_work_and_when_nobody_wants_the_results(work):
    found = shared_out(work.worker, range(100), 1)
    helper = next(found)[1]
    assert Path(f"/proc/{helper}").exists() or sys.platform != "linux"
    found.close()
    with pytest.raises(ProcessLookupError):
        os.kill(helper, 0)


def test_a_helper_of_a_killed_process_ends(work, tmp_path):
    code = "import shared_work; from encoderlab.data.processes import shared_out\n" + (
        "for number, pid in shared_out(shared_work.worker, iter(int, 1), 1): print(pid, flush=True)"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment, text=True)
    helper = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    for _ in range(200):
        if not _lives(helper):
            return
        time.sleep(0.05)
    raise AssertionError("the helper lives on")


def _lives(pid):
    """A process that has ended may still be listed, until whoever inherited it takes notice."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def test_one_process_of_many_starts_no_helpers(monkeypatch):
    assert 0 <= helpers_at_hand() < (os.cpu_count() or 1)
    monkeypatch.setattr(processes.multiprocessing, "parent_process", lambda: object())
    assert helpers_at_hand() == 0


def test_of_the_processes_of_a_machine_only_the_first_has_help(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)), raising=False)
    for local_rank, helpers in (("0", 3), ("1", 0), ("2", 0)):
        monkeypatch.setenv("LOCAL_RANK", local_rank)
        assert helpers_at_hand() == helpers
