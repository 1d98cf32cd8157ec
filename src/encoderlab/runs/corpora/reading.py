"""How much of its rows a model reads: which are truncated, and which are read in several windows."""

from __future__ import annotations

from collections.abc import Mapping

from encoderlab.tasks.rows import ExampleRows
from encoderlab.tasks.task import Task
from encoderlab.training.batches import Rows


def reading_notes(rows: Mapping[str, Rows], task: Task) -> list[str]:
    """Return a sentence for each split that has rows longer than the model reads at once."""
    notes = [_note(f"of the rows of {name}", part, task) for name, part in rows.items()]
    return [note for note in notes if note]


def reading_note(rows: Rows, task: Task) -> list[str]:
    """Return the same for the rows of one split, without its name; empty if none of them is longer."""
    note = _note("of the rows", rows, task)
    return [note] if note else []


def _note(of_rows: str, rows: Rows, task: Task) -> str:
    if task.windows is None or not isinstance(rows, ExampleRows):
        share = rows.truncated_share()
        return f"{share:.1%} {of_rows} were truncated to {task.limit}" if share else ""
    windows, too_long = rows.windows(), int(rows.truncated().sum())
    several = windows > 1
    if not several.any():
        return ""
    capped = (
        f"; {too_long:,} still longer: {task.windows.most} evenly spaced windows of each (task.max_windows)"
        if too_long
        else ""
    )
    read = f"read in windows of {task.max_length} tokens, {windows[several].mean():.1f} on average (task.windows)"
    return f"{several.mean():.1%} {of_rows} were {read}{capped}"
