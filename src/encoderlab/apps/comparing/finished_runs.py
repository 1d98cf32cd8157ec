"""Finished runs as a comparison reads them from their folders: settings, scores and predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from encoderlab.errors import DataError
from encoderlab.metrics import scores_of_predictions
from encoderlab.metrics.comparison import SEPARATOR
from encoderlab.metrics.scores import PredictionScores
from encoderlab.reports.facts import PRECISIONS
from encoderlab.settings import flat_settings
from encoderlab.system.records import json_of, record_of, yaml_of

MACHINE = ("precision", "threads", "processes", "device", "device_name", "processor")  # of the recorded hardware
# Where a run writes, how often it logs, what it computes on and what else it scores do not distinguish experiments.
NOT_COMPARED = {
    *(
        "schema",
        "run",
        "run_dir",
        "resume",
        "config",
        "cache_dir",
        "baselines",
        "seed",
        "device",
        "threads",
        "precision",
    ),
    *("tensorboard", "tracking", "training.keep_state"),
    *("task.mean", "task.deviation", "dataset.slices", "against", "allowed_drop"),
    *(f"training.{name}" for name in ("log_every", "checkpoint_every", "device", "threads", "measure")),
}


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run with a report, and the `scores` on its scored `split`.

    `settings`, flat (`model.n_layers`), are those that distinguish experiments, and `typed` the text of those and of
    groups (`training`) that were typed; None if the run was started from Python. `machine` has what else scores depend
    on: precision, threads, device, versions. `scored` identifies the scored rows: task, split, a fingerprint of texts
    and labels, and the targets. A pretraining run has no `predictions`.
    """

    folder: Path
    report: dict[str, Any]
    settings: dict[str, Any]
    typed: dict[str, str] | None
    machine: dict[str, str]
    seed: int
    split: str
    scores: dict[str, Any]
    predictions: Path
    scored: tuple[Any, ...]
    training_rows: int | None

    @property
    def explicit(self) -> frozenset[str] | None:
        """Return the names of the settings and groups that were typed."""
        return None if self.typed is None else frozenset(self.typed)


def finished_runs(folders: Iterable[Path]) -> tuple[list[FinishedRun], list[str]]:
    """Return the finished runs among these run folders, and a line for each unfinished one.

    Raises DataError for a folder that does not hold a run, or a damaged one.
    """
    runs: dict[Path, FinishedRun] = {}
    skipped: list[str] = []
    for folder in folders:
        if (folder / "report.json").is_file():
            runs.setdefault(folder.resolve(), read_run(folder))
        elif (folder / "config.yaml").is_file():
            skipped.append(f"{folder} is not finished and was skipped. Resume it with resume={folder}")
        else:
            problem = f"{folder} is not a run folder" if folder.exists() else f"{folder} does not exist"
            raise DataError(problem, remedy="Give run folders, such as outputs/train/sst2/*, or the folder of a sweep")
    return list(runs.values()), skipped


def read_run(folder: Path) -> FinishedRun:
    """Return the run in `folder`. Raises DataError if one of its records cannot be read."""
    report, environment = (_read(folder / name, json_of) for name in ("report.json", "environment.json"))
    settings = dict(flat_settings(_read(folder / "config.yaml", yaml_of)))
    try:
        trained = environment  # the record of the training; of an evaluation, that of the run which was scored
        if environment["command"] == "eval":
            settings, trained = _evaluated_run(settings)
        if "model.name" in settings:  # `encoder` is the model the user chose: `init_from`, or the preset's name
            preset = settings.pop("model.name")
            start = settings.pop("init_from", None)
            settings = {"encoder": start or preset, **settings}
        settings["command"] = trained.get("command", environment["command"])
        computed = PRECISIONS.get(trained.get("hardware", {}).get("precision"))
        if computed is not None and "training.precision" in settings:
            settings["training.precision"] = computed  # which `auto` does not say
        kept = {}
        for name, value in settings.items():
            if name not in NOT_COMPARED and not name.endswith(".schema"):
                kept[name] = value
        split = report["scored_split"]
        rows = environment["dataset"]["splits"]
        scores = report["splits"][split]
        targets = (scores.get("target_tokens"), report.get("second_sentence"))
        scored = (report["task"], split, rows[split]["fingerprint"], scores["n"], *targets)
        _ = scores[report["main_score"]], report["throughput"]  # which a comparison reads
        n_rows = (trained.get("dataset") or {}).get("splits", {}).get("train", {}).get("rows")
        predictions = folder / "predictions.csv"
        overrides = trained.get("overrides")
        if overrides is not None:
            overrides = [*trained.get("inherited", []), *overrides]
        return FinishedRun(
            folder,
            report,
            kept,
            _typed(overrides),
            _machine(environment),
            report["seed"],
            split,
            scores,
            predictions,
            scored,
            n_rows,
        )
    except (KeyError, TypeError, AttributeError) as error:
        problem = f"{folder} cannot be compared, because its records lack {error}"
        raise DataError(problem, remedy="Leave it out, or score it again with encoderlab eval") from None


