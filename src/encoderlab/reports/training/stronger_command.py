"""The command most likely to beat a baseline that this run did not beat."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from encoderlab.encoders.catalogue import SHIPPED, describe
from encoderlab.errors import printable
from encoderlab.runs.models.hub_model import at_hand

KEPT = ("task", "dataset", "experiment")  # groups that define what is learned from which rows
OWN_CONFIGS = ("--config-dir", "-cd", "--config-path", "-cp")  # flags, which are not among the overrides
GENERATED = ("brackets", "reverse")  # rows without words, which encoders pretrained on text cannot read
TIME = "5m"  # to adapt
LARGER, LARGER_PARAMETERS = "sentence-transformers/all-MiniLM-L6-v2", 22_713_216  # finetuned in minutes on two cores


def stronger_command(
    report: Mapping[str, Any],
    record: Mapping[str, Any],
    settings: Mapping[str, Any],
    is_at_hand: Callable[[str], bool] = at_hand,
) -> str | None:
    """Return the next command line; None if the model is above its best baseline, nothing was compared, or nothing
    stronger works.

    `report` is the run's report.json, `record` its environment.json, and `settings` its config.yaml. A run from scratch
    is finetuned from the included encoder. A finetuned one starts from a larger encoder, if one `is_at_hand`, or
    otherwise first adapts to the task's texts. Above means with the whole paired interval; see the report's verdict.
    """
    verdict = report["verdict"]
    if verdict is None or verdict["outcome"] == "above" or not _can_be_repeated(record) or not _has_words(settings):
        return None
    same = [one for one in record["overrides"] if one.partition("=")[0].partition(".")[0] in KEPT]
    if report["command"] == "train":
        same = [one for one in same if not one.startswith("experiment=")]
        same = same if any(one.startswith("task=") for one in same) else [f"task={report['task']}", *same]
        start = next((name for name in (SHIPPED, LARGER) if is_at_hand(name)), None)
        return start and _line(same, start)
    return _after_finetuning(report, same, is_at_hand) if report["command"] == "finetune" else None


def _after_finetuning(report: Mapping[str, Any], same: list[str], is_at_hand: Callable[[str], bool]) -> str | None:
    """Return the same command from a larger encoder, the included one first; otherwise from the same one, with
    adaptation.
    """
    start, parameters = report["init_from"], report["model"]["parameters"]
    if start != SHIPPED and is_at_hand(SHIPPED) and parameters < describe(SHIPPED).n_parameters:
        return _line(same, SHIPPED)
    if start != LARGER and parameters < LARGER_PARAMETERS and is_at_hand(LARGER):
        return _line(same, LARGER)
    return _line(same, start, f"adapt={TIME}") if report.get("adapted_for") is None else None


def _can_be_repeated(record: Mapping[str, Any]) -> bool:
    """Return whether the overrides are complete: nothing came from Python, or from the user's own configs."""
    from_own = any(one.startswith(OWN_CONFIGS) for one in record.get("argv", []))
    return record["overrides"] is not None and not from_own


def _has_words(settings: Mapping[str, Any]) -> bool:
    """Return whether the rows are texts that an encoder's own tokenizer can read."""
    return settings["tokenizer"]["schema"] != "symbols" and settings["dataset"]["schema"] not in GENERATED


def _line(same: list[str], start: str, *more: str) -> str:
    """Return a finetuning command on the same rows; the included encoder need not be named."""
    named = [] if start == SHIPPED else [f"init_from={start}"]
    return printable(shlex.join(["encoderlab", "finetune", *same, *named, *more]))
