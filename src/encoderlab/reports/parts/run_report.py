"""What report.json, the page and the screen contain for any run, whatever its task."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from encoderlab.reports.parts.console import chosen, line, listing, speed
from encoderlab.reports.parts.shown_texts import shown
from encoderlab.runs.folder import RunFolder
from encoderlab.system.files import atomic_write_text

if TYPE_CHECKING:
    from encoderlab.metrics import SplitScores
    from encoderlab.runs.assembly import Assembly
    from encoderlab.runs.fit import Fitted


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run without its scores.

    `parameters` counts the model's, by part and as `total`; `checkpoint` holds step, chosen_by and chosen_on.
    """

    command: str
    task: str
    seed: int
    parameters: Mapping[str, int]
    throughput: Mapping[str, float]
    checkpoint: Mapping[str, Any]
    notes: Sequence[str] = ()
    init_from: str | None = None


def summary_of(command: str, assembly: Assembly, fitted: Fitted, init_from: str | None = None) -> RunSummary:
    """Return the summary of a run that `command` has trained or scored."""
    parameters = {"total": assembly.model.n_parameters, **assembly.model.parameters_by_part()}
    config = assembly.config
    return RunSummary(
        command,
        config.task.name,
        config.seed,
        parameters,
        fitted.throughput,
        fitted.checkpoint,
        fitted.notes,
        init_from,
    )


def scored_split(splits: Mapping[str, Any]) -> str:
    """Return the split that the verdict is about: test, otherwise validation, otherwise the first."""
    return next(name for name in ("test", "validation", *splits) if name in splits)


def run_report(
    run: RunSummary, splits: Mapping[str, SplitScores], figures: Mapping[str, Mapping[str, Any]], **own: Any
) -> dict[str, Any]:
    """Return the content of report.json: JSON-safe, with null for any figure that is not a finite number.

    `figures` are those of each split, with intervals; `own` is what one kind of run adds.
    """
    scored = scored_split(splits)
    return json_safe(
        {
            "command": run.command,
            "task": run.task,
            "seed": run.seed,
            "init_from": run.init_from,
            "model": {
                "parameters": run.parameters["total"],
                "parameters_by_part": {part: n for part, n in run.parameters.items() if part != "total"},
            },
            "scored_split": scored,
            "main_figure": splits[scored].main,
            "splits": figures,
            "baselines": {},
            "verdict": None,
            "throughput": run.throughput,
            "checkpoint": run.checkpoint,
            "notes": [*run.notes, *_caveats(splits[scored], scored, run.checkpoint)],
            **own,
        }
    )


def _caveats(scores: SplitScores, scored: str, checkpoint: Mapping[str, Any]) -> list[str]:
    """Return caveats that a reader of the scores should know."""
    found = []
    if scored == "train":
        found.append("The model was trained on these rows, so the scores show what it remembers, not what it can do.")
    if checkpoint.get("chosen_on") == scored:
        found.append(
            f"The checkpoint was chosen on {scored}, the split it is scored on, so its scores are slightly too good."
        )
    if scores.main.endswith(("accuracy", "f1_micro", "entity_f1")) and scores.figures[scores.main] == 1:
        found.append(
            f"Every prediction is right, so the interval has no width; with {scores.n:,} row{'s' * (scores.n != 1)}, "
            f"an error rate of up to {min(3 / scores.n, 1):.2g} is still possible (the rule of three)."
        )
    return found


def json_safe(value: Any) -> Any:
    """Return `value` in JSON's types; numbers that are not finite become null."""
    if isinstance(value, Mapping):
        return {str(key): json_safe(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(inner) for inner in value]
    if isinstance(value, np.ndarray | np.generic):
        return json_safe(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


def headline(report: Mapping[str, Any], main: str) -> dict[str, Any]:
    """Return what the head of every page shows: the figure `main` of the scored split, and the facts of the run."""
    scored = report["splits"][report["scored_split"]]
    low, high = scored[f"{main}_ci95"]
    return {
        "title": shown(f"encoderlab {report['command']} {report['task']}, seed {report['seed']}"),
        "value": scored[main],
        "low": low,
        "high": high,
        "n": scored["n"],
        "split": report["scored_split"],
        "verdict": report["verdict"] and report["verdict"]["sentence"],
        "checkpoint": chosen(report["checkpoint"]),
        "parameters": report["model"],
        "speed": speed(report["throughput"]),
        "notes": [shown(note) for note in report["notes"]],
        "init_from": report["init_from"] and shown(report["init_from"]),
    }


def metric_lines(folder: RunFolder) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl; none if the run has not trained."""
    if not folder.metrics.exists():
        return []
    return [json.loads(one) for one in folder.metrics.read_text(encoding="utf-8").splitlines()]


def write_last(folder: RunFolder, report: Mapping[str, Any]) -> None:
    """Write report.json, with which a run is finished."""
    atomic_write_text(folder.report, json.dumps(report, indent=2, ensure_ascii=False) + "\n")


def files_of(folder: RunFolder, *names: str) -> dict[str, str]:
    """Return the paths of some of the run's files by name, to be shown: page, report, predictions, plots, model."""
    return {name: str(getattr(folder, name)) for name in names}


def commands_for_encoder(folder: RunFolder) -> list[str]:
    """Return what to run next with an encoder that has no labels yet."""
    root = shlex.quote(str(folder.root))
    return [
        f"encoderlab finetune task=intents init_from={root}",
        f"encoderlab embed run={root} input=texts.txt output=vectors.npy",
    ]


def show_model(console: Console, report: Mapping[str, Any]) -> None:
    """Print where the weights come from and how many parameters there are."""
    line(console, "Started from", report["init_from"] or "")
    line(console, "Checkpoint", chosen(report["checkpoint"]))
    line(console, "Parameters", f"{report['model']['parameters']:,}")


def show_rest(
    console: Console, report: Mapping[str, Any], paths: Mapping[str, str], next_commands: Sequence[str]
) -> None:
    """Print what follows the figures: notes, the `paths` of files by name, and commands to run next."""
    for note in report["notes"]:
        line(console, "Note", note)
    listing(console, "Files", [f"{name}: {path}" for name, path in paths.items()])
    listing(console, "Next", next_commands)
