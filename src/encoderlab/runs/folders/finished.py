"""Finished runs, read to be compared: their reports, settings and predictions, and whether they were scored on the same
rows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import yaml

from encoderlab.errors import DataError
from encoderlab.metrics.comparison import Answers
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.folders.sweep import FINISHED, JobRecord, SweepFolder
from encoderlab.settings import flat_settings
from encoderlab.system.bounded_yaml import load_yaml

# Where a run writes, how often it logs, what it computes on and what else it scores: none of these distinguishes
# experiments.
NOT_COMPARED = {
    *("schema", "run", "run_dir", "resume", "cache_dir", "baselines", "seed", "device", "threads", "precision"),
    *(
        "task.mean",
        "task.deviation",
        "training.log_every",
        "training.checkpoint_every",
        "training.device",
        "training.threads",
    ),
}
SEPARATOR = "|"  # between the labels of a set, in predictions.csv
Column = TypeVar("Column")
MOST_OF_A_REPORT = 200_000_000  # characters: a confusion matrix of thousands of classes is long


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run with a report. `settings` are its own, flat (`model.n_layers`), without those that do not distinguish
    experiments.
    """

    folder: RunFolder
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
    def scored(self) -> tuple[Any, ...]:
        """Return what identifies the scored rows: a fingerprint of texts and labels, and the targets."""
        fingerprint = self.dataset["splits"][self.split]["fingerprint"]
        return fingerprint, self.scores["n"], self.scores.get("target_tokens"), self.report.get("second_sentence")

    @property
    def seconds(self) -> float | None:
        """Return the seconds of training, if it was trained."""
        return self.report["throughput"].get("train_seconds")

    def journal(self) -> list[dict[str, Any]]:
        """Return the lines of its metrics.jsonl; none for an evaluation. Raises DataError if one cannot be read."""
        if not self.folder.metrics.is_file():
            return []
        try:
            return [json.loads(line) for line in self.folder.metrics.read_text(encoding="utf-8").splitlines()]
        except (OSError, ValueError) as error:
            raise DataError(f"{self.folder.metrics} cannot be read: {error}", remedy="Leave this run out") from None


def finished_runs(folders: Sequence[str]) -> tuple[list[FinishedRun], list[str]]:
    """Return the finished runs in `folders`, and a line for each unfinished one.

    A folder is that of a run, or of a sweep with all its runs. Raises DataError for one that is neither, or is damaged.
    """
    found: dict[Path, FinishedRun] = {}
    skipped: list[str] = []
    for root in _run_folders(folders, skipped):
        folder = RunFolder(root)
        if root.resolve() in found:
            continue
        if folder.finished:
            found[root.resolve()] = read_run(folder)
        elif folder.config.is_file():
            skipped.append(f"{root} is not finished and was skipped. Resume it with resume={root}")
        else:
            remedy = "Give run folders, such as outputs/train/sst2/*, or the folder of a sweep"
            raise DataError(f"{root} is not a run folder" if root.exists() else f"{root} does not exist", remedy=remedy)
    return list(found.values()), skipped


def _run_folders(folders: Sequence[str], skipped: list[str]) -> Iterator[Path]:
    for name in folders:
        sweep = SweepFolder(Path(name))
        records = sweep.records() if sweep.exists else []
        if records:
            yield from _of_sweep(sweep, records, skipped)
        else:
            yield Path(name)


def _of_sweep(sweep: SweepFolder, records: Sequence[JobRecord], skipped: list[str]) -> list[Path]:
    """Return the folders of its runs; problems are added to `skipped`. Raises DataError if all finished ones are
    missing.
    """
    there = [record.folder for record in records if record.folder is not None and record.folder.exists()]
    gone = [record.folder for record in records if record.state == FINISHED and record.folder not in (None, *there)]
    if not gone:
        return there
    runs = "1 run folder" if len(gone) == 1 else f"{len(gone)} run folders"
    words = f"{runs} of the sweep {sweep.root} cannot be found; looked for as {gone[0]}"
    words += ", ..." if len(gone) > 1 else ""
    if not there:
        raise DataError(
            words, remedy="Move or copy the sweep's folder together with its runs, whose paths are relative to it"
        )
    skipped.append(words)
    return there


def read_run(folder: RunFolder) -> FinishedRun:
    """Return the run in `folder`. Raises DataError if one of its records cannot be read."""
    report = _read(folder.report, json.loads)
    settings = dict(flat_settings(_read(folder.config, load_yaml)))
    environment = _read(folder.environment, json.loads)
    try:
        command = environment["command"]
        if command == "eval":
            settings = _of_what_was_evaluated(settings)
        settings = _with_encoder(settings)
        kept = {
            name: value for name, value in settings.items() if name not in NOT_COMPARED and not name.endswith(".schema")
        }
        run = FinishedRun(folder, report, kept | {"command": command}, environment["dataset"] or {})
        _ = (
            run.scored,
            run.seed,
            run.scores[report["main_figure"]],
            run.seconds,
            report["task"],
            report["model"]["parameters"],
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{folder.root} cannot be compared, because its records lack {error}",
            remedy="Leave it out, or score it again with encoderlab eval",
        ) from None
    return run


