"""Hands a finished run to MLflow or Weights & Biases: its settings, the numbers of each logged step, scores and report.

Nothing leaves this machine unless the tracker's own variables say so: MLflow writes to the folder mlruns, and Weights &
Biases to the folder wandb, from which `wandb sync` uploads.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from encoderlab.config.commands import RunConfig, Tracking
from encoderlab.errors import SettingError, UserError
from encoderlab.runs.run import Run
from encoderlab.settings import flat_settings

PROJECT = "encoderlab"  # an MLflow experiment, or a project of Weights & Biases
LONGEST_VALUE = 500  # characters of a setting that MLflow takes
AT_ONCE = 100  # settings that MLflow takes in one call
NO_NUMBERS = {"kind", "step", "split"}  # in a line of the journal


def check_trackers(config: RunConfig) -> None:
    """Raise SettingError if the library of a tracker is not installed, before anything is trained."""
    if config.tensorboard and find_spec("tensorboard") is None:
        problem = "tensorboard=true needs tensorboard, which is not installed"
        raise SettingError(problem, remedy='Run pip install "encoderlab[tensorboard]"')
    tracking = config.tracking
    if tracking is not None and find_spec(tracking.name) is None:
        problem = f"tracking={tracking.name} needs {tracking.name}, which is not installed"
        raise SettingError(problem, remedy=f'Run pip install "encoderlab[{tracking.name}]"')


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """What a tracker gets of a run: `curves` are numbers by name, with their step."""

    name: str
    settings: dict[str, str]
    curves: list[tuple[int, dict[str, float]]]
    scores: dict[str, float]
    files: list[Path]


def track(run: Run) -> None:
    """Hand a finished run to the tracker of its settings, if there is one; a resumed run may have brought them.

    Raises UserError with the tracker's own words if it fails.
    """
    settings = run.record.settings
    if settings["tracking"] is None:
        return
    tracking = Tracking[settings["tracking"]]

    # A tracker gets what a person would look up: settings, curves, final scores, and the report itself.
    record = TrackedRun(
        run.folder.name,
        {name: str(value)[:LONGEST_VALUE] for name, value in flat_settings(settings)},
        list(_curves(run)),
        dict(_scores(run.report)),
        [path for path in (run.report_file, run.page_file) if path.is_file()],
    )

    # A run is finished without its tracker, so an error there is told as one, and loses nothing.
    send = _to_mlflow if tracking is Tracking.mlflow else _to_wandb
    try:
        send(record)
    except Exception as error:  # of a library that is not ours, a server, a disk
        problem = f"The run in {run.folder} is finished, but {tracking.name} did not take it: {error}"
        raise UserError(problem) from None


def _to_mlflow(record: TrackedRun) -> None:
    # Without a server of one's own, everything goes into a folder, as nobody has asked for another place.
    mlflow = import_module("mlflow")
    if "MLFLOW_TRACKING_URI" not in os.environ:
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # since 3.7 it is only kept, and new users get SQLite
        mlflow.set_tracking_uri(Path("mlruns").resolve().as_uri())
    mlflow.set_experiment(PROJECT)
    with mlflow.start_run(run_name=record.name):
        # A server takes only so many settings in one request.
        names = list(record.settings)
        for first in range(0, len(names), AT_ONCE):
            mlflow.log_params({name: record.settings[name] for name in names[first : first + AT_ONCE]})
        for step, numbers in record.curves:
            mlflow.log_metrics(numbers, step=step)
        mlflow.log_metrics(record.scores)
        for path in record.files:
            mlflow.log_artifact(str(path))


def _to_wandb(record: TrackedRun) -> None:
    # Nothing leaves the machine unless somebody has said so.
    wandb = import_module("wandb")
    mode = os.environ.get("WANDB_MODE", "offline")
    run = wandb.init(project=PROJECT, name=record.name, config=record.settings, mode=mode)
    for step, numbers in record.curves:
        run.log(numbers, step=step)
    run.summary.update(record.scores)
    report = wandb.Artifact(f"report-{run.id}", type="report")
    for path in record.files:
        report.add_file(str(path))
    run.log_artifact(report)
    run.finish()


def _curves(run: Run) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield the numbers of each line of the journal with its step; a cross-validation has no journal of its own."""
    if not run.metrics_file.is_file():
        return
    for text in run.metrics_file.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        part = line.get("split", "train")
        yield line["step"], {f"{part}/{name}": value for name, value in line.items() if _is_number(name, value)}


def _scores(report: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the scores of each split by name, such as final/test/accuracy."""
    for split, scores in report.get("splits", {}).items():
        for name, value in scores.items():
            if _is_number(name, value):
                yield f"final/{split}/{name}", value


def _is_number(name: str, value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and name not in NO_NUMBERS and math.isfinite(value)