def _typed(overrides: Sequence[str] | None) -> dict[str, str] | None:
    """Return what was typed of settings and groups by their names; that of the model is `encoder`."""
    if overrides is None:
        return None
    typed = {}
    for override in overrides:
        name, _, text = override.lstrip("+~").partition("=")
        typed["encoder" if name in ("model", "init_from") else name] = text
    return typed


def _machine(environment: Mapping[str, Any]) -> dict[str, str]:
    """Return what a run's scores depend on besides its settings: versions, hardware, and the commit of this code."""
    hardware = environment.get("hardware", {})
    known = {name: hardware.get(name) for name in MACHINE}
    known |= environment.get("versions", {})
    known["git commit"] = (environment.get("git_commit") or "")[:12] or None
    return {name.replace("_", " "): str(value) for name, value in known.items() if value is not None}


def _evaluated_run(settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings and the record of the run that an evaluation scored, by which evaluations are grouped; of a
    model without a run only its name, and no record.

    What it was scored on is no part of them: only runs that were scored on the same rows are compared.
    """
    evaluated = Path(str(settings.get("run")))
    folder = evaluated.parent if evaluated.name == "model" else evaluated
    if not (folder / "config.yaml").is_file():
        return {"model": settings.get("run")}, {}
    record = folder / "environment.json"
    settings = dict(flat_settings(_read(folder / "config.yaml", yaml_of)))
    return settings, _read(record, json_of) if record.is_file() else {}


def _read(path: Path, parse: Callable[[str], Any]) -> dict[str, Any]:
    try:
        return dict(parse(record_of(path)))
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path} cannot be read: {error}", remedy="Leave this run out") from None


def read_predictions(runs: Sequence[FinishedRun]) -> list[PredictionScores]:
    """Return the predictions in each predictions.csv and their scores; of words, those that every run read.

    Raises DataError if the files do not contain the same rows.
    """
    sides = [_columns_of(run) for run in runs]
    if isinstance(sides[0][0], list):
        n_read = np.min([[len(words) for words in labels] for labels, _ in sides], axis=0)
        sides = [(_first_words(labels, n_read), _first_words(predicted, n_read)) for labels, predicted in sides]
    scores = []
    labels_of_first = sides[0][0]
    for run, (labels, predicted) in zip(runs, sides, strict=True):
        if any(not np.array_equal(*pair) for pair in zip(labels, labels_of_first, strict=True)):
            problem = f"{run.predictions} has other labels than {runs[0].predictions}"
            raise DataError(problem, remedy="Leave one of them out")
        names = list(run.scores.get("per_class", {}))
        positive_label = run.scores.get("positive_label")
        positive = 1 if positive_label is None else names.index(positive_label)
        main_score = run.report["main_score"]
        beta = run.scores.get("beta")
        scores.append(scores_of_predictions(labels, predicted, names, main_score, positive, beta))
    return scores


def _first_words(ids: Sequence[np.ndarray], n_words: np.ndarray) -> list[np.ndarray]:
    """Return the label ids of the first words of each sentence, `n_words` of them, [sentences]."""
    return [sentence_ids[:n] for sentence_ids, n in zip(ids, n_words, strict=True)]


def _columns_of(run: FinishedRun) -> tuple[Any, Any]:
    """Return the labels and predictions in predictions.csv. Raises DataError if rows are missing or unreadable."""
    from pandas import read_csv

    try:
        table = read_csv(run.predictions, usecols=["label", "predicted"], dtype=str, keep_default_na=False)
        labels = _parsed(table["label"].tolist(), run.scores)
        predicted = _parsed(table["predicted"].tolist(), run.scores)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{run.predictions} cannot be read: {error}", remedy="Leave this run out") from None
    if len(table) != run.scores["n"]:
        problem = f"{run.predictions} does not contain the {run.scores['n']:,} rows that were scored"
        raise DataError(problem, remedy="Leave this run out")
    return labels, predicted


def _parsed(cells: Sequence[str], scores: Mapping[str, Any]) -> Any:
    """Return the labels of a column of predictions.csv, as `scores_of_predictions` wants them."""
    if "pearson" in scores:
        return np.array(cells, float)
    ids = {name: place for place, name in enumerate(scores["per_class"])}
    if "subset_accuracy" in scores:
        marks = np.zeros((len(cells), len(ids)), bool)
        for row, cell in enumerate(cells):
            marks[row, [ids[label] for label in cell.split(SEPARATOR) if label]] = True
        return marks
    if "token_accuracy" in scores:
        return [np.array([ids[name] for name in cell.split(" ") if cell], np.int64) for cell in cells]
    return np.array([ids[cell] for cell in cells], np.int64)