def _with_encoder(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with `encoder`, the model the user chose: `init_from` if set, otherwise the preset's name."""
    if "model.name" not in settings:
        return settings
    others = {name: value for name, value in settings.items() if name not in ("model.name", "init_from")}
    return {"encoder": settings.get("init_from") or settings["model.name"], **others}


def _of_what_was_evaluated(settings: dict[str, Any]) -> dict[str, Any]:
    """Return an evaluation's settings with those of the run it scored, so that evaluations of several seeds are
    grouped.
    """
    evaluated = RunFolder(Path(str(settings.get("run"))))
    if evaluated.root.name == "model":
        evaluated = RunFolder(evaluated.root.parent)
    if not evaluated.config.is_file():
        return settings | {"model": settings.get("run")}
    of_data = {name: value for name, value in settings.items() if name.startswith("dataset") and value is not None}
    return dict(flat_settings(_read(evaluated.config, load_yaml))) | of_data


def _read(path: Path, parse: Any) -> dict[str, Any]:
    try:
        with path.open(encoding="utf-8") as file:
            found = parse(file.read(MOST_OF_A_REPORT))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path} cannot be read: {reason}", remedy="Leave this run out") from None
    if not isinstance(found, dict):
        raise DataError(f"{path} is not the record of a run", remedy="Leave this run out")
    return found


def check_comparable(runs: Iterable[FinishedRun]) -> None:
    """Raise DataError if the runs have different tasks, or were scored on different splits or rows."""
    first, *others = runs
    for other in others:
        two = f"{other.folder.root} and {first.folder.root}"
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
        return _same_rows(runs, [_whole_answers(run) for run in runs])
    of_words = "token_accuracy" in runs[0].scores
    tables = [_answers_by_row(run, of_words) for run in runs]
    n_read = np.min([[len(labels) for labels, _ in table] for table in tables], axis=0)
    found = []
    for run, table in zip(runs, tables, strict=True):
        labels, predicted = (
            np.concatenate([row[side][:n] for row, n in zip(table, n_read, strict=True)]) for side in (0, 1)
        )
        row, names = np.repeat(np.arange(len(n_read)), n_read), tuple(run.scores["per_class"])
        found.append(Answers(labels, predicted, row, len(n_read), len(names), of_words, _positive(run), names))
    return _same_rows(runs, found)


def _positive(run: FinishedRun) -> int | None:
    """Return the id of the positive class of a binary task; None otherwise."""
    label = run.scores.get("positive_label")
    return None if label is None else list(run.scores["per_class"]).index(label)


def _same_rows(runs: Sequence[FinishedRun], found: list[Answers]) -> list[Answers]:
    """Return the predictions after checking that they are for the same rows."""
    for run, answers in zip(runs, found, strict=True):
        if not np.array_equal(answers.labels, found[0].labels):
            raise DataError(
                f"{run.folder.predictions} has other labels than {runs[0].folder.predictions}",
                remedy="Leave one of them out",
            )
    return found


def _whole_answers(run: FinishedRun) -> Answers:
    """Return the numbers or the sets of labels of each row."""
    names = list(run.scores.get("per_class", {}))

    def read(cells: Sequence[str]) -> np.ndarray:
        if not names:
            return np.array([float(cell) for cell in cells])
        marks = np.zeros((len(cells), len(names)), bool)
        for row, cell in enumerate(cells):
            marks[row, [names.index(label) for label in cell.split(SEPARATOR) if label]] = True
        return marks

    labels, predicted = _columns_of(run, read)
    return Answers(labels, predicted, np.arange(len(labels)), len(labels), len(names), of_words=False)


def _answers_by_row(run: FinishedRun, of_words: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return for each row the ids of its labels and of its predictions: one of each, or one for each word."""
    ids = {name: place for place, name in enumerate(run.scores["per_class"])}

    def read(cells: Sequence[str]) -> list[np.ndarray]:
        rows = ((cell.split(" ") if cell else []) if of_words else [cell] for cell in cells)
        return [np.array([ids[name] for name in names], dtype=np.int64) for names in rows]

    found = list(zip(*_columns_of(run, read), strict=True))
    if any(len(labels) != len(predicted) for labels, predicted in found):
        raise _other_rows(run)
    return found


def _columns_of(run: FinishedRun, read: Callable[[Sequence[str]], Column]) -> tuple[Column, Column]:
    """Return the labels and predictions in predictions.csv, parsed by `read`. Raises DataError if it fails, or rows are
    missing.
    """
    from pandas import read_csv

    path = run.folder.predictions
    try:
        table = read_csv(path, usecols=["label", "predicted"], dtype=str, keep_default_na=False)
        found = read(table["label"].tolist()), read(table["predicted"].tolist())
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} cannot be read: {error}", remedy="Leave this run out") from None
    if len(table) != run.scores["n"]:
        raise _other_rows(run)
    return found


def _other_rows(run: FinishedRun) -> DataError:
    rows = f"the {run.scores['n']:,} rows that were scored"
    return DataError(f"{run.folder.predictions} does not contain {rows}", remedy="Leave this run out")


def print_skipped(lines: Iterable[str]) -> None:
    """Print on standard error which runs are skipped."""
    for line in lines:
        print(f"encoderlab: {line}", file=sys.stderr)
