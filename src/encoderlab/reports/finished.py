"""Finished runs, read to be compared: their reports, settings and predictions, and whether they were scored on the same
rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import yaml

from encoderlab.errors import DataError
from encoderlab.metrics.comparison import SEPARATOR, Answers
from encoderlab.settings import flat_settings

# Where a run writes, how often it logs, what it computes on and what else it scores: none of these distinguishes
# experiments.
NOT_COMPARED = {
    *("schema", "run", "run_dir", "resume", "cache_dir", "baselines", "seed", "device", "threads", "precision"),
    *("task.mean", "task.deviation"),
    *(f"training.{name}" for name in ("log_every", "checkpoint_every", "device", "threads")),
}
Column = TypeVar("Column")


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run with a report. `settings` are its own, flat (`model.n_layers`), without those that do not distinguish
    experiments; `dataset` is what environment.json records of its rows.
    """

    folder: Path
    report: dict[str, Any]
    settings: dict[str, Any]
    dataset: dict[str, Any]

    @property
    def seed(self) -> int:
        """Return the seed it was trained with."""
        return self.report["seed"]

    @property
    def split(self) -> str:
        """Return the split whose scores are compared."""
        return self.report["scored_split"]

    @property
    def scores(self) -> dict[str, Any]:
        """Return the scores of that split."""
        return self.report["splits"][self.split]

    @property
    def predictions(self) -> Path:
        """Return the path of its predictions, which a pretraining run does not have."""
        return self.folder / "predictions.csv"

    @property
    def scored(self) -> tuple[Any, ...]:
        """Return what identifies the scored rows: a fingerprint of texts and labels, and the targets."""
        fingerprint = self.dataset["splits"][self.split]["fingerprint"]
        return fingerprint, self.scores["n"], self.scores.get("target_tokens"), self.report.get("second_sentence")

    @property
    def seconds(self) -> float | None:
        """Return the seconds of training, if it was trained."""
        return self.report["throughput"].get("train_seconds")

    @property
    def training_rows(self) -> int | None:
        """Return the number of rows it was trained on, if that is recorded."""
        return self.dataset["splits"].get("train", {}).get("rows")

    def journal(self) -> list[dict[str, Any]]:
        """Return the lines of its metrics.jsonl; none for an evaluation. Raises DataError if one cannot be read."""
        path = self.folder / "metrics.jsonl"
        if not path.is_file():
            return []
        try:
            return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        except (OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read: {error}", remedy="Leave this run out") from None


def finished_runs(folders: Iterable[Path]) -> tuple[list[FinishedRun], list[str]]:
    """Return the finished runs among these run folders, and a line for each unfinished one.

    Raises DataError for a folder that does not hold a run, or a damaged one.
    """
    runs: dict[Path, FinishedRun] = {}
    skipped: list[str] = []
    for folder in folders:
        if folder.resolve() in runs:
            continue
        if (folder / "report.json").is_file():
            runs[folder.resolve()] = read_run(folder)
        elif (folder / "config.yaml").is_file():
            skipped.append(f"{folder} is not finished and was skipped. Resume it with resume={folder}")
        else:
            wrong = f"{folder} is not a run folder" if folder.exists() else f"{folder} does not exist"
            raise DataError(wrong, remedy="Give run folders, such as outputs/train/sst2/*, or the folder of a sweep")
    return list(runs.values()), skipped


def read_run(folder: Path) -> FinishedRun:
    """Return the run in `folder`. Raises DataError if one of its records cannot be read."""
    report = _read(folder / "report.json", json.loads)
    settings = dict(flat_settings(_read(folder / "config.yaml", yaml.safe_load)))
    environment = _read(folder / "environment.json", json.loads)
    try:
        command = environment["command"]
        if command == "eval":
            settings = _of_evaluated_run(settings)
        kept = {
            name: value
            for name, value in _with_encoder(settings).items()
            if name not in NOT_COMPARED and not name.endswith(".schema")
        }
        run = FinishedRun(folder, report, kept | {"command": command}, environment["dataset"] or {})
        _ = run.scored, run.seed, run.scores[report["main_figure"]], run.seconds, report["task"]
        _ = report["model"]["parameters"]
    except (KeyError, TypeError, AttributeError) as error:
        wrong = f"{folder} cannot be compared, because its records lack {error}"
        raise DataError(wrong, remedy="Leave it out, or score it again with encoderlab eval") from None
    return run


def _with_encoder(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with `encoder`, the model the user chose: `init_from` if set, otherwise the preset's name."""
    if "model.name" not in settings:
        return settings
    others = {name: value for name, value in settings.items() if name not in ("model.name", "init_from")}
    return {"encoder": settings.get("init_from") or settings["model.name"], **others}


def _of_evaluated_run(settings: dict[str, Any]) -> dict[str, Any]:
    """Return an evaluation's settings with those of the run it scored, so that evaluations of several seeds are
    grouped.
    """
    evaluated = Path(str(settings.get("run")))
    evaluated = evaluated.parent if evaluated.name == "model" else evaluated
    config = evaluated / "config.yaml"
    if not config.is_file():
        return settings | {"model": settings.get("run")}
    of_data = {name: value for name, value in settings.items() if name.startswith("dataset") and value is not None}
    return dict(flat_settings(_read(config, yaml.safe_load))) | of_data


def _read(path: Path, parse: Callable[[str], Any]) -> dict[str, Any]:
    try:
        record = parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path} cannot be read: {reason}", remedy="Leave this run out") from None
    if not isinstance(record, dict):
        raise DataError(f"{path} is not the record of a run", remedy="Leave this run out")
    return record


def check_comparable(runs: Iterable[FinishedRun]) -> None:
    """Raise DataError if the runs have different tasks, or were scored on different splits or rows."""
    first, *others = runs
    for other in others:
        two = f"{other.folder} and {first.folder}"
        if other.report["task"] != first.report["task"]:
            tasks = f"{other.report['task']} and {first.report['task']}"
            raise DataError(f"{two} have different tasks: {tasks}", remedy="Compare the runs of one task at a time")
        if other.split != first.split:
            remedy = "Score both on one split with encoderlab eval run=... split=validation, and compare those runs"
            raise DataError(f"{two} were scored on different splits: {other.split} and {first.split}", remedy=remedy)
        if other.scored != first.scored:
            remedy = "Score both on the same rows with encoderlab eval run=... dataset=..., and compare those runs"
            if "mlm_accuracy" in first.scores:
                remedy = "Pretrain both on the same documents, with the same tokenizer, length and kind of pairs"
            raise DataError(f"{two} were scored on different rows of {first.split}", remedy=remedy)


def read_answers(runs: Sequence[FinishedRun]) -> list[Answers]:
    """Return each run's predictions from predictions.csv, on the rows all were scored on; for words, those that every
    run read.

    Raises DataError if the files do not contain the same rows.
    """
    if "pearson" in runs[0].scores or "subset_accuracy" in runs[0].scores:
        answers = [_whole_answers(run) for run in runs]
    else:
        answers = _classes(runs)
    for run, one in zip(runs, answers, strict=True):
        if not np.array_equal(one.labels, answers[0].labels):
            wrong = f"{run.predictions} has other labels than {runs[0].predictions}"
            raise DataError(wrong, remedy="Leave one of them out")
    return answers


def _whole_answers(run: FinishedRun) -> Answers:
    """Return the numbers or the sets of labels of each row."""
    names = list(run.scores.get("per_class", {}))

    def parse(cells: Sequence[str]) -> np.ndarray:
        if not names:
            return np.array([float(cell) for cell in cells])
        marks = np.zeros((len(cells), len(names)), bool)
        for row, cell in enumerate(cells):
            marks[row, [names.index(label) for label in cell.split(SEPARATOR) if label]] = True
        return marks

    labels, predicted = _columns_of(run, parse)
    return Answers(labels, predicted, np.arange(len(labels)), len(labels), len(names), of_words=False)


def _classes(runs: Sequence[FinishedRun]) -> list[Answers]:
    """Return the class ids of each row, or of the words that every run read."""
    of_words = "token_accuracy" in runs[0].scores
    tables = [_ids_by_row(run, of_words) for run in runs]
    n_read = np.min([[len(labels) for labels, _ in table] for table in tables], axis=0)
    row = np.repeat(np.arange(len(n_read)), n_read)
    answers = []
    for run, table in zip(runs, tables, strict=True):
        labels, predicted = (
            np.concatenate([ids[side][:n] for ids, n in zip(table, n_read, strict=True)]) for side in (0, 1)
        )
        names, positive = tuple(run.scores["per_class"]), run.scores.get("positive_label")
        place = None if positive is None else names.index(positive)
        answers.append(Answers(labels, predicted, row, len(n_read), len(names), of_words, place, names))
    return answers


def _ids_by_row(run: FinishedRun, of_words: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return for each row the ids of its labels and of its predictions: one of each, or one for each word."""
    ids = {name: place for place, name in enumerate(run.scores["per_class"])}

    def parse(cells: Sequence[str]) -> list[np.ndarray]:
        rows = ((cell.split(" ") if cell else []) if of_words else [cell] for cell in cells)
        return [np.array([ids[name] for name in names], dtype=np.int64) for names in rows]

    table = list(zip(*_columns_of(run, parse), strict=True))
    if any(len(labels) != len(predicted) for labels, predicted in table):
        raise _other_rows(run)
    return table


def _columns_of(run: FinishedRun, parse: Callable[[Sequence[str]], Column]) -> tuple[Column, Column]:
    """Return the labels and predictions in predictions.csv. Raises DataError if they cannot be parsed, or rows are
    missing.
    """
    from pandas import read_csv

    try:
        table = read_csv(run.predictions, usecols=["label", "predicted"], dtype=str, keep_default_na=False)
        columns = parse(table["label"].tolist()), parse(table["predicted"].tolist())
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{run.predictions} cannot be read: {error}", remedy="Leave this run out") from None
    if len(table) != run.scores["n"]:
        raise _other_rows(run)
    return columns


def _other_rows(run: FinishedRun) -> DataError:
    rows = f"the {run.scores['n']:,} rows that were scored"
    return DataError(f"{run.predictions} does not contain {rows}", remedy="Leave this run out")
