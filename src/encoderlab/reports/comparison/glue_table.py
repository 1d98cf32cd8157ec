"""The table of GLUE: runs of several of its tasks, each task's figures over seeds, and the average of the tasks."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from rich.text import Text

from encoderlab.errors import DataError
from encoderlab.metrics.comparison import mean_over_runs
from encoderlab.reports.comparison.comparison import settings_of
from encoderlab.reports.comparison.files import folder_for_files
from encoderlab.reports.comparison.screen import WIDE, escaped, rows_of_table
from encoderlab.reports.outputs.glue import GLUE_TASKS, MISMATCHED
from encoderlab.reports.outputs.predictions import as_csv
from encoderlab.reports.parts.console import console_on, figure, line, listing, number, table_of, words_of
from encoderlab.reports.parts.run_report import json_safe
from encoderlab.runs.folders.finished import FinishedRun
from encoderlab.system.files import atomic_write_text

LEFT_OUT = "wnli"  # of most published averages
MEANING = (
    "A task's score is the mean of its figures, and the average is the mean of the tasks' scores, each task counting once "
    "(macro-average)"
)


def are_of_glue(runs: Sequence[FinishedRun]) -> bool:
    """Return whether the runs are of several of GLUE's tasks, and no others."""
    tasks = {run.report["task"] for run in runs}
    return len(tasks) > 1 and tasks <= GLUE_TASKS.keys()


def build_glue_table(runs: Sequence[FinishedRun]) -> dict[str, Any]:
    """Return the content of glue.json: JSON-safe.

    Each of `settings` has its `tasks`, in GLUE's order, and its `averages`: of all of these and, if WNLI is among them,
    of the others. Values are means over seeds, with their standard deviation. Raises DataError if a run lacks a figure
    of its task.
    """
    by_setting: dict[str, dict[str, list[FinishedRun]]] = {}
    notes: list[str] = []
    for task in GLUE_TASKS:
        found, skipped = settings_of([run for run in runs if run.report["task"] == task])
        notes += skipped
        for setting in found:
            by_setting.setdefault(setting.label, {})[task] = setting.runs
    settings = [_setting(label, tasks) for label, tasks in by_setting.items()]
    return json_safe({"settings": settings, "notes": [*notes, *_notes(settings)]})


def _setting(label: str, runs: Mapping[str, Sequence[FinishedRun]]) -> dict[str, Any]:
    scores = {task: {run.seed: _score(run, task) for run in some} for task, some in runs.items()}
    others = {task: found for task, found in scores.items() if task != LEFT_OUT}
    averages = [_average(list(scores.values()))]
    if others and others != scores:
        averages.append(_average(list(others.values()), f" without {GLUE_TASKS[LEFT_OUT].title}"))
    tasks = [_task(task, some, list(scores[task].values())) for task, some in runs.items()]
    missing = [GLUE_TASKS[task].title for task in GLUE_TASKS if task not in runs]
    return {"label": label, "tasks": tasks, "averages": averages, "missing": missing}


def _task(task: str, runs: Sequence[FinishedRun], scores: Sequence[float]) -> dict[str, Any]:
    figures = []
    for split, name in GLUE_TASKS[task].figures:
        values = [_value(run, split, name) for run in runs]
        figures.append({"split": split, "figure": name, "values": values, **asdict(mean_over_runs(values))})
    rows = runs[0].report["splits"]["validation"]["n"]
    folders = [{"folder": str(run.folder.root), "seed": run.seed} for run in runs]
    score = asdict(mean_over_runs(scores))
    return {
        "task": task,
        "title": GLUE_TASKS[task].title,
        "rows": rows,
        "figures": figures,
        "score": score,
        "runs": folders,
    }


def _score(run: FinishedRun, task: str) -> float:
    values = [_value(run, split, name) for split, name in GLUE_TASKS[task].figures]
    return sum(values) / len(values)


def _value(run: FinishedRun, split: str, name: str) -> float:
    value = run.report["splits"].get(split, {}).get(name)
    if not isinstance(value, int | float) or not math.isfinite(value):
        wanted = f"{words_of(name)} on {split}, by which GLUE scores {run.report['task']}"
        raise DataError(f"{run.folder.root} has no {wanted}", remedy="Leave this run out, or train it again")
    return value


def _average(scores: Sequence[Mapping[int, float]], which: str = "") -> dict[str, Any]:
    """Return the mean over tasks: of each seed if all tasks have the same seeds, otherwise of the tasks' means (`n` is
    None).
    """
    over = {"over": f"{'1 task' if len(scores) == 1 else f'{len(scores)} tasks'}{which}"}
    seeds = set(scores[0])
    if all(set(one) == seeds for one in scores):
        return over | asdict(mean_over_runs([sum(one[seed] for one in scores) / len(scores) for seed in sorted(seeds)]))
    means = [sum(one.values()) / len(one) for one in scores]
    return over | asdict(mean_over_runs([sum(means) / len(means)])) | {"n": None}


