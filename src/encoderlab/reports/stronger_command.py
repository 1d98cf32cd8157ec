"""The command most likely to beat a baseline that this run did not beat."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from encoderlab.errors import printable

KEPT = ("task", "dataset", "experiment")  # groups that say what is learnt from which rows
TIME = "5m"  # to adapt
LARGER = "sentence-transformers/all-MiniLM-L6-v2"  # 6 layers of width 384, finetuned in minutes on two cores


def stronger_command(report: Mapping[str, Any], record: Mapping[str, Any]) -> str | None:
    """What to type next; None where the model is above its best baseline, nothing was compared, or the run has no command line.

    `report` is the run's report.json and `record` its environment.json. A run from scratch is to be finetuned instead, and a
    finetuned one from a larger encoder, and then with time to read the texts. Above is above with the whole paired interval; see
    the report's verdict.
    """
    overrides, verdict = record.get("overrides"), report["verdict"]
    if overrides is None or verdict is None or verdict["outcome"] == "above":
        return None
    same = [one for one in overrides if one.partition("=")[0].partition(".")[0] in KEPT]
    if report["command"] == "train":
        same = [one for one in same if not one.startswith("experiment=")]
        start = [] if any(one.startswith("task=") for one in same) else [f"task={report['task']}"]
        return _line([*start, *same])
    if report["command"] == "finetune" and report["init_from"] != LARGER:
        return _line([*same, f"init_from={LARGER}"])
    if report["command"] == "finetune" and report.get("adapted_for") is None:
        return _line([*same, f"init_from={LARGER}", f"adapt={TIME}"])
    return None


def _line(arguments: list[str]) -> str:
    return printable(shlex.join(["encoderlab", "finetune", *arguments]))
