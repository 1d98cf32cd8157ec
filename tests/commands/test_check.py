"""encoderlab check: a line for each command that works, and one line that names the first that does not."""

import tempfile
from pathlib import Path

import pytest

from encoderlab.cli import main as cli
from encoderlab.commands import check as checking
from encoderlab.errors import DataError, SettingError, TrainingError
from encoderlab.runs.records import installation


@pytest.fixture
def check(tmp_path, monkeypatch, capsys, no_network):
    """Run the command with no network; its lines, every folder it may write to being empty afterwards."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")  # put back afterwards
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
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


def test_every_command_of_an_intact_installation_works(check):
    lines = check("device=cpu")
    assert lines[3:] == ["ok  train", "ok  eval", "ok  export", "ok  predict", "Everything works."]
    assert lines[0].startswith("python 3.") and "torch 2." in lines[0]
    assert lines[1].startswith("device cpu, 1 threads; cache_dir ") and lines[1].endswith("(writable)")
    assert lines[2].startswith("optional: found ")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            ImportError("libsomething.so: cannot open\nshared object"),
            "ImportError: libsomething.so: cannot open shared object.",
        ),
        (DataError("The disk is full", remedy="Free space"), "The disk is full. Free space."),
    ],
)
def test_the_command_that_fails_is_named_with_its_error(check, monkeypatch, error, reason):
    def broken(*_):
        raise error

    monkeypatch.setattr(checking, "train", broken)
    with pytest.raises(TrainingError) as refused:
        check()
    assert str(refused.value) == f"This installation cannot train: {reason}"


def test_a_wrong_prediction_is_a_failure(check, monkeypatch):
    def wrong(config):
        Path(config.output).write_text("text,predicted\na,bad\nb,bad\n", encoding="utf-8")

    monkeypatch.setattr(checking, "predict", wrong)
    with pytest.raises(TrainingError, match=r"cannot predict: the exported model predicts \['bad', 'bad'\] instead of"):
        check()


def test_a_missing_device_is_refused(check):
    with pytest.raises(SettingError, match="device=abacus is not a device"):
        check("device=abacus")


def test_optional_libraries_are_listed_by_the_packages_extras(monkeypatch):
    requirements = [
        "torch>=2",
        'wandb>=0.2; extra == "wandb"',
        "pytest[x]>=1 ; extra == 'dev'",
        'numpy>=1; python_version < "4" and extra == "arrays"',
    ]
    monkeypatch.setattr(installation, "requires", lambda name: requirements)
    monkeypatch.setattr(installation, "installed_version", {"numpy": "2.0"}.get)
    assert installation.optional_libraries() == {"wandb": {"wandb": None}, "arrays": {"numpy": "2.0"}}
    assert checking._optional() == "optional: found arrays, not found wandb (pip install 'encoderlab[wandb]')"
