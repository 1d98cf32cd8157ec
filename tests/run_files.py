"""The files of a run, read back for a test."""

import json
from pathlib import Path

TIMES = ("seconds", "time", "tokens_per_second", "examples_per_second")  # the figures that no two runs share


def report_of(folder):
    """Return the run's report.json."""
    return json.loads(Path(folder, "report.json").read_text(encoding="utf-8"))


def journal_of(folder, without=()):
    """Return the lines of the run's metrics.jsonl without timings and the figures named in `without`."""
    lines = map(json.loads, Path(folder, "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [{key: value for key, value in line.items() if key not in (*TIMES, *without)} for line in lines]
