"""The score by the values of a column, such as the language or the month of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from encoderlab.metrics.scores import PredictionScores
from encoderlab.metrics.slices import scores_by_value
from encoderlab.reports import wording
from encoderlab.reports.blocks import Block, Heading, Table, Text
from encoderlab.reports.predictions import cell

if TYPE_CHECKING:
    import datasets

EMPTY = "(empty)"


def scores_by_column(
    scores: PredictionScores, carried: datasets.Dataset | None, columns: Sequence[str], seed: int
) -> dict[str, dict[str, Any]]:
    """Return what report.json holds of the scored rows of a split by each of the columns; `carried` holds the cells."""
    by_column = {}
    for column in columns:
        assert carried is not None, "the columns were looked for when the rows were read"
        cells = carried.select_columns([column])[:][column]
        values = [str(cell(cells[int(row)])).strip() or EMPTY for row in scores.rows]
        by_column[column] = scores_by_value(scores, values, seed)
    return by_column


def slice_blocks(report: Mapping[str, Any], *, most: int) -> list[Block]:
    """Return the score by each column, and which value is the weakest; nothing if no column was named."""
    name = report["main_score"]
    scored = report["splits"][report["scored_split"]]
    score = wording.named_score(name, scored)
    blocks: list[Block] = []
    for column, facts in report.get("slices", {}).items():
        values = facts["values"]
        rows = []
        for value, own in list(values.items())[:most]:
            rows.append([wording.shown(value, 60), wording.number(own["n"]), wording.with_interval(own, name, "")])
        blocks.append(Table([wording.shown(column, 60), "rows", f"{score} (95% interval)"], rows))
        blocks.append(Text(_weakest(facts, column, name), tone="bold"))
    return [Heading("Scores by column"), *blocks] if blocks else []


def _weakest(facts: Mapping[str, Any], column: str, name: str) -> str:
    """Return which value is the weakest, and how far it is behind the other rows."""
    value = facts["weakest"]
    if value is None:
        return ""
    own = facts["values"][value]
    words = f"Weakest: {wording.shown(column, 60)} {wording.shown(value, 60)}, {wording.with_interval(own, name)}"
    words += f" of {wording.counted(own['n'], 'row')}; behind the other rows by "
    bounds = facts["behind_by_ci95"]
    chance = "" if bounds[0] > 0 else ", which chance may explain"
    return f"{words}{wording.signed(facts['behind_by'], bounds)}{chance}."
