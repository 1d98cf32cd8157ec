"""Signals: the first ends the program where nothing is lost, with the exit code a shell expects; the second ends it at once."""

import importlib
import os
import signal
import subprocess
import sys

import pytest

from encoderlab.errors import DataError
from encoderlab.interruption import Interrupted, deferred, signals_handled, stop_if_interrupted


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_what_is_going_on_with_its_own_exit_code(number, code):
    with pytest.raises(Interrupted) as ended, signals_handled():
        send(number)
    assert (ended.value.exit_code, ended.value.name) == (code, signal.Signals(number).name)


def test_a_signal_waits_until_a_module_is_loaded(tmp_path, monkeypatch):
    (tmp_path / "loaded_slowly.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\ndone = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    loaded = []
    with pytest.raises(Interrupted, match="SIGTERM"), signals_handled():
        loaded.append(importlib.import_module("loaded_slowly").done)
        signal.pause()  # until the signal is looked at again
    assert loaded == [True]
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_an_error_that_a_signal_has_caused_is_the_signal():
    """An extension module that is interrupted as it loads says that it could not be loaded."""
    with pytest.raises(Interrupted, match="SIGINT"), signals_handled():
        try:
            send(signal.SIGINT)
        except Interrupted:
            raise ImportError("initialization failed") from None


def test_a_users_mistake_stays_one_also_after_a_signal():
    with pytest.raises(DataError, match="the disk is full"), signals_handled(), deferred():
        send(signal.SIGTERM)
        raise DataError("the disk is full")


def test_an_error_without_a_signal_stays_what_it_is():
    with pytest.raises(ImportError), signals_handled():
        raise ImportError("initialization failed")


def test_deferred_work_ends_where_it_asks_and_not_before(capfd):
    done = []
    with pytest.raises(Interrupted), signals_handled(), deferred():
        send(signal.SIGTERM)
        done.append("the step")
        stop_if_interrupted()
        done.append("the next step")
    assert done == ["the step"]
    assert "SIGTERM: saving after this step; send it again to stop at once" in capfd.readouterr().err


def test_deferred_work_that_never_asks_is_ended_behind_it():
    done = []
    with pytest.raises(Interrupted), signals_handled():
        with deferred():
            send(signal.SIGINT)
            done.append("all of it")
        done.append("what follows")
    assert done == ["all of it"]


def test_a_mistake_in_deferred_work_is_told_and_not_the_signal():
    with pytest.raises(ValueError, match="wrong"), signals_handled(), deferred():
        send(signal.SIGINT)
        raise ValueError("wrong")


def test_handlers_are_put_back_and_an_old_signal_is_forgotten():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted), signals_handled():
        send(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
    with signals_handled():
        stop_if_interrupted()


def test_a_signal_that_is_ignored_stays_ignored(monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_handled():
            send(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


TWICE = """
import os, signal
from encoderlab.interruption import deferred, signals_handled
with signals_handled(), deferred():
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    print("still here", flush=True)
"""


def test_a_second_signal_ends_the_process_at_once():
    ended = subprocess.run([sys.executable, "-c", TWICE], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (143, "")


def test_under_torchrun_what_is_sent_twice_counts_once():
    environment = os.environ | {"TORCHELASTIC_RUN_ID": "none"}
    ended = subprocess.run([sys.executable, "-c", TWICE], capture_output=True, text=True, check=False, env=environment)
    assert ended.stdout == "still here\n"
