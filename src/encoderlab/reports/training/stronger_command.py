"""The command most likely to beat a baseline that this run did not beat."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from encoderlab.encoders.catalogue import SHIPPED, describe
from encoderlab.errors import printable
from encoderlab.runs.models.hub_model import at_hand

KEPT = ("task", "dataset", "experiment")  # groups that say what is learnt from which rows
OWN_CONFIGS = ("--config-dir", "-cd", "--config-path", "-cp")  # flags, which the overrides do not hold
GENERATED = ("brackets", "reverse")  # rows without words: nothing that was pretrained on texts reads them
TIME = "5m"  # to adapt
LARGER, LARGER_PARAMETERS = "sentence-transformers/all-MiniLM-L6-v2", 22_713_216  # finetuned in minutes on two cores


def stronger_command(
    report: Mapping[str, Any],
    record: Mapping[str, Any],
    settings: Mapping[str, Any],
    is_at_hand: Callable[[str], bool] = at_hand,
) -> str | None:
    """What to type next; None where the model is above its best baseline, nothing was compared, or nothing stronger would work.

    `report` is the run's report.json, `record` its environment.json, and `settings` its config.yaml. A run from scratch is to be
    finetuned from the encoder in the box. A finetuned one is to start from a larger encoder, where one `is_at_hand`, or else to
    read the task's texts first. Above is above with the whole paired interval; see the report's verdict.
    """
    verdict = report["verdict"]
    if verdict is None or verdict["outcome"] == "above" or not _can_be_typed_again(record) or not _has_words(settings):
        return None
    same = [one for one in record["overrides"] if one.partition("=")[0].partition(".")[0] in KEPT]
    if report["command"] == "train":
        same = [one for one in same if not one.startswith("experiment=")]
        same = same if any(one.startswith("task=") for one in same) else [f"task={report['task']}", *same]
        start = next((name for name in (SHIPPED, LARGER) if is_at_hand(name)), None)
        return start and _line(same, start)
    return _after_finetuning(report, same, is_at_hand) if report["command"] == "finetune" else None


def _after_finetuning(report: Mapping[str, Any], same: list[str], is_at_hand: Callable[[str], bool]) -> str | None:
    """The same from a larger encoder, the one in the box first; else from the same one, with time to read the texts."""
    start, parameters = report["init_from"], report["model"]["parameters"]
    if start != SHIPPED and is_at_hand(SHIPPED) and parameters < describe(SHIPPED).n_parameters:
        return _line(same, SHIPPED)
    if start != LARGER and parameters < LARGER_PARAMETERS and is_at_hand(LARGER):
        return _line(same, LARGER)
    return _line(same, start, f"adapt={TIME}") if report.get("adapted_for") is None else None


def _can_be_typed_again(record: Mapping[str, Any]) -> bool:
    """Whether the overrides say all: nothing came from Python, or from a folder of configs of the user's own."""
    from_own = any(one.startswith(OWN_CONFIGS) for one in record.get("argv", []))
    return record["overrides"] is not None and not from_own


def _has_words(settings: Mapping[str, Any]) -> bool:
    """Whether the rows are texts that an encoder's own tokenizer can read."""
    return settings["tokenizer"]["schema"] != "symbols" and settings["dataset"]["schema"] not in GENERATED


def _line(same: list[str], start: str, *more: str) -> str:
    """A finetuning on the same rows; the encoder in the box need not be named."""
    named = [] if start == SHIPPED else [f"init_from={start}"]
    return printable(shlex.join(["encoderlab", "finetune", *same, *named, *more]))
