"""encoderlab check: a line for each step, and a failure is one that names what this installation cannot do."""

import socket
import tempfile
from pathlib import Path

import pytest

from encoderlab.cli import main as cli
from encoderlab.commands import check as checking
from encoderlab.errors import DataError, SettingError, TrainingError
from encoderlab.runs.records import installation

STEPS = ["train", "resume", "verify", "eval", "predict", "export", "pretrain", "finetune"]


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    """Run the command with no network; its lines, every folder it may write to being empty afterwards."""

    def refuse(*_, **__):
        raise OSError(101, "Network is unreachable")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    (tmp_path / "work").mkdir()
    (tmp_path / "temporary").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr("sys.argv", ["encoderlab"])

    def run(*arguments):
        try:
            cli.run(["check", f"cache_dir={tmp_path / 'cache'}", *arguments])
        finally:
            assert sorted(path.name for path in tmp_path.rglob("*")) == ["temporary", "work"]
        return capsys.readouterr().out.splitlines()

    return run


def test_every_step_of_a_sound_installation_works(check, capsys):
    lines = check("device=cpu")
    assert [line.split()[:2] for line in lines[3:-1]] == [["ok", step] for step in STEPS]
    assert lines[0].startswith("python 3.") and "torch 2." in lines[0]
    assert lines[1].startswith("device cpu, 1 threads; cache_dir ") and lines[1].endswith("(can be written to)")
    assert lines[2].startswith("optional: found ")
    assert lines[-1] == "All of it works."


def test_what_fails_is_named_and_what_needs_it_is_not_tried(check, monkeypatch, capsys):
    def broken(*_):
        raise ImportError("libsomething.so: cannot open\nshared object file")

    monkeypatch.setattr(checking, "train", broken)
    monkeypatch.setattr(checking, "pretrain", broken)
    with pytest.raises(TrainingError) as refused:
        check()
    assert str(refused.value) == f"This installation cannot {', '.join(STEPS)}. The lines above say what went wrong."
    lines = capsys.readouterr().out.splitlines()[3:]
    assert lines[0].startswith("FAILED  train     ImportError: libsomething.so: cannot open shared object file (")
    assert lines[1].startswith("skipped resume    train failed")
    assert lines[-1].startswith("skipped finetune  pretrain failed")


def test_an_answer_that_is_wrong_is_a_failure(check, monkeypatch, capsys):
    def wrong(config):
        Path(config.output).write_text("text,predicted\na,bad\nb,bad\n", encoding="utf-8")

    trial = checking._Trial
    for name in ("_train", "_resume", "_verify", "_eval", "_export", "_pretrain", "_finetune"):
        monkeypatch.setattr(trial, name, lambda self: "not tried")
    monkeypatch.setattr(checking, "predict", wrong)
    with pytest.raises(TrainingError, match="This installation cannot predict"):
        check()
    said = "FAILED  predict   the answers to two new texts are ['bad', 'bad'], and should be ['good', 'bad']"
    assert said in capsys.readouterr().out


def test_a_users_error_inside_a_step_is_said_as_it_is(check, monkeypatch, capsys):
    def refuse(*_):
        raise DataError("The disk is full", remedy="Free space")

    monkeypatch.setattr(checking, "train", refuse)
    monkeypatch.setattr(checking._Trial, "_pretrain", lambda self: "not tried")
    monkeypatch.setattr(checking._Trial, "_finetune", lambda self: "not tried")
    with pytest.raises(TrainingError):
        check()
    assert "FAILED  train     The disk is full. Free space. (" in capsys.readouterr().out


def test_a_device_that_is_not_there_is_refused(check):
    with pytest.raises(SettingError, match="device=abacus is no device"):
        check("device=abacus")


def test_optional_libraries_are_told_by_the_packages_own_extras(monkeypatch):
    said = [
        "torch>=2",
        'wandb>=0.2; extra == "wandb"',
        "pytest[x]>=1 ; extra == 'dev'",
        'numpy>=1; python_version < "4" and extra == "arrays"',
    ]
    monkeypatch.setattr(installation, "requires", lambda name: said)
    monkeypatch.setattr(installation, "_version", {"numpy": "2.0"}.get)
    assert installation.optional_libraries() == {"wandb": {"wandb": None}, "arrays": {"numpy": "2.0"}}
    assert checking._optional() == "optional: found arrays, not found wandb (pip install 'encoderlab[wandb]')"
