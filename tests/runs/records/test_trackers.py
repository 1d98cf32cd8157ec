"""Trackers get what the journal gets, are found again by a resumed run, and never stop a run."""

import json
import sys
import threading
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from encoderlab.config.command_settings import RunConfig
from encoderlab.data.sources.generated import BracketsDataset
from encoderlab.data.tokenizers.config import SymbolsConfig
from encoderlab.errors import SettingError
from encoderlab.model.config import ModelConfig
from encoderlab.runs.folders.folder import RunFolder
from encoderlab.runs.records import trackers as tracking
from encoderlab.runs.records.trackers import Trackers, check_trackers, tracked
from encoderlab.system.distributed import SINGLE_PROCESS, Processes
from encoderlab.system.signals import Interrupted
from encoderlab.tasks.config import ClassificationConfig
from encoderlab.training.config import TrainingConfig
from tests.experiment_models import BRACKETS_MODEL

STEP = {"kind": "step", "step": 3, "epoch": 0.5, "loss": 0.25, "gradient_norm": None, "tokens": 12}
EVALUATION = {"kind": "evaluation", "step": 4, "epoch": 1.0, "split": "validation", "accuracy": 0.75}
LEFT_OUT = {"kind": "skipped", "step": 4, "loss": None}
REPORT = {
    "checkpoint": {"step": 4},
    "splits": {"test": {"n": 9, "accuracy": 0.5, "accuracy_ci95": [0.4, 0.6], "per_class": {}}},
    "baselines": {"majority": {"accuracy": 0.25}, "tfidf_logreg": {"accuracy": None, "skipped": "why"}},
}
FIGURES = {"report/test/n": 9, "report/test/accuracy": 0.5, "report/baseline/majority/accuracy": 0.25}


def config(*names):
    return RunConfig(
        cache_dir="cache",
        task=ClassificationConfig(name="brackets"),
        dataset=BracketsDataset(),
        tokenizer=SymbolsConfig(symbols=["("]),
        model=ModelConfig(),
        training=TrainingConfig(),
        trackers=list(names),
    )


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path)


class Noted:
    """A library that records its calls."""

    def __init__(self, subject, known):
        self.id, self.told, self.subject, self.known = known or "mine", [], subject, known

    def log(self, step, figures):
        self.told.append((step, figures))

    def report(self, step, figures):
        self.told.append(("report", step, figures))

    def close(self, finished):
        self.told.append(finished)


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
    assert run.told == [
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
    assert noted[0].told == [False]


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
    said = capsys.readouterr().err
    assert said == "encoderlab: wandb has failed (ConnectionError: the server is gone): the run continues without it\n"


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
        SettingError, match=r"Unknown tracker tensorbord\. Allowed: tensorboard, .* Did you mean trackers=\[tensorboard\]\?"
    ):
        config("tensorbord")


@pytest.mark.parametrize(
    ("variables", "netrc", "mode"),
    [
        ({}, "", "offline"),
        ({"WANDB_API_KEY": "k"}, "", "online"),
        ({"WANDB_API_KEY": "k", "WANDB_MODE": "disabled"}, "", "disabled"),
        ({}, "machine api.wandb.ai login user password k\n", "online"),
        ({"WANDB_BASE_URL": "https://here"}, "machine api.wandb.ai login user password k\n", "offline"),
    ],
)
def test_wandb_is_offline_without_a_key_and_never_asks_for_one(folder, monkeypatch, variables, netrc, mode):
    wandb = MagicMock(Settings=dict)
    run = wandb.init.return_value
    run.id = "w1"
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_BASE_URL", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    path = folder.root / "netrc"
    path.write_text(netrc)
    path.chmod(0o600)
    monkeypatch.setenv("NETRC", str(path))
    folder.trackers.write_text('{"wandb": "w1"}')
    with tracked(config("wandb"), "train", folder, SINGLE_PROCESS) as trackers:
        trackers.log(STEP)
        trackers.report(REPORT)
    opened = wandb.init.call_args.kwargs
    assert (opened["mode"], opened["project"], opened["id"], opened["resume"]) == (mode, "encoderlab", "w1", "allow")
    assert opened["dir"] == str(folder.root) and opened["settings"]["console"] == "off"
    assert [name for name, *_ in run.method_calls] == ["define_metric", "log", "summary.update", "finish"]
    run.log.assert_called_once_with({"step": 3, "train/loss": 0.25, "train/tokens": 12})
    run.finish.assert_called_once_with(exit_code=0)


def scalars(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_tensorboard_shows_a_resumed_run_as_one(folder):
    pytest.importorskip("tensorboard", reason="pip install 'encoderlab[tensorboard]'")
    with pytest.raises(Interrupted), tracked(config("tensorboard"), "train", folder, SINGLE_PROCESS) as trackers:
        for step in (1, 2, 3):
            trackers.log(STEP | {"step": step, "loss": float(step)})
        raise Interrupted(15)
    with tracked(config("tensorboard"), "train", folder, SINGLE_PROCESS) as trackers:
        for step in (3, 4):
            trackers.log(STEP | {"step": step, "loss": 10.0 * step})
        trackers.report(REPORT)
    found = scalars(folder.root)
    assert found["train/loss"] == [(1, 1.0), (2, 2.0), (3, 30.0), (4, 40.0)]
    assert found["report/test/accuracy"] == [(4, 0.5)]


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
    steps = [told[0] for told in noted[0].told[:-2] if "train/loss" in told[1]]
    assert steps == [line["step"] for line in lines if line["kind"] == "step"]
    assert noted[0].told[-2][2]["report/test/accuracy"] == report["splits"]["test"]["accuracy"]
    assert noted[0].told[-1] is True
    Path("run/report.json").unlink()
    cli.run(["train", "resume=run", "trackers=[]"])
    assert len(noted) == 1 and Path("run/report.json").is_file()
