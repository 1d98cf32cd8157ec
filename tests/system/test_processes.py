"""What processes know of each other, in real ones that torchrun starts, and in a single one, at no cost; and signals: the first
ends the program at a safe point, with the exit code a shell expects, the second at once.
"""

import os
import signal
import subprocess
import sys
from textwrap import dedent

import pytest

from encoderlab.errors import SettingError
from encoderlab.system.processes import (
    SINGLE_PROCESS,
    Interrupted,
    connect,
    deferred,
    processes_of_torchrun,
    signals_handled,
    stop_if_interrupted,
)
from tests.torchrun import environment, torchrun

START = """
import os, sys
from encoderlab.system.processes import *
processes = connect(processes_of_torchrun())
"""
TORCHRUN = {"WORLD_SIZE": "4", "RANK": "3", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "29500"}


@pytest.fixture
def run(tmp_path):
    """Run a script in several processes; return the lines that each wrote to its own file, by rank."""

    def run_script(size, script):
        (tmp_path / "script.py").write_text(START + dedent(script) + "\nprocesses.end(0)\n")
        code, _, errors = torchrun(size, "script.py", folder=tmp_path)
        assert code == 0, "\n".join(errors)
        return [(tmp_path / f"{rank}.txt").read_text().splitlines() for rank in range(size)]

    return run_script


@pytest.mark.slow
def test_collective_operations_reduce_gather_and_take_turns(run, tmp_path):
    lines = run(
        3,
        """
        import time, torch
        mine = torch.full((2,), float(processes.rank + 1))
        with processes.main_process_first():
            time.sleep(0.0 if processes.rank else 0.5)
            with open("turns.txt", "a") as file:
                file.write(f"{processes.rank}\\n")
        processes.broadcast_tensors([weights := torch.arange(3.0) + processes.rank])
        facts = [
            processes.all_reduce_sum([1, processes.rank, 10]),
            processes.sum(mine).tolist(),
            processes.gather({"rank": processes.rank}),
            processes.broadcast_from_main(lambda: f"made by {processes.rank}"),
            weights.tolist(),
            (processes.is_main, processes.size, processes.local_size),
        ]
        open(f"{processes.rank}.txt", "w").write("\\n".join(map(str, facts)))
        """,
    )
    assert lines[0] == [
        "[3, 3, 30]",
        "[6.0, 6.0]",
        "[{'rank': 0}, {'rank': 1}, {'rank': 2}]",
        "made by 0",
        "[0.0, 1.0, 2.0]",
        "(True, 3, 3)",
    ]
    for rank in (1, 2):
        assert lines[rank] == [*lines[0][:2], "None", *lines[0][3:5], "(False, 3, 3)"]
    assert (tmp_path / "turns.txt").read_text().startswith("0\n")


@pytest.mark.slow
def test_one_of_several_processes_skips_pythons_shutdown_and_loses_no_output(run, tmp_path):
    """PyTorch's threads may abort a process there: see `Processes.end`."""
    lines = run(
        2,
        """
        import atexit
        atexit.register(os.mkdir, "python-ended")
        sys.stdout = open(f"{processes.rank}.txt", "w")
        print("written")
        processes.leave()
        """,
    )
    assert lines == [["written"], ["written"]]
    assert not (tmp_path / "python-ended").exists()


def test_a_single_process_communicates_nothing_and_loads_nothing():
    code = START + dedent(
        """
        assert processes == SINGLE_PROCESS
        print(processes.all_reduce_sum([1, 2]), processes.gather("a"))
        print(processes.broadcast_from_main(lambda: 5), processes.sum("as it is"))
        processes.broadcast_tensors([])
        processes.leave()
        with processes.main_process_first(), processes.connection_watched(), only_main_prints(processes):
            print("torch" in sys.modules)
        """
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment())
    assert ended.stdout.splitlines() == ["[1, 2] ['a']", "5 as it is", "False"]


def test_a_process_knows_its_global_and_local_rank(monkeypatch):
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    processes = processes_of_torchrun()
    assert (processes.rank, processes.size, processes.local_rank, processes.local_size) == (3, 4, 1, 2)
    assert not processes.is_main


@pytest.mark.parametrize("size", [None, "1"])
def test_without_torchrun_there_is_a_single_process(monkeypatch, size):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    if size is not None:
        monkeypatch.setenv("WORLD_SIZE", size)
    assert connect(processes_of_torchrun()) == SINGLE_PROCESS


@pytest.mark.parametrize(("name", "value"), [("WORLD_SIZE", "two"), ("RANK", None), ("LOCAL_RANK", "")])
def test_incomplete_variables_of_torchrun_are_refused(monkeypatch, name, value):
    for variable, number in TORCHRUN.items():
        monkeypatch.setenv(variable, number)
    monkeypatch.setenv(name, value) if value is not None else monkeypatch.delenv(name)
    with pytest.raises(SettingError, match="torchrun"):
        processes_of_torchrun()


def test_an_error_that_is_not_about_the_connection_passes():
    with pytest.raises(RuntimeError, match="shapes"), SINGLE_PROCESS.connection_watched():
        raise RuntimeError("shapes do not match")


def send(number):
    os.kill(os.getpid(), number)


def test_a_signal_that_a_library_turns_into_an_error_still_ends_the_process():
    """As when torchrun ends a process while Hydra reads its settings."""
    with pytest.raises(Interrupted) as ended, signals_handled():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except BaseException:
            raise SettingError("There is no setting defaults") from None
    assert ended.value.name == "SIGTERM"
    with pytest.raises(SettingError), signals_handled():
        raise SettingError("There is no setting defaults")


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