def _notes(settings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield notes to read before comparing its average with another."""
    yield MEANING
    for missing in dict.fromkeys(tuple(setting["missing"]) for setting in settings):
        if missing:
            yield f"Not run: {', '.join(missing)}. Averages are comparable only over the same tasks"
    yield f"Published averages usually leave out {GLUE_TASKS[LEFT_OUT].title}"
    if any(average["n"] is None for setting in settings for average in setting["averages"]):
        yield "The tasks were not run with the same seeds, so their average has no standard deviation"
    yield "Scores are on validation, where the checkpoints were chosen too; GLUE's server scores test"


def columns(table: Mapping[str, Any]) -> list[str]:
    """Return the column names of the table."""
    return [
        *(["setting"] if len(table["settings"]) > 1 else []),
        "task",
        "figures",
        "score",
        "std. dev.",
        "seeds",
        "rows",
    ]


def lines_of(table: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield the lines of the table: each task of each setting, and the setting's averages."""
    for setting in table["settings"]:
        first = [setting["label"]] if len(table["settings"]) > 1 else []
        for task in setting["tasks"]:
            score, figures = task["score"], ", ".join(_in_words(task["figures"]))
            yield [*first, task["title"], figures, *_mean(score), str(score["n"]), number(task["rows"])]
        for average in setting["averages"]:
            yield [
                *first,
                f"average of {average['over']}",
                "",
                *_mean(average),
                "" if average["n"] is None else str(average["n"]),
                "",
            ]


def _in_words(figures: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield each figure with its name; for MNLI, with its kind of rows."""
    kinds = len({one["split"] for one in figures}) > 1
    for one in figures:
        kind = " (mismatched)" if one["split"].endswith(MISMATCHED) else " (matched)" if kinds else ""
        yield f"{words_of(one['figure'])}{kind} {figure(one['value'])}"


def _mean(mean: Mapping[str, Any]) -> tuple[str, str]:
    return figure(mean["value"]), figure(mean["deviation"])


def headline(table: Mapping[str, Any]) -> str:
    """Return what the table shows, in one line."""
    tasks = {task["task"] for setting in table["settings"] for task in setting["tasks"]}
    settings = len(table["settings"])
    return f"GLUE on validation: {len(tasks)} of {len(GLUE_TASKS)} tasks" + (
        f", {settings} settings" if settings > 1 else ""
    )


def show_glue_table(table: Mapping[str, Any], paths: Mapping[str, str], file: TextIO | None = None) -> None:
    """Print a table as `build_glue_table` makes it, on standard error unless `file` is given."""
    console = console_on(file)
    console.width = console.width if console.is_terminal else WIDE
    console.print()
    console.print(Text(headline(table), style="bold"))
    shown = table_of(*columns(table))
    for cells in lines_of(table):
        shown.add_row(*cells)
    console.print("", shown, "", sep="\n")
    for note in table["notes"]:
        line(console, "Note", note)
    if paths:
        listing(console, "Files", [f"{name}: {path}" for name, path in paths.items()])


def write_glue_table(folder: Path, table: Mapping[str, Any]) -> dict[str, str]:
    """Write glue.json, glue.md and glue.csv (a line for each figure of a run) into `folder`; return their paths by
    name.

    Raises DataError if the folder cannot be written to.
    """
    texts = {
        "md": "\n".join(_markdown(table)) + "\n",
        "csv": _csv(table),
        "json": json.dumps(table, indent=2, ensure_ascii=False) + "\n",
    }
    with folder_for_files(folder):
        for kind, text in texts.items():
            atomic_write_text(folder / f"glue.{kind}", text)
    return {kind: str(folder / f"glue.{kind}") for kind in texts}


def _markdown(table: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"## {escaped(headline(table))}", "")
    yield from rows_of_table(columns(table), lines_of(table))
    yield from ("", *(f"- {escaped(note)}." for note in table["notes"]))


def _csv(table: Mapping[str, Any]) -> str:
    tasks = ((setting["label"], task) for setting in table["settings"] for task in setting["tasks"])
    rows = ([label, *cells] for label, task in tasks for cells in _figures_of_runs(task))
    return as_csv(["setting", "task", "split", "figure", "seed", "value", "folder"], rows)


def _figures_of_runs(task: Mapping[str, Any]) -> Iterator[list[Any]]:
    for one in task["figures"]:
        for run, value in zip(task["runs"], one["values"], strict=True):
            yield [task["task"], one["split"], one["figure"], run["seed"], value, run["folder"]]
