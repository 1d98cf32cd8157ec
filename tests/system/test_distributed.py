"""What processes know of each other: in real processes that torchrun starts, and in a single one, at no cost."""

import socket
import subprocess
import sys
from textwrap import dedent

import pytest

from encoderlab.errors import SettingError
from encoderlab.system import processes as distributed
from encoderlab.system.processes import SINGLE_PROCESS, FailedElsewhereError, Processes, ProcessLostError, join, placed
from tests.torchrun import environment, torchrun

START = """
import os, sys
from encoderlab.system.processes import *
from encoderlab.system.processes import *
from encoderlab.system.processes import *
processes = join(placed())
"""


@pytest.fixture
def run(tmp_path):
    """Run a script in several processes; return the lines that each wrote to its own file, by rank."""

    def run_script(size, script, **variables):
        (tmp_path / "script.py").write_text(START + dedent(script) + "\nprocesses.end(0)\n")
        code, _, errors = torchrun(size, "script.py", folder=tmp_path, **variables)
        assert code == 0, "\n".join(errors)
        return [(tmp_path / f"{rank}.txt").read_text().splitlines() for rank in range(size)]

    return run_script


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
            processes.all_reduce_max(7 - processes.rank),
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
        "7",
        "[{'rank': 0}, {'rank': 1}, {'rank': 2}]",
        "made by 0",
        "[0.0, 1.0, 2.0]",
        "(True, 3, 3)",
    ]
    for rank in (1, 2):
        assert lines[rank] == [*lines[0][:3], "None", *lines[0][4:6], "(False, 3, 3)"]
    assert (tmp_path / "turns.txt").read_text().startswith("0\n")


@pytest.mark.slow
def test_a_failed_process_ends_those_that_wait_for_it(run):
    written = run(
        3,
        """
        import os, torch
        from encoderlab.errors import DataError
        note = open(f"{processes.rank}.txt", "w")
        try:
            with processes.watched("Go on."), processes.main_process_first():
                if processes.is_main:
                    raise DataError("There is no data")
        except DataError as error:
            print(processes.announce(error, 3), file=note)
        except FailedElsewhereError as error:
            print(error.exit_code, file=note)
        note.close()
        torch.distributed.barrier()
        """,
    )
    assert [lines[0] for lines in written] == ["True", "3", "3"]


@pytest.mark.slow
def test_a_process_that_is_new_to_a_restarted_run_counts_as_restarted_too(tmp_path):
    (tmp_path / "script.py").write_text(
        "import os; from encoderlab.system.processes import *;"
        "os.environ['TORCHELASTIC_RESTART_COUNT'] = os.environ['RANK'];"  # the main process's machine was booted
        "processes = join(placed()); open(f'{processes.rank}.txt', 'w').write(str(processes.restarted)); processes.end(0)"
    )
    code, _, errors = torchrun(2, "script.py", folder=tmp_path)
    assert code == 0, "\n".join(errors)
    assert [(tmp_path / f"{rank}.txt").read_text() for rank in range(2)] == ["True", "True"]


@pytest.mark.slow
def test_a_process_with_a_mistake_ends_after_the_main_process_has_reported_it(run):
    lines = run(
        2,
        """
        import time
        from encoderlab.errors import DataError
        note = open(f"{processes.rank}.txt", "w")
        if processes.is_main:
            time.sleep(1)  # torchrun would end it here, if the other ended at once
        print(processes.announce(DataError("There is no data"), 3), processes.store.check(["reported"]), file=note)
        note.close()
        """,
    )
    assert lines == [["True True"], ["False True"]]


@pytest.mark.slow
def test_a_dead_process_is_named_once_whichever_process_waits_for_it(tmp_path):
    (tmp_path / "script.py").write_text(
        START
        + dedent(
            """
            if processes.rank == 2:
                os._exit(0)
            try:
                with processes.watched("Go on."):
                    processes.all_reduce_sum([1])
            except (ProcessLostError, FailedElsewhereError) as error:
                line = error.line if isinstance(error, FailedElsewhereError) else str(error)
                if processes.announce(error, 4) and line:
                    print(f"encoderlab: {line}", file=sys.stderr, flush=True)
                os._exit(4)
            """
        )
    )
    code, _, errors = torchrun(3, "script.py", folder=tmp_path)
    assert code != 0
    ours = [line for line in errors if line.startswith("encoderlab: ")]
    assert len(ours) == 1, errors
    assert ours[0].startswith(f"encoderlab: Lost {socket.gethostname()} (process 2 of 3): its connection closed.")


