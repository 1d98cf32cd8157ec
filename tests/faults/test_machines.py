"""Runs on several machines, made of namespaces; skipped without root. scripts/faults run machines tries all of it."""

import sys
import time

import pytest

from faults.machines import breaking, differing, equality
from faults.machines.machine import machines
from faults.machines.network import Link
from faults.promise import Conditions, UnavailableError


@pytest.fixture
def two(tmp_path):
    """Two machines that are up."""
    try:
        with machines(2, tmp_path) as up:
            yield up
    except UnavailableError as error:
        pytest.skip(str(error))


def test_machines_have_their_own_names_networks_and_processes(two):
    first, second = two
    assert [machine.run("hostname").strip() for machine in two] == [first.name, second.name]
    assert first.init not in second.processes()
    second.lose_power()
    until = time.monotonic() + 10
    while second.processes() and time.monotonic() < until:
        time.sleep(0.01)
    assert second.processes() == []
    assert first.processes()


ECHO = "import socket; s = socket.create_server(('', 9)); c, _ = s.accept(); c.sendall(c.recv(9)); c.recv(9)"
ASK = (
    "import socket, time; s = [socket.create_connection(('berta', 9), 9)][0]; t = time.monotonic(); s.sendall(b'x'); s.recv(1);"
    "print(time.monotonic() - t)"
)


def test_a_link_has_the_bandwidth_it_is_given_and_counts_its_bytes(two, tmp_path):
    first, second = two
    second.port.link = Link(delay=0.1)
    answering = second.start([sys.executable, "-c", ECHO], tmp_path / "echo.txt")
    until = time.monotonic() + 10
    while "listening" not in "".join(_listening(second)) and time.monotonic() < until:
        time.sleep(0.05)
    first.start([sys.executable, "-c", ASK], tmp_path / "output.txt").wait(20)
    answering.wait(20)
    assert float((tmp_path / "output.txt").read_text()) >= 0.2
    assert first.port.sent > 0 and second.port.sent > 0


def _listening(machine):
    """Return a word if a socket of the machine listens on port 9."""
    return [
        "listening" for line in machine.run("cat", "/proc/1/net/tcp").splitlines() if ":0009 00000000:0000 0A" in line
    ]


@pytest.mark.slow
def test_two_machines_compute_the_same_as_one_process(tmp_path):
    assert failures(equality.equal, tmp_path) == []


@pytest.mark.slow
def test_a_machine_without_power_is_named_and_the_run_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr(breaking, "LOST", [fault for fault in breaking.LOST if fault.name == "a machine without power"])
    assert failures(breaking.lost, tmp_path) == []


@pytest.mark.slow
def test_a_machine_with_another_setting_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(differing, "DIFFERENCES", {"another setting": differing.DIFFERENCES["another setting"]})
    assert failures(differing.refused, tmp_path) == []


def failures(tried, folder):
    """Return what went wrong in the first trial of a promise; skip the test if no trial is possible here."""
    try:
        trials = list(tried(Conditions(1, 0, folder.resolve())))
    except UnavailableError as error:
        pytest.skip(str(error))
    return [(trial.case, trial.failure) for trial in trials if trial.failure]
