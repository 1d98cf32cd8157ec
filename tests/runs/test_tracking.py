"""Trackers: a finished run is handed over whole, and a tracker that is not there is named before anything is trained."""

import sys
import types
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from encoderlab.errors import SettingError, UserError
from encoderlab.system.processes import Interrupted
from tests.run_files import report_of

SMALL = ("task=brackets", "model=tiny", "training=smoke", "training.steps=6", "training.threads=1", "baselines=false")
ROWS = tuple(f"dataset.{split}_rows=40" for split in ("train", "validation", "test"))


@pytest.fixture
def mlflow(monkeypatch):
    """A stand-in for MLflow that keeps what it is given."""
    kept = types.SimpleNamespace(uri="", params={}, metrics={}, artifacts=[])
    module = types.ModuleType("mlflow")
    module.__spec__ = ModuleSpec("mlflow", None)

    @contextmanager
    def start_run(run_name):
        kept.name = run_name
        yield

    vars(module).update(
        start_run=start_run,
        set_tracking_uri=lambda uri: setattr(kept, "uri", uri),
        set_experiment=lambda name: None,
        log_params=kept.params.update,
        log_metrics=lambda numbers, step=None: kept.metrics.update({(n, step): v for n, v in numbers.items()}),
        log_artifact=lambda path: kept.artifacts.append(Path(path).name),
    )
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return kept


@pytest.fixture(autouse=True)
def _plots(plots_not_laid_out) -> None:
    pass


@pytest.mark.slow
def test_a_tracker_gets_settings_curves_scores_and_the_report_offline(command, mlflow, tmp_path):
    command("train", *SMALL, *ROWS, "tracking=mlflow", "run_dir=run")
    test = report_of("run")["splits"]["test"]
    assert mlflow.uri == (tmp_path / "mlruns").as_uri() and mlflow.name == "run"
    assert mlflow.params["training.steps"] == "6" and mlflow.params["task.name"] == "brackets"
    assert mlflow.metrics["final/test/accuracy", None] == test["accuracy"]
    assert mlflow.metrics["train/loss", 1] > 0
    assert sorted(mlflow.artifacts) == ["report.html", "report.json"]


@pytest.mark.slow
def test_a_resumed_run_is_handed_over_as_it_was_begun(command, mlflow, stop_after):
    stop_after(3)
    with pytest.raises(Interrupted):
        command("train", *SMALL, *ROWS, "tracking=mlflow", "run_dir=run")
    stop_after(-1)
    command("train", "resume=run")
    assert "report.json" in mlflow.artifacts


def test_a_tracker_that_fails_costs_no_run(command, mlflow, monkeypatch):
    def refuse(name):
        raise RuntimeError("no such experiment")

    monkeypatch.setattr(sys.modules["mlflow"], "set_experiment", refuse)
    with pytest.raises(UserError, match="is finished, but mlflow did not take it: no such experiment"):
        command("train", *SMALL, *ROWS, "tracking=mlflow", "run_dir=run")
    assert report_of("run")["splits"]


def test_a_tracker_that_is_not_installed_is_refused_before_the_run(command, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(SettingError, match="pip install"):
        command("train", *SMALL, *ROWS, "tracking=wandb")
    assert list(tmp_path.iterdir()) == []
