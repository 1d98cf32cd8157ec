"""Sweeps in their own folder, with training that takes no time."""

import sys
from pathlib import Path

import pytest

from encoderlab.cli import main as cli
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.folders.sweep import FINISHED, SweepFolder
from tests.experiment_models import REVERSE_MODEL

WITHOUT_HEADS = [setting for setting in REVERSE_MODEL if not setting.startswith("model.n_heads=")]  # sweeps vary them
TINY = " ".join(("task=reverse", *WITHOUT_HEADS, "training=smoke dataset.limit=60 training.steps=4 baselines=false"))


@pytest.fixture
def sweep(tmp_path, tmp_path_factory, monkeypatch):
    """Run a sweep in a new folder and return its records."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENCODERLAB_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setattr(sys, "argv", ["encoderlab"])

    def run(line, name="sweep"):
        cli.run(["train", "-m", *line.split(), *TINY.split(), f"sweep_dir={name}"])
        return SweepFolder(Path(name)).records()

    return run


@pytest.fixture
def commands(monkeypatch):
    """The configs that `train` is called with; it trains nothing, and raises the error registered for a seed."""
    called, raised = [], {}

    def train(config, **_):
        called.append(config)
        if config.seed in raised:
            raise raised[config.seed]
        return RunFolder(Path(config.run_dir))

    monkeypatch.setattr("encoderlab.commands.train.train", train)
    monkeypatch.setattr("encoderlab.sweeps.results.compare_runs", lambda *_: None)
    monkeypatch.setattr("encoderlab.sweeps.sweep.is_finished", lambda record: record.state == FINISHED)
    return called, raised
