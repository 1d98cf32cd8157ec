"""The command line of the benchmarks."""

import subprocess

import pytest

from benchmarks import __main__ as command_line
from benchmarks.jobs import JOBS
from benchmarks.processes import ROOT, finished, python
from encoderlab.errors import TrainingError


@pytest.fixture
def typed(monkeypatch, capsys):
    """Run a command line in this process; return its exit code and what it printed."""

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["benchmarks", *arguments])
        try:
            command_line.main()
        except SystemExit as ended:
            return ended.code, *capsys.readouterr()
        return 0, *capsys.readouterr()

    return run


def test_a_real_process_lists_every_job_with_its_sides():
    found = subprocess.run(
        python("-m", "benchmarks", "list"), cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert all(name in found for name in JOBS)
    assert "encoderlab | trainer_sst2 | notebook_sst2 | plain_loop" in found


def test_a_wrong_name_ends_a_real_process_with_one_line():
    ended = subprocess.run(
        python("-m", "benchmarks", "run", "x"), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(("command", "name"), [("run", "docs_tinny"), ("growth", "lenght"), ("gpu", "base_521")])
def test_a_wrong_name_gets_one_line_with_the_valid_ones(typed, command, name):
    code, _, errors = typed(command, name)
    assert code == 2
    assert errors.count("\n") == 1
    assert f"There is no {'job' if command == 'run' else 'axis' if command == 'growth' else 'scale'} {name}" in errors
    assert "Did you mean" in errors


@pytest.mark.parametrize("command", ["list", "run", "table", "growth", "gpu", "suite"])
def test_help_describes_each_option(typed, command):
    code, printed, _ = typed(command, "--help")
    assert code == 0
    if command in ("run", "growth", "gpu"):
        assert "--small" in printed and "nothing is saved" in " ".join(printed.split())


def test_without_a_gpu_there_is_one_line_that_says_so(monkeypatch, capsys):
    monkeypatch.setattr(command_line, "gpu_name", lambda: None)
    monkeypatch.setattr("sys.argv", ["benchmarks", "gpu"])
    command_line.main()
    assert capsys.readouterr() == ("There is no CUDA GPU on this machine: nothing is measured\n", "")


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "eight"])
def test_a_time_budget_is_a_number_of_minutes(typed, minutes):
    code, _, said = typed("gpu", f"--minutes={minutes}")
    assert code == 2
    assert f"--minutes: {minutes} is not a number of minutes" in said


def test_a_number_of_rounds_below_one_is_refused(typed):
    code, _, said = typed("run", "--rounds", "0")
    assert code == 2
    assert "--rounds: 0 is not a whole number of at least 1" in said


def test_the_driver_loads_nothing_heavy():
    code = "import sys, benchmarks.__main__; print([name for name in ('torch', 'transformers', 'datasets') if name in sys.modules])"
    assert finished(python("-c", code)).output.strip() == "[]"  # its memory would be counted as that of its children


def test_a_failed_process_is_reported_with_its_last_line():
    with pytest.raises(TrainingError, match=r"^ValueError: too small \(exit code 1 of .*-c"):
        finished(python("-c", "raise ValueError('too small')"))
