"""Claims: one process at a time holds a job, exactly one other takes over from a dead one, and no two clocks are
compared.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Barrier, Event, Thread

import pytest

from encoderlab.errors import TrainingError
from encoderlab.runs.folders import claims as module
from encoderlab.runs.folders.claims import BEATS, Claims
from tests.stand_ins import Clock

SILENT = 1e6  # a holder that renews its claim so rarely is as good as dead
SCRIPT = """
import sys, time
from pathlib import Path
from encoderlab.runs.folders.claims import Claims, end_process
claims = Claims(Path("jobs"), 1e6)
with claims.held("job") as (is_held, _):
    print(is_held, flush=True)
    if "lost" in sys.argv:
        end_process(claims.last("job"), 120)
    time.sleep(600)
"""


class Elsewhere(Claims):
    """The claims as another machine sees them: it shares the storage but not the kernel."""

    machine = "berta"

    def _place(self) -> str:
        return self.machine


@pytest.fixture(params=["locks reach all", "locks reach one machine"])
def jobs(tmp_path, monkeypatch, request):
    """A folder on storage whose locks work across machines, or only within each."""
    if request.param == "locks reach one machine":
        monkeypatch.setattr(module, "locked", always_free)
    return tmp_path / "jobs"


@contextmanager
def always_free(_):
    yield True


def holds(claims, key="job"):
    with claims.held(key) as (is_held, _):
        return is_held


def test_a_job_is_held_by_one_process_until_it_is_released(jobs):
    anna, berta = Claims(jobs, SILENT), Elsewhere(jobs, SILENT)
    with anna.held("job") as (is_held, before):
        assert is_held and before is None
        with berta.held("job") as (is_held, holder):
            assert not is_held
            assert holder.holder.endswith(f"(process {os.getpid()})")
        assert holds(berta, "another job")
        assert not berta.is_free("job", berta.last("job"))
    assert berta.is_free("job", berta.last("job"))
    with berta.held("job") as (is_held, before):
        assert is_held and before is None
        assert not holds(anna)
    assert anna.last("job").number == 2


def test_a_silent_machine_is_dead_after_the_stated_time_by_the_clock_of_whoever_waits(jobs):
    clock = Clock()
    berta = Elsewhere(jobs, 100, clock=clock)
    with Claims(jobs, SILENT).held("job"):
        assert not holds(berta)
        clock.now = 99
        assert not holds(berta)
        clock.now = 100
        with berta.held("job") as (is_held, dead):
            assert is_held
            assert dead.number == 1


def test_a_machine_that_renews_its_claim_is_never_dead(jobs):
    clock = Clock()
    anna, berta = Claims(jobs, 0.1), Elsewhere(jobs, 100, clock=clock)
    with anna.held("job"):
        assert not holds(berta)
        before = berta.last("job").beat
        while berta.last("job").beat == before:
            time.sleep(0.1 / BEATS)
        clock.now = 1000
        assert not holds(berta)


def test_only_one_of_several_machines_takes_over(jobs):
    machines = [Elsewhere(jobs, 1, clock=Clock()) for _ in range(8)]
    ready, tried, held = Barrier(len(machines)), Barrier(len(machines)), []

    def take(claims):
        ready.wait()
        with claims.held("job") as (is_held, _):
            held.append(is_held)
            tried.wait()

    with Claims(jobs, SILENT).held("job"):
        for number, claims in enumerate(machines):
            claims.machine = f"machine {number}"
            assert not holds(claims)
            claims._clock.now = 1
        threads = [Thread(target=take, args=(claims,)) for claims in machines]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert held.count(True) == 1


def test_a_holder_that_was_only_frozen_learns_who_took_over(jobs):
    lost, is_told = [], Event()

    def tell(successor, silent):
        lost.append((successor.number, silent))
        is_told.set()

    berta = Elsewhere(jobs, 1)
    with Claims(jobs, 0.1, tell).held("job"), ExitStack() as stack:
        berta._dead.add(("job", 1, berta.last("job").beat))
        while not stack.enter_context(berta.held("job"))[0]:  # it was renewed in between
            berta._dead.add(("job", 1, berta.last("job").beat))
        assert is_told.wait(60)
    assert lost == [(2, 0.1)]


def test_a_worker_is_told_who_died_without_comparing_clocks(jobs):
    import pickle

    clock = Clock()
    berta = Elsewhere(jobs, 100, clock=clock)
    with Claims(jobs, SILENT).held("job"):
        assert not holds(berta)
        clock.now = 100
        worker = pickle.loads(pickle.dumps(berta))
        assert not holds(worker)
        assert berta.is_free("job", berta.last("job"))
        assert holds(pickle.loads(pickle.dumps(berta)))


def test_an_empty_claim_belongs_to_a_dead_process_too(jobs):
    clock = Clock()
    anna = Claims(jobs, 100, clock=clock)
    jobs.mkdir()
    (jobs / ".job.claim-1").touch()
    with anna.held("job") as (is_held, holder):
        assert not is_held
        assert holder.holder == "another machine"
    clock.now = 100
    assert holds(anna)


@pytest.fixture
def process(tmp_path):
    """Start a process that holds the job in jobs/."""
    started = []

    def start(*arguments):
        line = [sys.executable, "-c", SCRIPT, *arguments]
        process = subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "True\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_killed_process_of_this_machine_is_dead_at_once(process, tmp_path):
    killed = process()
    claims = Claims(tmp_path / "jobs", SILENT)
    assert not holds(claims)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert claims.is_free("job", claims.last("job"))
    assert holds(claims)


def test_a_process_that_lost_its_job_ends_with_a_line(process):
    lost = process("lost")
    _, errors = lost.communicate()
    assert lost.returncode == TrainingError.exit_code
    assert (
        f"(process {lost.pid}) has taken over a job of this process, which was silent for 120 s. Run the same command to resume.\n"
        in errors
    )
    assert len(errors.splitlines()) == 1


def test_without_a_boot_id_the_host_name_identifies_the_machine(jobs, monkeypatch):
    monkeypatch.setattr(module, "BOOT", Path("nowhere"))
    monkeypatch.setattr("socket.gethostname", lambda: "carl")
    jobs.mkdir()
    assert Claims(jobs, 1)._place().startswith("carl-")
