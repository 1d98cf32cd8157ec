"""A prediction that is stopped and typed again: it continues, and the output is what it would have been."""

import os
import signal
import subprocess
import sys
import time

import pytest

from encoderlab.errors import DataError, UserError
from encoderlab.models.model import Model

ROWS = 2500


@pytest.fixture
def rows(tmp_path):
    """Write rows of about a kilobyte, which are predicted in several parts."""
    lines = [f'{n},"({"( " * (n % 7)}{" )" * 450}"\n' for n in range(ROWS)]
    (tmp_path / "new.csv").write_text("id,text\n" + "".join(lines))


class StoppedError(UserError):
    pass


def stop_after(monkeypatch, parts):
    """Let prediction fail after some of its parts."""
    outputs = Model.outputs
    calls = []

    def failing(*arguments):
        calls.append(None)
        if len(calls) > parts:
            raise StoppedError("stopped")
        return outputs(*arguments)

    monkeypatch.setattr(Model, "outputs", failing)
    return calls


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "xlsx"])
def test_a_stopped_prediction_continues_to_the_same_bytes(
    command, brackets_run, tmp_path, monkeypatch, capsys, rows, ending
):
    line = ("predict", f"run={brackets_run}", "new.csv", "probabilities=all", "threads=1")
    command(*line, f"output=whole.{ending}")
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        with pytest.raises(StoppedError):
            command(*line, f"output=out.{ending}")
    assert not (tmp_path / f"out.{ending}").exists() and "same line" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        calls = stop_after(patch, 100)
        command(*line, f"output=out.{ending}")
    assert len(calls) == 2  # of three parts
    assert (tmp_path / f"out.{ending}").read_bytes() == (tmp_path / f"whole.{ending}").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.csv", f"out.{ending}", f"whole.{ending}"]


def test_what_was_torn_or_has_other_texts_is_predicted_again(command, brackets_run, tmp_path, monkeypatch, rows):
    line = ("predict", f"run={brackets_run}", "new.csv", "threads=1")
    kept = tmp_path / "out.csv.partial"
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        with pytest.raises(StoppedError):
            command(*line, "output=out.csv")
    whole = kept.read_bytes()
    text = (tmp_path / "new.csv").read_text()
    for damaged, changed in (
        (whole[:-9], text),
        (whole[:99] + b"?" + whole[100:], text),
        (whole, text.replace("0,", "0,) ")),
    ):
        kept.write_bytes(damaged)
        (tmp_path / "new.csv").write_text(changed)
        command(*line, "output=out.csv", "overwrite=true")
        command(*line, "output=other.csv", "overwrite=true")
        assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "other.csv").read_bytes()


def test_predictions_of_another_line_are_not_continued(command, brackets_run, pairs_run, tmp_path, monkeypatch, rows):
    line = ("predict", f"run={brackets_run}", "new.csv", "threads=1", "output=out.csv")
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        with pytest.raises(StoppedError):
            command(*line)
    before = (tmp_path / "out.csv.partial").read_bytes()
    with pytest.raises(DataError, match=r"min_probability.*overwrite=true"):
        command(*line, "min_probability=0.6")
    assert (tmp_path / "out.csv.partial").read_bytes() == before
    command(*line, "min_probability=0.6", "overwrite=true")
    assert (tmp_path / "out.csv").read_text().count("\n") == ROWS + 1


def test_long_work_says_how_far_it_is_where_no_bar_is_drawn(command, brackets_run, tmp_path, monkeypatch, capsys, rows):
    monkeypatch.setattr("encoderlab.system.messages.FIRST_SECONDS", 0.0)
    monkeypatch.setattr("encoderlab.system.messages.SECONDS", 0.0)
    command("predict", f"run={brackets_run}", "new.csv", "output=out.csv")
    said = [line for line in capsys.readouterr().err.splitlines() if "predicting" in line]
    assert len(said) > 2 and all(word in said[-1] for word in (f"{ROWS:,} of {ROWS:,} rows", "rows/s", "00:00 left"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_prediction_continues(command, brackets_run, tmp_path, number):
    lines = [f'{n},"({"( " * (n % 7)}{" )" * 450}"\n' for n in range(10 * ROWS)]
    (tmp_path / "new.csv").write_text("id,text\n" + "".join(lines))
    line = [sys.executable, "-m", "encoderlab", "predict", f"run={brackets_run}", "new.csv", "threads=1"]
    process = subprocess.Popen([*line, "output=out.csv"], stderr=subprocess.DEVNULL)
    kept = tmp_path / "out.csv.partial"
    while process.poll() is None and not (kept.is_file() and kept.read_bytes().count(b"\n") > 2):
        time.sleep(0.01)
    os.kill(process.pid, number)
    assert process.wait() in (-number, 128 + number) and not (tmp_path / "out.csv").exists()
    done = subprocess.run([*line, "output=out.csv"], check=True, capture_output=True, text=True)
    assert "continuing" in done.stderr and not kept.exists()
    subprocess.run([*line, "output=whole.csv"], check=True)
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
