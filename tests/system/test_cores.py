"""Cores: threads that wait fall asleep soon, and cores that other programs keep busy are left to them."""

import os
import subprocess
import sys
import time

import pytest
import torch

from encoderlab.system import cores
from encoderlab.system.device import ThreadsByLoad, set_up_compute
from encoderlab.system.processes import SINGLE_PROCESS, Processes

pytestmark = pytest.mark.usefixtures("same_threads")

# Processor time of a second thread that has nothing to do after each of 20 parallel sums.
IDLE_AFTER_WORK = """
import time
import {first}
import torch
torch.set_num_threads(2)
numbers = torch.ones(200_000)
numbers.add_(1)
time.sleep(0.1)
before = time.process_time()
for _ in range(20):
    numbers.add_(1)
    time.sleep(0.03)
print((time.process_time() - before) / 20)
"""


def in_new_process(code, **variables):
    """Return what Python code prints, in an environment without OpenMP's variables but for those given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    done = subprocess.run(
        [sys.executable, "-c", code], env=kept | variables, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux" or cores.available_cores() < 2, reason="GNU's OpenMP, and two threads")
def test_a_thread_that_waits_falls_asleep_within_milliseconds():
    milliseconds = 1000 * float(in_new_process(IDLE_AFTER_WORK.format(first="encoderlab")))
    assert milliseconds < 5, "10 without encoderlab, of a pause of 30"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"OMP_WAIT_POLICY": "active"}, {"OMP_WAIT_POLICY": "active"}),
        ({"GOMP_SPINCOUNT": "7"}, {"GOMP_SPINCOUNT": "7", "KMP_BLOCKTIME": cores.WAITING["KMP_BLOCKTIME"]}),
        ({}, dict(cores.WAITING)),
    ],
)
def test_the_users_own_variables_win(variables, expected):
    code = "import encoderlab, os; print({n: v for n, v in os.environ.items() if n.startswith(('OMP', 'GOMP', 'KMP'))})"
    assert in_new_process(code, **variables) == str(expected)


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Return a function that makes this a machine of four cores, some of which other programs have kept busy."""
    times = tmp_path / "stat"
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(cores, "KERNEL_TIMES", times)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(os, "getpriority", lambda which, process: 0)
    cores.busy_cores.cache_clear()

    def has_busy(n_busy, *, column="user", seconds=30):
        ticks = seconds * os.sysconf("SC_CLK_TCK")
        columns = {"user": 0, "nice": 0, "system": 0, "idle": ticks}
        busy = " ".join(str(number) for number in (columns | {column: ticks}).values())
        idle = " ".join(str(number) for number in columns.values())
        lines = [f"cpu{number} {busy if number < n_busy else idle} 0 0 0 0 0 0" for number in range(4)]
        times.write_text("\n".join(["cpu 0 0 0 0 0 0 0 0 0 0", *lines, f"cpu4 {busy}", "intr 1 2 3"]) + "\n")
        started = cores.BusyTimes(time.monotonic() - seconds, 0.0, sum(os.times()[:4]))
        monkeypatch.setattr(cores, "AT_START", started)

    yield has_busy
    cores.busy_cores.cache_clear()


@pytest.mark.parametrize(("n_busy", "threads"), [(0, 4), (1, 3), (3, 1), (4, 1)])
def test_cores_that_other_programs_keep_busy_are_left_to_them_and_it_is_said(machine, n_busy, threads):
    machine(n_busy)
    compute = set_up_compute("cpu")
    assert compute.threads == threads
    assert ("of 4 cores busy" in str(compute)) is (n_busy > 0)


@pytest.mark.parametrize(("column", "threads"), [("nice", 2), ("idle", 4)])
def test_programs_of_low_priority_count_and_idle_cores_do_not(machine, column, threads):
    machine(2, column=column)
    assert set_up_compute("cpu").threads == threads


def test_a_run_gives_way_to_a_program_that_begins_and_takes_its_core_back_long_after(machine):
    machine(0)
    compute = set_up_compute("cpu")
    assert compute.follows_load
    watch = cores.LoadWatch(4 - compute.threads, cores.BusyTimes(0.0, 0.0, 0.0))
    assert watch.look(cores.BusyTimes(3.0, 15.0, 12.0)) == 1, "3 seconds of a core in 3 seconds"
    assert watch.look(cores.BusyTimes(6.0, 24.0, 21.0)) == 1, "idle, but not yet for long"
    assert watch.look(cores.BusyTimes(9.0, 33.0, 27.0)) == 1
    assert watch.look(cores.BusyTimes(12.0, 45.0, 36.0)) == 1
    assert watch.look(cores.BusyTimes(30.0, 99.0, 90.0)) == 0
    assert watch.look(cores.BusyTimes(33.0, 120.0, 99.0)) == 4


def test_the_threads_of_a_run_follow_the_load_only_if_nobody_has_set_them(machine, monkeypatch):
    monkeypatch.setattr(cores, "LOOK_EVERY", -1.0)
    machine(0)
    followed, fixed = set_up_compute("cpu"), set_up_compute("cpu", threads=4)
    for compute, threads in ((fixed, 4), (followed, 1)):
        machine(0)
        of_run = ThreadsByLoad(compute)
        machine(4)
        of_run.adapt()
        assert torch.get_num_threads() == threads


@pytest.mark.parametrize("settings", [{"threads": 2}, {"deterministic": True}])
def test_a_number_of_threads_that_is_set_or_that_digits_depend_on_does_not_follow_the_load(machine, settings):
    machine(0)
    try:
        assert not set_up_compute("cpu", **settings).follows_load
    finally:
        set_up_compute("cpu", deterministic=False)


def test_the_number_of_threads_is_decided_once(machine):
    machine(1)
    assert set_up_compute("cpu").threads == 3
    machine(3)
    assert set_up_compute("cpu").threads == 3


def test_settings_and_determinism_come_before_the_load(machine, monkeypatch):
    machine(3)
    assert set_up_compute("cpu", threads=2).threads == 2
    assert set_up_compute("cpu", deterministic=True).threads == 4
    set_up_compute("cpu", deterministic=False)
    assert set_up_compute("cpu", processes=Processes(0, 2, 0, 2)).threads == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "2,1")
    assert set_up_compute("cpu", processes=SINGLE_PROCESS).threads == 2
    assert "OMP_NUM_THREADS=2" in str(set_up_compute("cpu"))


def test_a_system_without_the_kernels_times_uses_all_cores(machine, monkeypatch, tmp_path):
    machine(3)
    monkeypatch.setattr(cores, "KERNEL_TIMES", tmp_path / "absent")
    assert set_up_compute("cpu").threads == 4


def test_a_long_running_program_looks_at_the_present(machine, monkeypatch):
    machine(4, seconds=3600)
    monkeypatch.setattr(cores, "PAUSE", 0.01)
    assert set_up_compute("cpu").threads == 4, "the others were busy once, and are not now"