@pytest.mark.slow
def test_a_live_process_that_never_arrives_is_waited_for_until_the_timeout(run):
    lines = run(
        2,
        """
        import os, time
        note = open(f"{processes.rank}.txt", "w")
        started = time.monotonic()
        if processes.rank:
            time.sleep(8)
            os._exit(0)
        try:
            with processes.watched("Go on."):
                processes.all_reduce_sum([1])
        except ProcessLostError as error:
            print(error, file=note)
        note.close()
        os._exit(0)
        """,
        ENCODERLAB_WAIT_SECONDS="1",
    )
    assert lines[0] == ["The 2 processes of this run did not meet in time. Go on."]


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
    code = (
        "import sys; from encoderlab.system.processes import *; from encoderlab.system.processes import *; processes = join(placed()); assert processes is SINGLE_PROCESS;"
        "print(processes.all_reduce_sum([1, 2]), processes.all_reduce_max(3), processes.gather('a'), processes.broadcast_from_main(lambda: 5), processes.sum('as it is'));"
        "processes.broadcast_tensors([]); processes.leave()\n"
        "with processes.main_process_first(), processes.watched(''), speaking_for_all(processes): print('torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment())
    assert found.stdout.splitlines() == ["[1, 2] 3 ['a'] 5 as it is", "False"]


def test_a_waiting_process_prints_for_whom_and_how_long(monkeypatch, tmp_path):
    class Store:
        """A store in which the other machine arrives after a few polls."""

        looks = 0

        def check(self, keys):
            self.looks += keys == ["turn 1 machine 1"]
            return self.looks > 3

        def get(self, key):
            return {"machine 1": b"berta"}[key]

        def set(self, key, value):
            pass

    monkeypatch.setattr(distributed, "SHOWN_AFTER_SECONDS", 0)
    with (tmp_path / "errors.txt").open("w") as errors:
        processes = Processes(0, 2, 0, 1, 0, 2, store=Store(), hosts=("anna", "berta"), errors=errors.fileno())
        with processes.main_process_first():
            pass
    assert (tmp_path / "errors.txt").read_text().splitlines()[0] == "encoderlab: anna has waited 0 s for berta"


PLACE = {
    "WORLD_SIZE": "2",
    "RANK": "0",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29",
}


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("WORLD_SIZE", "two", "WORLD_SIZE is 'two'. Allowed: a whole number, at least 1."),
        ("WORLD_SIZE", "-1", "WORLD_SIZE is '-1'"),
        ("RANK", None, "RANK is not set"),
        ("RANK", "2", "RANK is '2'. Allowed: a whole number, at least 0 and at most 1. Let torchrun set it"),
        ("LOCAL_RANK", "", "LOCAL_RANK is ''"),
        ("LOCAL_WORLD_SIZE", "3", "LOCAL_WORLD_SIZE is '3'"),
        ("MASTER_PORT", "x", "MASTER_PORT is 'x'"),
        ("ENCODERLAB_WAIT_SECONDS", "0", "ENCODERLAB_WAIT_SECONDS is '0'"),
    ],
)
def test_invalid_rank_variables_are_refused_in_one_line(monkeypatch, name, value, says):
    for variable, good in PLACE.items():
        monkeypatch.setenv(variable, good)
    monkeypatch.delenv(name, raising=False)
    if value is not None:
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingError) as refused:
        join(placed())
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_missing_processes_are_not_waited_for_forever(monkeypatch):
    for variable, good in (PLACE | {"MASTER_PORT": "0", "ENCODERLAB_WAIT_SECONDS": "1"}).items():
        monkeypatch.setenv(variable, good)
    monkeypatch.setenv("MASTER_PORT", "29501")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(ProcessLostError, match="cannot find one another"):
        join(placed())


def test_a_local_error_is_not_taken_for_a_lost_process():
    with pytest.raises(RuntimeError, match="shapes"), Processes(0, 2).watched("Go on."):
        raise RuntimeError("shapes do not match")
    with pytest.raises(RuntimeError, match="gloo"), SINGLE_PROCESS.watched("Go on."):
        raise RuntimeError("gloo")
    assert issubclass(FailedElsewhereError, Exception)
