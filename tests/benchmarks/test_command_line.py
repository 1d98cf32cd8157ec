"""The command line of the benchmarks."""

import subprocess

import pytest

from benchmarks import __main__ as command_line
from benchmarks.jobs import JOBS
from benchmarks.processes import ROOT, finished, python
from encoderlab.errors import TrainingError


def typed(*arguments):
    return subprocess.run(python("-m", "benchmarks", *arguments), cwd=ROOT, capture_output=True, text=True, check=False)


def test_every_job_is_listed_with_its_sides():
    found = typed("list").stdout
    assert all(name in found for name in JOBS)
    assert "encoderlab | trainer_sst2 | notebook_sst2 | plain_loop" in found


@pytest.mark.parametrize(("command", "name"), [("run", "docs_tinny"), ("growth", "lenght"), ("gpu", "base_521")])
def test_a_wrong_name_gets_one_line_with_the_valid_ones(command, name):
    found = typed(command, name)
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1
    assert f"There is no {'job' if command == 'run' else 'axis' if command == 'growth' else 'scale'} {name}" in found.stderr
    assert "Did you mean" in found.stderr


@pytest.mark.parametrize("command", ["list", "run", "table", "growth", "gpu", "suite"])
def test_help_describes_each_option(command):
    found = typed(command, "--help")
    assert found.returncode == 0
    if command in ("run", "growth", "gpu"):
        assert "--small" in found.stdout and "nothing is saved" in " ".join(found.stdout.split())


def test_without_a_gpu_there_is_one_line_that_says_so(monkeypatch, capsys):
    monkeypatch.setattr(command_line, "gpu_name", lambda: None)
    monkeypatch.setattr("sys.argv", ["benchmarks", "gpu"])
    command_line.main()
    assert capsys.readouterr() == ("There is no CUDA GPU on this machine: nothing is measured\n", "")


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "eight"])
def test_a_time_budget_is_a_number_of_minutes(minutes):
    found = typed("gpu", f"--minutes={minutes}")
    assert found.returncode == 2
    assert f"--minutes: {minutes} is not a number of minutes" in found.stderr


def test_a_number_of_rounds_below_one_is_refused():
    found = typed("run", "--rounds", "0")
    assert found.returncode == 2
    assert "--rounds: 0 is not a whole number of at least 1" in found.stderr


def test_the_driver_loads_nothing_heavy():
    code = "import sys, benchmarks.__main__; print([name for name in ('torch', 'transformers', 'datasets') if name in sys.modules])"
    assert finished(python("-c", code)).output.strip() == "[]"  # its memory would be counted as that of its children


def test_a_failed_process_is_reported_with_its_last_line():
    with pytest.raises(TrainingError, match=r"^ValueError: too small \(exit code 1 of .*-c"):
        finished(python("-c", "raise ValueError('too small')"))
