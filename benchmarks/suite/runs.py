"""Runs of the suite, one process each: finished runs are not repeated, interrupted ones are resumed, crashes are
recorded.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.machine import provenance
from benchmarks.processes import ROOT, finished, python
from benchmarks.suite.plan import Run, Settings, filled
from encoderlab.errors import SettingError, TrainingError

Record = dict[str, Any]


def check_unchanged(runs: Sequence[Run]) -> None:
    """Raise SettingError if a folder contains a run of another command, whose figures would pass for those of this one."""
    for run in runs:
        record = read_record(run)
        if record and (ROOT / run.folder).exists() and record["command"] != list(run.words):
            differing = sorted(set(record["command"]) ^ set(run.words))
            raise SettingError(
                f"{run.folder} contains a run of another command, which differs in {' '.join(differing)}",
                remedy=f"Delete {run.folder} to repeat the run, or set output=FOLDER",
            )


def perform(run: Run) -> Record:
    """Do the run, unless it is finished, and return its record: command, seconds, memory, machine, and the error if it
    failed.

    A run that was interrupted is resumed, and then has no `wall_seconds`.
    """
    folder, earlier = ROOT / run.folder, read_record(run)
    if earlier and (folder / "report.json").is_file():
        return earlier
    timed = run.settings.timed and (earlier or {}).get("timed", True)  # all of it, if it is resumed
    record: Record = {
        "command": list(run.words),
        "error": None,
        "wall_seconds": None,
        "peak_memory": None,
        "timed": timed,
    }
    record["made"] = provenance()
    if run.teacher and not (ROOT / run.teacher / "report.json").is_file():
        return _keep(run, record | {"error": portable(f"There is no finished teacher in {run.teacher}", run.settings)})
    is_resumed = (folder / "config.yaml").is_file()
    command, *words = filled(run.words, run.settings.places)
    _keep(run, record)
    try:
        done = finished(python("-m", "encoderlab", command, *([f"resume={run.folder}"] if is_resumed else words)))
    except TrainingError as error:
        return _keep(run, record | {"error": portable(_last_line(error), run.settings)})
    wall = None if is_resumed else round(done.seconds, 1)
    return _keep(run, record | {"wall_seconds": wall, "peak_memory": done.peak_memory})


def read_record(run: Run) -> Record | None:
    """Return the record of the run; None if it never started."""
    path = ROOT / run.record
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def outcome(run: Run, record: Record) -> str:
    """Return the outcome of the run in one line."""
    if record["error"]:
        return f"failed: {record['error']}"
    report = json.loads((ROOT / run.folder / "report.json").read_text(encoding="utf-8"))
    figure = report["main_figure"]
    score = report["splits"][report["scored_split"]][figure]
    return f"{figure.replace('_', ' ')} {score:.3f}, {report['throughput']['train_seconds'] / 60:.1f} min of training"


def call(module: str, *arguments: str) -> None:
    """Run one of our modules in its own process: loading PyTorch here would count as memory of the runs. Raises
    TrainingError.
    """
    print(finished(python("-m", module, *arguments)).output, end="", file=sys.stderr)


def portable(text: str, settings: Settings) -> str:
    """Return the text with names in place of this machine's folders."""
    for name, folder in settings.places.items():
        text = text.replace(folder, name.upper())
    return text.replace(f"{ROOT}/", "")


def _last_line(error: TrainingError) -> str:
    """Return the last line of a failed process, without its command, which the record already has."""
    message, _, of = error.wrong.rpartition(" (exit code ")
    return f"{message} (exit code {of.partition(' ')[0]})"


def _keep(run: Run, record: Record) -> Record:
    path = ROOT / run.record
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return record
