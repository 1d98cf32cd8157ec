"""Scores of a model once it is fitted, and what its task still has to choose on held-out rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from encoderlab.metrics import AnswerScores
from encoderlab.runs.models.assembly import Assembly
from encoderlab.runs.models.task import build_task, with_thresholds
from encoderlab.tasks.rows import ExampleRows, Rows


def scores_of(assembly: Assembly, rows: Rows) -> AnswerScores:
    """The scores of a model that answers with labels or numbers, on all of `rows`."""
    scores = assembly.evaluate(rows)
    assert isinstance(scores, AnswerScores)
    return scores


def truncated_scores(assembly: Assembly, rows: ExampleRows) -> AnswerScores | None:
    """The scores of the same model where it reads only the first window of each row; None where no row has several."""
    return scores_of(assembly, rows.first_windows()) if (rows.windows() > 1).any() else None


def score_splits(assembly: Assembly, rows: Mapping[str, Rows]) -> tuple[Assembly, dict[str, AnswerScores]]:
    """The scores of every split but `train`, and the assembly with the thresholds that were fitted on validation.

    They hold for the other splits and for the model that is saved. Without validation they are 0.5; a task without thresholds
    stays as it is.
    """
    held_out = scores_of(assembly, rows["validation"]) if "validation" in rows else None
    settings = with_thresholds(assembly.config.task, assembly.task.labels, held_out)
    task = build_task(settings, assembly.tokenizer, assembly.task.labels, assembly.task.max_length)
    assembly = replace(assembly, task=task, config=replace(assembly.config, task=settings))
    others = {name: scores_of(assembly, part) for name, part in rows.items() if name not in ("train", "validation")}
    return assembly, ({} if held_out is None else {"validation": held_out}) | others
