"""Signals: the first ends the program at a safe point, with the exit code a shell expects; the second ends it at once."""

import os
import signal
import subprocess
import sys

import pytest

from encoderlab.system.processes import Interrupted, deferred, signals_handled, stop_if_interrupted


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_process_with_its_own_exit_code(number, code):
    with pytest.raises(Interrupted) as ended, signals_handled():
        send(number)
    assert (ended.value.exit_code, ended.value.name) == (code, signal.Signals(number).name)


SLOWLY = """
import os, signal
from encoderlab.system.processes import signals_handled
with signals_handled():
    import loaded_slowly
"""


def test_a_signal_during_an_import_ends_the_process_without_an_exception(tmp_path):
    (tmp_path / "loaded_slowly.py").write_text(
        "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGTERM)\nfinally:\n    print('raised', flush=True)\n"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    ended = subprocess.run(
        [sys.executable, "-c", SLOWLY],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert (ended.returncode, ended.stdout) == (143, "")
    assert "stopped by SIGTERM" in ended.stderr


def test_deferred_work_ends_only_where_it_checks(capfd):
    done = []
    with pytest.raises(Interrupted), signals_handled(), deferred():
        send(signal.SIGTERM)
        done.append("the step")
        stop_if_interrupted()
        done.append("the next step")
    assert done == ["the step"]
    assert "SIGTERM: saving after this step; send it again to stop at once" in capfd.readouterr().err


def test_an_ignored_signal_stays_ignored(monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_handled():
            send(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


TWICE = """
import os, signal
from encoderlab.system.processes import deferred, signals_handled
with signals_handled(), deferred():
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    print("still here", flush=True)
"""


def test_a_second_signal_ends_the_process_at_once():
    ended = subprocess.run([sys.executable, "-c", TWICE], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (143, "")
