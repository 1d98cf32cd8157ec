"""Where the command line runs: users without a name and a home, terminals that are not UTF-8, readers that go away."""

import os
import subprocess
import sys

import pytest

# A user who is a number only, as in many containers: no HOME, no entry in /etc/passwd.
WITHOUT_NAME = """
import pwd, sys
def unknown(*_):
    raise KeyError("getpwuid(): uid not found: 54321")
pwd.getpwuid = pwd.getpwnam = unknown
from encoderlab.cli.main import main
sys.argv = ["encoderlab", *sys.argv[1:]]
main()
"""
ROWS = "text,label\n" + "".join(
    f"{'good' if n % 2 else 'bad'} thing {n},{'yes' if n % 2 else 'nö'}\n" for n in range(40)
)
DATA = ("data", "task=classification", "dataset=files", "dataset.path=rows.csv")


def typed(folder, *words, **environment):
    """Run a command line with this environment, and no other variables but the path."""
    variables = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"} | environment
    line = [sys.executable, "-m", "encoderlab", *words]
    return subprocess.run(line, capture_output=True, cwd=folder, env=variables, check=False)


def without_name(folder, *words, **environment):
    variables = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"} | environment
    line = [sys.executable, "-c", WITHOUT_NAME, *words]
    return subprocess.run(line, capture_output=True, text=True, cwd=folder, env=variables, check=False)


def test_without_a_home_one_line_says_what_to_set(tmp_path):
    (tmp_path / "rows.csv").write_text(ROWS, encoding="utf-8")
    ended = without_name(tmp_path, *DATA)
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1 and "ENCODERLAB_CACHE" in ended.stderr
    ended = without_name(tmp_path, *DATA, ENCODERLAB_CACHE=str(tmp_path / "cache"))
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("environment", [{}, {"HOME": "/nonexistent"}])
def test_training_and_predicting_need_neither_name_nor_home(tmp_path, environment):
    (tmp_path / "rows.csv").write_text(ROWS, encoding="utf-8")
    environment |= {"ENCODERLAB_CACHE": str(tmp_path / "cache")}
    line = ("train", *DATA[1:], "model=tiny", "training.steps=2", "run_dir=run")
    ended = without_name(tmp_path, *line, **environment)
    assert ended.returncode == 0 and "Traceback" not in ended.stderr, ended.stderr
    ended = without_name(tmp_path, "predict", "run=run", "rows.csv", "output=out.csv", **environment)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252:strict", "cp437"])
def test_output_that_is_not_utf_8_shows_other_characters(tmp_path, brackets_run, encoding):
    (tmp_path / "rows.csv").write_text(ROWS, encoding="utf-8")
    variables = {"PYTHONUTF8": "0", "PYTHONIOENCODING": encoding, "ENCODERLAB_CACHE": str(tmp_path / "cache")}
    name = encoding.partition(":")[0]
    ended = typed(tmp_path, "predict", f"run={brackets_run}", "text=( ☃ )", **variables)
    assert ended.returncode == 0 and '"( ? )"' in ended.stdout.decode(name), ended.stderr
    ended = typed(tmp_path, *DATA, **variables)
    assert ended.returncode == 0 and "thing" in ended.stdout.decode(name), ended.stderr


def test_a_line_typed_where_nothing_is_utf_8_reaches_the_file_unchanged(tmp_path, brackets_run):
    variables = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "HOME": str(tmp_path)}
    ended = typed(tmp_path, "predict", f"run={brackets_run}", "text=( ☃ )".encode(), "output=out.csv", **variables)
    assert ended.returncode == 0, ended.stderr
    assert '"( ☃ )"' in (tmp_path / "out.csv").read_text(encoding="utf-8")


def test_a_table_whose_reader_is_gone_ends_as_other_programs_do(tmp_path):
    """141 is what a shell says of a program that a closed pipe has ended."""
    rows = "".join(f'"{"good" if n % 2 else "bad"} thing {n} {"x" * 3000}",{n % 40}\n' for n in range(400))
    (tmp_path / "rows.csv").write_text("text,label\n" + rows)
    line = [sys.executable, "-m", "encoderlab", *DATA, "examples=400", f"cache_dir={tmp_path / 'cache'}"]
    process = subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    assert process.wait() == 141
