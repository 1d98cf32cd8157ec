"""Several machines work on one sweep: each takes jobs that nobody holds, and a dead machine's jobs are resumed by
another.
"""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest

from encoderlab.runs.folders.claims import Claims
from encoderlab.runs.folders.folder import RunFolder
from encoderlab.runs.folders.sweep import FAILED, FINISHED, RUNNING, STOPPED, JobRecord, SweepError, SweepFolder
from tests.sweeps.conftest import TINY

MACHINE = """
import socket, sys
from pathlib import Path
from encoderlab.runs.folders import claims
name = sys.argv.pop(1)
socket.gethostname, claims.BOOT = lambda: name, Path(f"{name}.boot")
claims.BOOT.write_text(name)
from encoderlab.cli.main import main
main()
"""


class OfBerta(Claims):
    def _place(self):
        return "berta"


@pytest.fixture
def on_berta(sweep, commands):
    """A job's record, and the lock that holds it on another machine until the sweep here waits for it."""
    called, _ = commands
    (record,) = sweep("seed=1")
    called.clear()

    @contextmanager
    def held(ended, dead_after=1e6):
        folder, holds, may_end = SweepFolder(Path("sweep").resolve()), Event(), Event()
        folder.write(replace(record, state=RUNNING, start="berta's"))

        def work():
            with OfBerta(folder.jobs, dead_after).held(record.key) as (is_held, _):
                assert is_held
                holds.set()
                assert may_end.wait(60)
                if ended is not None:
                    folder.write(replace(record, start="berta's", **ended))

        thread = Thread(target=work)
        thread.start()
        assert holds.wait(60)
        yield may_end
        may_end.set()
        thread.join()

    return held


@pytest.fixture
def until_it_waits(monkeypatch):
    """Make a sweep set an event when it prints that it waits for others."""
    from encoderlab.sweeps import other_machines

    say = other_machines.say

    def let(event):
        def say_and_set(line):
            say(line)
            event.set()

        monkeypatch.setattr(other_machines, "POLL_SECONDS", 0.05)
        monkeypatch.setattr(other_machines, "say", say_and_set)

    return let


def test_a_job_on_another_machine_is_waited_for_and_not_repeated(sweep, commands, on_berta, until_it_waits, capsys):
    called, _ = commands
    with on_berta({"state": FINISHED}) as may_end:
        until_it_waits(may_end)
        records = sweep("seed=1,2")
    assert [config.seed for config in called] == [2]
    assert [record.state for record in records] == [FINISHED, FINISHED]
    errors = capsys.readouterr().err
    assert "encoderlab: job 0 runs on " in errors and f"(process {os.getpid()}): seed=1" in errors
    assert "encoderlab: waiting for job 0 on " in errors


def test_a_job_that_fails_on_another_machine_is_listed_and_not_tried_again(
    sweep, commands, on_berta, until_it_waits, capsys
):
    called, _ = commands
    with on_berta({"state": FAILED, "error": "There are no rows.", "exit_code": 3}) as may_end:
        until_it_waits(may_end)
        with pytest.raises(SweepError, match="1 of 2 jobs failed") as ended:
            sweep("seed=1,2")
    assert [config.seed for config in called] == [2]
    assert ended.value.exit_code == 3
    assert "encoderlab: job 0 failed: seed=1" in capsys.readouterr().err


def test_a_job_stopped_on_another_machine_is_resumed_here(sweep, commands, on_berta, until_it_waits):
    called, _ = commands
    with on_berta({"state": STOPPED}) as may_end:
        until_it_waits(may_end)
        sweep("seed=1,2")
    assert [config.seed for config in called] == [2, 1]


def test_the_job_of_an_unresponsive_machine_is_taken_over_with_its_locks(sweep, commands, on_berta, capsys):
    called, _ = commands
    lock = RunFolder(SweepFolder(Path("sweep")).records()[0].folder).lock
    lock.parent.mkdir(parents=True)
    lock.touch()
    with on_berta(None):
        records = sweep("seed=1,2 takeover_seconds=1")
    assert [config.seed for config in called] == [2, 1]
    assert [record.state for record in records] == [FINISHED, FINISHED]
    assert "encoderlab: job 0 is taken over from " in capsys.readouterr().err
    assert not lock.exists()


def test_a_job_that_failed_in_an_earlier_sweep_is_not_waited_for(sweep, commands):
    called, _ = commands
    (record,) = sweep("seed=1")
    other = JobRecord("0" * 16, 1, ["seed=9"], RUNNING)
    SweepFolder(Path("sweep")).write(other)
    with OfBerta(SweepFolder(Path("sweep")).jobs, 1e6).held(other.key):
        sweep("seed=1,2")
    assert [config.seed for config in called] == [1, 2]


@pytest.fixture
def machine(tmp_path, tmp_path_factory, monkeypatch):
    """Start a sweep on a machine with its own name, in a folder that all machines share."""
    monkeypatch.chdir(tmp_path)
    cache, started = str(tmp_path_factory.getbasetemp() / "cache"), []

    def start(name, *line):
        settings = ["training.steps=300", "training.checkpoint_every=10", "training.log_every=1", "takeover_seconds=2"]
        arguments = [
            sys.executable,
            "-c",
            MACHINE,
            name,
            "train",
            "-m",
            *line,
            *TINY.split(),
            *settings,
            "sweep_dir=sweep",
        ]
        environment = os.environ | {"ENCODERLAB_CACHE": cache}
        process = subprocess.Popen(
            arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def rows_of(record):
    """Return what a run has logged; a restarted run would have other times."""
    return [json.loads(row) for row in RunFolder(record.folder).metrics.read_text().splitlines()]


LINES = [("seed=1,2",), ("trials=2", "training.learning_rate=log(1e-4,1e-2)")]


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES, ids=["combinations", "search"])
def test_a_killed_machine_is_replaced_by_another_that_shares_the_folder(machine, line):
    if line[0].startswith("trials"):
        pytest.importorskip("optuna", reason="pip install 'encoderlab[optuna]'")
    anna = machine("anna", *line)
    while not list(Path("sweep").glob("runs/*/checkpoints/step-?0")):
        assert anna.poll() is None, anna.stderr.read()
        time.sleep(0.02)
    anna.send_signal(signal.SIGKILL)
    anna.wait()
    (begun,) = SweepFolder(Path("sweep")).records()
    first_rows = rows_of(begun)[:5]
    berta = machine("berta", *line)
    _, errors = berta.communicate(timeout=300)
    assert berta.returncode == 0, errors
    assert f"encoderlab: job 0 is taken over from anna (process {anna.pid})" in errors
    records = SweepFolder(Path("sweep")).records()
    assert [record.state for record in records] == [FINISHED, FINISHED]
    assert records[0].folder == begun.folder
    assert rows_of(begun)[:5] == first_rows
    if line[0].startswith("trials"):
        assert len(Path("sweep/search.csv").read_text().splitlines()) == 3
    else:
        assert len(Path("sweep/compare.csv").read_text().splitlines()) == 3
