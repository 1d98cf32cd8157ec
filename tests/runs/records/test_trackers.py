"""Trackers get what the journal gets, are found again by a resumed run, and never stop a run."""

import json
import sys
import threading
from pathlib import Path

import pytest

from encoderlab.errors import SettingError
from encoderlab.runs.records import trackers as tracking
from encoderlab.runs.records.trackers import Trackers, check_trackers, tracked
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.system.signals import Interrupted
from tests.experiment_models import BRACKETS_MODEL
from tests.runs.records.tracked_runs import REPORT, STEP, config

EVALUATION = {"kind": "evaluation", "step": 4, "epoch": 1.0, "split": "validation", "accuracy": 0.75}


LEFT_OUT = {"kind": "skipped", "step": 4, "loss": None}


FIGURES = {"report/test/n": 9, "report/test/accuracy": 0.5, "report/baseline/majority/accuracy": 0.25}


class Noted:
    """A library that records its calls."""

    def __init__(self, subject, known):
        self.id, self.calls, self.subject, self.known = known or "mine", [], subject, known

    def log(self, step, figures):
        self.calls.append((step, figures))

    def report(self, step, figures):
        self.calls.append(("report", step, figures))

    def close(self, finished):
        self.calls.append(finished)


@pytest.fixture
def noted(monkeypatch):
    """Return all runs opened in the stand-in for a library."""
    opened = []

    def open_(subject, known):
        opened.append(Noted(subject, known))
        return opened[-1]

    monkeypatch.setitem(tracking.LIBRARIES, "wandb", open_)
    return opened


def test_a_tracker_gets_settings_figures_and_the_outcome(folder, noted):
    with tracked(config("wandb"), "train", folder, SINGLE_PROCESS) as trackers:
        for line in (STEP, LEFT_OUT, EVALUATION):
            trackers.log(line)
        trackers.report(REPORT)
    (run,) = noted
    assert run.calls == [
        (3, {"train/loss": 0.25, "train/tokens": 12}),
        (4, {"validation/accuracy": 0.75}),
        ("report", 4, FIGURES),
        True,
    ]
    assert run.subject.name == f"train-brackets-{folder.root.name}"
    assert run.subject.settings["training"]["epochs"] == 3
    assert json.loads(folder.trackers.read_text()) == {"wandb": "mine"}


def test_a_resumed_run_is_the_same_run_in_the_tracker(folder, noted):
    folder.trackers.write_text('{"wandb": "of yesterday"}')
    with tracked(config("wandb"), "train", folder, SINGLE_PROCESS):
        pass
    folder.trackers.write_text('{"wandb": "of yest')
    with tracked(config("wandb"), "train", folder, SINGLE_PROCESS):
        pass
    assert [run.known for run in noted] == ["of yesterday", None]


@pytest.mark.parametrize("ending", [Interrupted(15), ValueError("no")])
def test_a_stopped_or_failed_run_is_not_reported_as_finished(folder, noted, ending):
    with pytest.raises(type(ending)), tracked(config("wandb"), "train", folder, SINGLE_PROCESS):
        raise ending
    assert noted[0].calls == [False]


def test_only_the_main_process_reports_to_trackers(folder, noted):
    with tracked(config("wandb"), "train", folder, Processes(rank=1, size=2)) as trackers:
        trackers.log(STEP)
    assert noted == [] and not folder.trackers.exists()


@pytest.mark.parametrize("broken", ["open", "log", "report", "close"])
def test_a_failing_tracker_is_reported_once_and_stops_nothing(folder, monkeypatch, capsys, broken):
    class Broken(Noted):
        def __init__(self, subject, known):
            super().__init__(subject, known)
            self._fail("open")

        def _fail(self, where):
            if where == broken:
                raise ConnectionError("the server\nis gone")

        def log(self, step, figures):
            self._fail("log")

        def report(self, step, figures):
            self._fail("report")

        def close(self, finished):
            self._fail("close")

    monkeypatch.setitem(tracking.LIBRARIES, "wandb", Broken)
    with tracked(config("wandb"), "train", folder, SINGLE_PROCESS) as trackers:
        for _ in range(5):
            trackers.log(STEP)
        trackers.report(REPORT)
    errors = capsys.readouterr().err
    assert (
        errors == "encoderlab: wandb has failed (ConnectionError: the server is gone): the run continues without it\n"
    )


def test_a_tracker_that_tries_to_exit_ends_only_itself(folder, monkeypatch, capsys):
    monkeypatch.setitem(tracking.LIBRARIES, "wandb", lambda *_: sys.exit("no key"))
    with tracked(config("wandb"), "train", folder, SINGLE_PROCESS) as trackers:
        trackers.log(STEP)
    assert "wandb has failed (SystemExit: no key)" in capsys.readouterr().err


def test_a_hanging_tracker_is_not_waited_for(folder, monkeypatch, capsys):
    for_ever = threading.Event()
    monkeypatch.setattr(tracking, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setitem(tracking.LIBRARIES, "wandb", lambda subject, known: for_ever.wait(60))
    with tracked(config("wandb"), "train", folder, SINGLE_PROCESS) as trackers:
        trackers.log(STEP)
    assert "wandb has failed (it does not answer)" in capsys.readouterr().err
    for_ever.set()


def test_without_trackers_nothing_is_written(folder):
    with tracked(config(), "train", folder, SINGLE_PROCESS) as trackers:
        trackers.log(STEP)
        trackers.report(REPORT)
    assert list(folder.root.iterdir()) == []
    assert trackers == Trackers([])


def test_a_missing_library_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(tracking, "find_spec", lambda name: None if name == "wandb" else object())
    check_trackers(["tensorboard"])
    with pytest.raises(SettingError) as refused:
        check_trackers(["wandb", "tensorboard"])
    assert str(refused.value) == (
        "trackers=[wandb,tensorboard] needs libraries that are not installed: wandb. "
        "Run pip install 'encoderlab[wandb]', or remove trackers."
    )


def test_an_unknown_tracker_is_refused():
    with pytest.raises(
        SettingError,
        match=r"Unknown tracker tensorbord\. Allowed: tensorboard, .* Did you mean trackers=\[tensorboard\]\?",
    ):
        config("tensorbord")


@pytest.mark.slow
def test_a_run_is_tracked_to_its_report_and_can_change_trackers_on_resume(tmp_path, monkeypatch, noted):
    from encoderlab.cli import main as cli

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENCODERLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.argv", ["encoderlab"])
    monkeypatch.setattr(tracking, "find_spec", lambda name: object())
    quick = [
        "task=brackets",
        "dataset.limit=80",
        *BRACKETS_MODEL,
        "training=smoke",
        "training.threads=1",
        "baselines=false",
    ]
    cli.run(
        [
            "train",
            *quick,
            "training.steps=6",
            "training.checkpoint_every=3",
            "training.log_every=1",
            "run_dir=run",
            "trackers=[wandb]",
        ]
    )
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    report = json.loads(Path("run/report.json").read_text())
    steps = [call[0] for call in noted[0].calls[:-2] if "train/loss" in call[1]]
    assert steps == [line["step"] for line in lines if line["kind"] == "step"]
    assert noted[0].calls[-2][2]["report/test/accuracy"] == report["splits"]["test"]["accuracy"]
    assert noted[0].calls[-1] is True
    Path("run/report.json").unlink()
    cli.run(["train", "resume=run", "trackers=[]"])
    assert len(noted) == 1 and Path("run/report.json").is_file()
