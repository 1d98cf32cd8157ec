"""A command line inside a temporary folder, and one small finished run of each kind."""

import json
import os
import signal
import sys

import pytest

from encoderlab.cli import main as cli
from encoderlab.runs.fitting.journal import Journal
from encoderlab.system import signals as interruption
from encoderlab.system.signals import Interrupted
from tests.experiment_models import BRACKETS_MODEL, REVERSE_MODEL


@pytest.fixture(autouse=True, scope="module")
def _plots_not_laid_out(plots_not_laid_out) -> None:
    pass


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """One cache for the whole session."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def command(tmp_path, monkeypatch, cache):
    """Run a command line in a temporary folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENCODERLAB_CACHE", str(cache))
    return run


def run(*arguments):
    """Run one command line."""
    before = sys.argv
    try:
        cli.run([str(argument) for argument in arguments])
    finally:
        sys.argv = before


@pytest.fixture
def printed(command, capsys):
    """Run a command line and return the JSON that it prints."""

    def read(*arguments):
        capsys.readouterr()
        command(*arguments)
        return json.loads(capsys.readouterr().out)

    return read


@pytest.fixture(scope="session")
def run_in():
    """Run a command line with a cache folder, for fixtures that outlive a test."""

    def run_with(cache, *arguments):
        os.environ["ENCODERLAB_CACHE"] = str(cache)
        run(*arguments)

    return run_with


def trained(folder, cache, *arguments):
    """A finished run in `folder`."""
    os.environ["ENCODERLAB_CACHE"] = str(cache)
    run("train", *arguments, "training.threads=1", f"run_dir={folder}")
    return folder


@pytest.fixture(scope="session")
def brackets_run(tmp_path_factory, cache):
    """A finished run that classifies whole texts."""
    folder = tmp_path_factory.mktemp("runs") / "brackets"
    return trained(folder, cache, "task=brackets", *BRACKETS_MODEL, "training=smoke", "dataset.limit=300")


@pytest.fixture(scope="session")
def reverse_run(tmp_path_factory, cache):
    """A finished run that labels each word."""
    folder = tmp_path_factory.mktemp("runs") / "reverse"
    return trained(folder, cache, "task=reverse", *REVERSE_MODEL, "training=smoke", "dataset.limit=300")


@pytest.fixture(scope="session")
def pairs_run(tmp_path_factory, cache):
    """A finished run on pairs of texts from a file."""
    folder = tmp_path_factory.mktemp("runs")
    rows = [f'"title {n}","body {n % 7}",{("up", "down")[n % 2]}' for n in range(80)]
    (folder / "rows.csv").write_text("\n".join(["title,body,way", *rows]) + "\n", encoding="utf-8")
    columns = ("dataset.text=title", "dataset.text_pair=body", "dataset.label=way", "tokenizer.vocabulary_size=120")
    arguments = (
        "task=classification",
        "dataset=files",
        f"dataset.path={folder / 'rows.csv'}",
        *columns,
        "training=smoke",
    )
    return trained(folder / "pairs", cache, *arguments, "model=tiny", "dataset.test_fraction=0.2")


@pytest.fixture
def stop_after(monkeypatch):
    """Send a signal during a step."""

    count = Journal.step

    def stop(step):
        interruption._Received.number = None

        def interrupted(self, done):
            count(self, done)
            interruption._Received.number = signal.SIGTERM if done.number == step else None

        monkeypatch.setattr(Journal, "step", interrupted)

    yield stop
    interruption._Received.number = None


@pytest.fixture
def stopped(command, stop_after):
    """Start a run and stop it after a step."""

    def start(*arguments, step=5):
        stop_after(step)
        with pytest.raises(Interrupted):
            command("train", *arguments)
        stop_after(-1)

    return start
